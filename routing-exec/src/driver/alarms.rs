//! The timers of a run: one for each attempt and one for the whole, each armed once at a time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::action::TimerId;

#[derive(Default)]
pub(super) struct Alarms {
    armed: Vec<Alarm>,
}

struct Alarm {
    id: TimerId,
    at: Instant,
    sleep: Sleep,
}

pub(super) type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Alarms {
    /// Sets a timer, in place of where it stood.
    pub(super) fn arm(&mut self, id: TimerId, at: Instant, sleep: Sleep) {
        self.disarm(id);
        self.armed.push(Alarm { id, at, sleep });
    }

    pub(super) fn disarm(&mut self, id: TimerId) {
        self.armed.retain(|alarm| alarm.id != id);
    }

    pub(super) fn clear(&mut self) {
        self.armed.clear();
    }

    /// A timer whose time has come, whether or not anything woke for it.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<TimerId> {
        let due = self.armed.iter().position(|alarm| alarm.at <= now)?;
        Some(self.armed.swap_remove(due).id)
    }

    /// A timer that went off. Pending only if each was asked and has not.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TimerId> {
        let gone_off = self.armed.iter_mut().position(|alarm| alarm.sleep.as_mut().poll(cx).is_ready());
        gone_off.map_or(Poll::Pending, |at| Poll::Ready(self.armed.swap_remove(at).id))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::task::Waker;
    use std::time::Duration;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn arming_a_timer_again_moves_it() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut alarms = Alarms::default();
        alarms.arm(TimerId::Deadline, now, Box::pin(async {}));
        alarms.arm(TimerId::Deadline, now + second, Box::pin(pending()));
        assert!(alarms.poll(&mut Context::from_waker(Waker::noop())).is_pending(), "the first one is gone");
        assert_eq!(alarms.take_due(now), None);
        assert_eq!(alarms.take_due(now + second), Some(TimerId::Deadline));
        assert_eq!(alarms.take_due(now + second), None, "and goes off once");
    }
}
