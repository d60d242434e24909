//! Timers of a dispatch: one for each attempt and one for its deadline.
//!
//! They wake by a waker of their own: a dispatch that is woken for every chunk asks no timer whether it fired, unless one did.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use super::wakeups::Wakeups;
use crate::action::TimerId;

#[derive(Default)]
pub(super) struct Timers {
    armed: Vec<ArmedTimer>,
    wakeups: Wakeups,
    /// Whether one was set since they were last polled.
    is_changed: bool,
}

struct ArmedTimer {
    id: TimerId,
    at: Instant,
    sleep: Sleep,
}

pub(super) type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Timers {
    /// Sets a timer, or moves it.
    pub(super) fn set(&mut self, id: TimerId, at: Instant, sleep: Sleep) {
        self.clear(id);
        self.is_changed = true;
        self.armed.push(ArmedTimer { id, at, sleep });
    }

    pub(super) fn clear(&mut self, id: TimerId) {
        self.armed.retain(|timer| timer.id != id);
    }

    /// A timer that is due, whether or not its sleep has woken.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<TimerId> {
        let due = self.armed.iter().position(|timer| timer.at <= now)?;
        Some(self.armed.swap_remove(due).id)
    }

    /// A timer that fired. Pending only if all were polled.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TimerId> {
        let (is_woken, waker) = self.wakeups.take(cx);
        if !is_woken && !self.is_changed {
            return Poll::Pending;
        }
        let mut cx = Context::from_waker(waker);
        let fired = self.armed.iter_mut().position(|timer| timer.sleep.as_mut().poll(&mut cx).is_ready());
        // Those behind one that fired were not polled.
        self.is_changed = fired.is_some();
        fired.map_or(Poll::Pending, |at| Poll::Ready(self.armed.swap_remove(at).id))
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
    fn setting_a_timer_again_moves_it() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut timers = Timers::default();
        timers.set(TimerId::Deadline, now, Box::pin(async {}));
        timers.set(TimerId::Deadline, now + second, Box::pin(pending()));
        assert!(timers.poll(&mut Context::from_waker(Waker::noop())).is_pending(), "the first one is replaced");
        assert_eq!(timers.take_due(now), None);
        assert_eq!(timers.take_due(now + second), Some(TimerId::Deadline));
        assert_eq!(timers.take_due(now + second), None, "and fires once");
    }
}
