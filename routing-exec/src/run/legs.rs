//! The legs of a run: one for each step, and which of them is to be asked next.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use routing_core::Pod;

use super::attempt::Attempt;
use super::{Run, State};
use crate::action::{Action, AttemptId, TimerId};
use crate::error::RunError;
use crate::failure::Failure;
use crate::handoff::HandoffError;
use crate::hook::Target;
use crate::record::AttemptRecord;

/// One step of the plan, as far as it is done.
#[derive(Debug, Default)]
pub(super) struct Leg {
    pub(super) state: LegState,
    /// Pods that failed in it, never to be asked again.
    pub(super) failed: Vec<Pod>,
    /// How many of them were sent a request: those that a breaker holds back were not.
    pub(super) sent: u32,
    /// What the last of them did.
    pub(super) failure: Option<Failure>,
}

#[derive(Debug, Default)]
#[expect(clippy::large_enum_variant, reason = "a leg is asked for most of its life, and there are few")]
pub(super) enum LegState {
    /// Nobody is asked.
    #[default]
    Open,
    Asked(Attempt),
    /// A pod's answer is there, whole.
    Done(Pod, Bytes),
    /// Its pods failed, and the next step does without.
    Skipped,
}

impl Leg {
    pub(super) fn attempt(&self) -> Option<&Attempt> {
        if let LegState::Asked(attempt) = &self.state { Some(attempt) } else { None }
    }

    pub(super) fn attempt_mut(&mut self) -> Option<&mut Attempt> {
        if let LegState::Asked(attempt) = &mut self.state { Some(attempt) } else { None }
    }

    /// The attempt under way, if one is; the leg is open then.
    pub(super) fn take_attempt(&mut self) -> Option<Attempt> {
        match std::mem::take(&mut self.state) {
            LegState::Asked(attempt) => Some(attempt),
            state => {
                self.state = state;
                None
            }
        }
    }

    /// Whether its answer is still to come.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.state, LegState::Open | LegState::Asked(_))
    }
}

impl Run {
    /// Asks whoever is to be asked now: all legs at once where engines meet each other, the last alone where it is to say
    /// whether the others are needed, else the first that is not done.
    pub(super) fn advance(&mut self, now: Instant) {
        if self.legs.is_empty() {
            return self.finish_with(RunError::NoCandidates { step: "".into() }, now);
        }
        if self.request.deadline.is_some_and(|deadline| now >= deadline) {
            return self.finish_with(RunError::Deadline, now);
        }
        let first = if self.probing { self.legs.len() - 1 } else { 0 };
        for leg in first..self.legs.len() {
            if self.state != State::Running {
                return;
            }
            match self.legs[leg].state {
                LegState::Open => self.ask(leg, now),
                LegState::Asked(_) => {}
                LegState::Done(..) | LegState::Skipped => continue,
            }
            if !self.is_concurrent() {
                return;
            }
        }
    }

    /// The best pod of a leg that has failed neither in it nor under an earlier plan.
    pub(super) fn candidate(&self, leg: usize) -> Option<Pod> {
        let step = self.plan.steps().get(leg)?;
        step.candidates.iter().map(|candidate| candidate.pod).find(|pod| !self.is_ruled_out(leg, *pod))
    }

    /// Whether a pod is not to be asked for a leg.
    pub(super) fn is_ruled_out(&self, leg: usize, pod: Pod) -> bool {
        self.legs[leg].failed.contains(&pod) || self.ruled_out.contains(&pod)
    }

    fn ask(&mut self, leg: usize, now: Instant) {
        let step = &self.plan.steps()[leg];
        let (name, role) = (Arc::clone(&step.name), step.role);
        let Some(pod) = self.candidate(leg) else {
            let step = (&*name).into();
            let error = match self.legs[leg].failure.clone() {
                Some(failure) => RunError::StepFailed { step, failure },
                None => RunError::NoCandidates { step },
            };
            return self.finish_with(error, now);
        };
        let retry = u32::try_from(self.legs[leg].failed.len()).unwrap_or(u32::MAX);
        let mut request = match self.leg_request(leg, pod) {
            Ok(request) => request,
            Err(error @ (HandoffError::NoAddress(unknown) | HandoffError::NoEngine(unknown))) => {
                return self.pass_over(leg, pod, unknown, error, now);
            }
            Err(error) => return self.finish_with(error.into(), now),
        };
        let target = Target { step: &name, role, pod, retry };
        if let Err(error) = self.hooks.iter_mut().try_for_each(|hook| hook.before_send(&target, &mut request)) {
            return self.finish_with(error.into(), now);
        }
        let id = AttemptId(self.attempts);
        self.attempts = self.attempts.wrapping_add(1);
        let mut attempt = Attempt::new(id, pod, self.log.attempts.len());
        self.log.attempts.push(AttemptRecord::begun(name, pod, now));
        self.push(Action::Hold(id, pod, leg));
        // Where engines meet, the one that waits for the other's blocks is not late before those can have come.
        let waits = self.is_concurrent() && self.is_last(leg) && self.prefills() && !self.probing;
        if !waits {
            self.start_clock(leg, &mut attempt, now);
        }
        self.legs[leg].state = LegState::Asked(attempt);
        self.push(Action::Send { attempt: id, pod, step: leg, request });
    }

    /// From now on an attempt's time to its first byte counts.
    fn start_clock(&mut self, leg: usize, attempt: &mut Attempt, now: Instant) {
        let config = &self.settings.config;
        let patience = config.first_byte_of(self.plan.steps()[leg].role, self.request.streams);
        attempt.clock = Some(now);
        attempt.due = now.checked_add(patience);
        if let Some(due) = attempt.due {
            self.push(Action::Arm(TimerId::Attempt(attempt.id), due));
        }
    }

    /// Whether a leg before the last is not done.
    fn prefills(&self) -> bool {
        let before = self.legs.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().any(Leg::is_pending)
    }

    /// A leg before the last is done: the last one's time to a first byte begins, if it waited.
    pub(super) fn done(&mut self, leg: usize, pod: Pod, answer: Bytes, now: Instant) {
        self.legs[leg].state = LegState::Done(pod, answer);
        let last = self.legs.len() - 1;
        if self.is_concurrent() && !self.prefills() {
            if let Some(mut attempt) = self.legs[last].take_attempt() {
                if attempt.received == 0 {
                    self.start_clock(last, &mut attempt, now);
                }
                self.legs[last].state = LegState::Asked(attempt);
            }
        }
        self.advance(now);
    }
}
