//! Bounds of a dispatch in all: its total timeout, and pauses while this process lacks what a connection takes.
//!
//! The rule: where the total bound has passed, nothing is sent any more and no pod is charged.

use std::time::{Duration, Instant};

use super::Dispatch;
use crate::action::{Action, TimerId};
use crate::error::DispatchError;

impl Dispatch {
    /// Sets the total bound, which is the request's own deadline or the policy's timeout, whichever comes first.
    pub(super) fn set_bound(&mut self, now: Instant) {
        let timeout = self.config.policy.request_timeout;
        let own = self.request.deadline.map(|at| (at, DispatchError::DeadlineExceeded));
        let total = now.checked_add(timeout).map(|at| (at, DispatchError::RequestTimeout(timeout)));
        self.bound = [own, total].into_iter().flatten().min_by_key(|(at, _)| *at);
        if let Some((at, _)) = &self.bound {
            let at = *at;
            self.push(Action::SetTimer(TimerId::Deadline, at));
        }
    }

    /// When it ends, complete or not.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.bound.as_ref().map(|(at, _)| *at)
    }

    /// The error of a total bound that has passed.
    pub(super) fn bound_passed(&self, now: Instant) -> Option<DispatchError> {
        self.bound.as_ref().filter(|(at, _)| *at <= now).map(|(_, error)| error.clone())
    }

    pub(super) fn on_deadline(&mut self, now: Instant) {
        match (self.bound_passed(now), &self.bound) {
            (Some(error), _) => self.finish_with(error, now),
            (None, Some((at, _))) => {
                let at = *at;
                self.push(Action::SetTimer(TimerId::Deadline, at));
            }
            (None, None) => {}
        }
    }

    /// Waits a little before a leg is sent again, longer each time.
    pub(super) fn pause(&mut self, leg: usize, now: Instant) {
        let leg = &mut self.legs[leg];
        leg.release_local();
        let pause = LOCAL_PAUSE.saturating_mul(1 << leg.pauses.min(MAX_PAUSES));
        leg.pauses += 1;
        self.is_paused = true;
        self.push(Action::SetTimer(TimerId::Pause, now.checked_add(pause).unwrap_or(now)));
    }

    /// Sends what was to be sent before the pause.
    pub(super) fn on_pause_over(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_paused) {
            self.advance(now);
        }
    }
}

/// The first pause; each is twice as long as the one before. A descriptor comes back as soon as any connection ends.
const LOCAL_PAUSE: Duration = Duration::from_millis(50);
/// Pauses of a leg, a third of a second in all: what lasts longer is the operator's to mend, and the client is told.
pub(super) const MAX_PAUSES: u32 = 3;
