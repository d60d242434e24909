//! Legs: the state of each step, and which one is sent next.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use routing_core::Pod;

use super::attempt::Attempt;
use super::{Dispatch, State};
use crate::action::{Action, AttemptId, TimerId};
use crate::error::DispatchError;
use crate::failure::Failure;
use crate::handoff::HandoffError;
use crate::hook::Target;
use crate::report::AttemptRecord;

/// The state of a step of the plan.
#[derive(Debug, Default)]
pub(super) struct Leg {
    pub(super) state: LegState,
    /// Pods that failed in it, which are not retried.
    pub(super) failed: Vec<Pod>,
    /// How many of them were sent a request: those with an open breaker were not.
    pub(super) sent: u32,
    /// The last failure.
    pub(super) failure: Option<Failure>,
}

#[derive(Debug, Default)]
#[expect(clippy::large_enum_variant, reason = "a leg is in flight most of the time, and there are few")]
pub(super) enum LegState {
    #[default]
    Pending,
    InFlight(Attempt),
    /// A pod's response is complete.
    Done(Pod, Bytes),
    /// Its pods failed, and the next step runs without it.
    Skipped,
}

impl Leg {
    pub(super) fn attempt(&self) -> Option<&Attempt> {
        if let LegState::InFlight(attempt) = &self.state { Some(attempt) } else { None }
    }

    pub(super) fn attempt_mut(&mut self) -> Option<&mut Attempt> {
        if let LegState::InFlight(attempt) = &mut self.state { Some(attempt) } else { None }
    }

    /// Takes the attempt in flight, if there is one; the leg is pending then.
    pub(super) fn take_attempt(&mut self) -> Option<Attempt> {
        match std::mem::take(&mut self.state) {
            LegState::InFlight(attempt) => Some(attempt),
            state => {
                self.state = state;
                None
            }
        }
    }

    /// Whether its response is still to come.
    pub(super) fn is_unfinished(&self) -> bool {
        matches!(self.state, LegState::Pending | LegState::InFlight(_))
    }
}

impl Dispatch {
    /// Sends what is to be sent now: all legs where they are concurrent, the last one alone where it may decline, else the first
    /// unfinished one.
    pub(super) fn advance(&mut self, now: Instant) {
        if self.legs.is_empty() {
            return self.finish_with(DispatchError::NoCandidates { step: "".into() }, now);
        }
        if self.request.deadline.is_some_and(|deadline| now >= deadline) {
            return self.finish_with(DispatchError::DeadlineExceeded, now);
        }
        let first = if self.probing { self.legs.len() - 1 } else { 0 };
        for leg in first..self.legs.len() {
            if self.state != State::Running {
                return;
            }
            match self.legs[leg].state {
                LegState::Pending => self.send(leg, now),
                LegState::InFlight(_) => {}
                LegState::Done(..) | LegState::Skipped => continue,
            }
            if !self.is_concurrent() {
                return;
            }
        }
    }

    /// The best candidate of a leg that has failed neither in it nor under an earlier plan.
    pub(super) fn candidate(&self, leg: usize) -> Option<Pod> {
        let step = self.plan.steps().get(leg)?;
        step.candidates.iter().map(|candidate| candidate.pod).find(|pod| !self.is_excluded(leg, *pod))
    }

    /// Whether a pod is no candidate for a leg any more.
    pub(super) fn is_excluded(&self, leg: usize, pod: Pod) -> bool {
        self.legs[leg].failed.contains(&pod) || self.excluded.contains(&pod)
    }

    fn send(&mut self, leg: usize, now: Instant) {
        let step = &self.plan.steps()[leg];
        let (name, role) = (Arc::clone(&step.name), step.role);
        let Some(pod) = self.candidate(leg) else {
            let step = (&*name).into();
            let error = match self.legs[leg].failure.clone() {
                Some(failure) => DispatchError::StepFailed { step, failure },
                None => DispatchError::NoCandidates { step },
            };
            return self.finish_with(error, now);
        };
        let retry = u32::try_from(self.legs[leg].failed.len()).unwrap_or(u32::MAX);
        let mut request = match self.leg_request(leg, pod) {
            Ok(request) => request,
            Err(error @ (HandoffError::NoAddress(unknown) | HandoffError::NoEngine(unknown))) => {
                return self.skip_unknown(leg, pod, unknown, error, now);
            }
            Err(error) => return self.finish_with(error.into(), now),
        };
        let target = Target { step: &name, role, pod, retry };
        if let Err(error) = self.hooks.iter_mut().try_for_each(|hook| hook.before_send(&target, &mut request)) {
            return self.finish_with(error.into(), now);
        }
        let id = AttemptId(self.next_attempt);
        self.next_attempt = self.next_attempt.wrapping_add(1);
        let mut attempt = Attempt::new(id, pod, self.log.attempts.len());
        self.log.attempts.push(AttemptRecord::begun(name, pod, now));
        self.push(Action::Acquire(id, pod, leg));
        // A concurrent decode leg waits for prefill: its first-byte timeout starts when that is done.
        let waits = self.is_concurrent() && self.is_last(leg) && self.is_prefilling() && !self.probing;
        if !waits {
            self.start_timeout(leg, &mut attempt, now);
        }
        self.legs[leg].state = LegState::InFlight(attempt);
        self.push(Action::Send { attempt: id, pod, step: leg, request });
    }

    /// Starts an attempt's first-byte timeout.
    fn start_timeout(&mut self, leg: usize, attempt: &mut Attempt, now: Instant) {
        let timeout = self.config.policy.timeout(self.plan.steps()[leg].role, self.request.streams);
        attempt.timed_from = Some(now);
        attempt.due = now.checked_add(timeout);
        if let Some(due) = attempt.due {
            self.push(Action::SetTimer(TimerId::Attempt(attempt.id), due));
        }
    }

    /// Whether a leg before the last is unfinished.
    fn is_prefilling(&self) -> bool {
        let before = self.legs.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().any(Leg::is_unfinished)
    }

    /// Completes a leg before the last; the first-byte timeout of a concurrent decode leg starts.
    pub(super) fn complete(&mut self, leg: usize, pod: Pod, body: Bytes, now: Instant) {
        self.legs[leg].state = LegState::Done(pod, body);
        let last = self.legs.len() - 1;
        if self.is_concurrent() && !self.is_prefilling() {
            if let Some(mut attempt) = self.legs[last].take_attempt() {
                if attempt.received == 0 {
                    self.start_timeout(last, &mut attempt, now);
                }
                self.legs[last].state = LegState::InFlight(attempt);
            }
        }
        self.advance(now);
    }
}
