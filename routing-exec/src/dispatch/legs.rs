//! Legs: the state of each step, and which one is sent next.

use std::sync::Arc;
use std::time::{Duration, Instant};

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
    /// Those with an open breaker, with how long it would refuse them.
    pub(super) refused: Vec<(Pod, Duration)>,
    /// Whether open breakers are gone past, since no other pod is left.
    pub(super) is_forced: bool,
    /// Pods among those that failed which were not reached for want of something local: they are tried again after a pause.
    pub(super) local: Vec<Pod>,
    /// Pauses for want of something local.
    pub(super) pauses: u32,
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
    /// A prefill leg whose pod decodes, too: that one gets one plain request, since blocks need not go where they are.
    Merged,
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

    /// Makes candidates again of pods that were not reached for want of something local.
    pub(super) fn release_local(&mut self) {
        let local = std::mem::take(&mut self.local);
        self.failed.retain(|pod| !local.contains(pod));
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
        if let Some(error) = self.bound_passed(now) {
            return self.finish_with(error, now);
        }
        if self.probing && (0..self.legs.len()).any(|leg| self.is_merged(leg)) {
            // There is no other pod that it could want to prefill.
            self.probing = false;
        }
        let first = if self.probing { self.legs.len() - 1 } else { 0 };
        for leg in first..self.legs.len() {
            if self.state != State::Running {
                return;
            }
            match self.legs[leg].state {
                LegState::Pending if self.is_merged(leg) => {
                    self.legs[leg].state = LegState::Merged;
                    continue;
                }
                LegState::Pending => self.send(leg, now),
                LegState::InFlight(_) => {}
                LegState::Done(..) | LegState::Skipped | LegState::Merged => continue,
            }
            if !self.is_concurrent() {
                return;
            }
        }
    }

    /// The best candidate of a leg that has failed neither in it nor under an earlier plan.
    pub(super) fn candidate(&self, leg: usize) -> Option<Pod> {
        let step = self.plan.steps().get(leg)?;
        let mut ranked = step.candidates.iter().map(|candidate| candidate.pod);
        let found = ranked.find(|pod| !self.is_excluded(leg, *pod));
        // Of pods that were refused, the one whose breaker would let go first.
        found.or_else(|| self.likeliest_refused(leg).filter(|_| self.legs[leg].is_forced))
    }

    /// The pod with an open breaker that is likeliest to answer: the one whose breaker would let go first.
    pub(super) fn likeliest_refused(&self, leg: usize) -> Option<Pod> {
        self.legs[leg].refused.iter().min_by_key(|(_, wait)| *wait).map(|(pod, _)| *pod)
    }

    /// Whether a leg prefills for a later one on the very pod that would be sent that one.
    fn is_merged(&self, leg: usize) -> bool {
        let served = (leg + 1..self.legs.len()).find(|later| self.prefill_leg(*later) == Some(leg));
        let is_pending = matches!(self.legs[leg].state, LegState::Pending);
        is_pending
            && served.is_some_and(|later| self.candidate(later) == self.candidate(leg))
            && self.candidate(leg).is_some()
    }

    /// Splits legs before one that failed on a pod for both: another pod prefills if there is one, or else the next pod by itself.
    pub(super) fn split_merged(&mut self, leg: usize, pod: Pod, failure: &Failure) {
        for earlier in
            (0..leg).filter(|earlier| matches!(self.legs[*earlier].state, LegState::Merged)).collect::<Vec<_>>()
        {
            if failure.is_local() {
                // The pod may be the one for both after a pause.
                self.legs[earlier].state = LegState::Pending;
                continue;
            }
            self.legs[earlier].failed.push(pod);
            let is_left = self.candidate(earlier).is_some();
            self.legs[earlier].state = if is_left { LegState::Pending } else { LegState::Skipped };
        }
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
        if self.legs[leg].is_forced {
            // It is sent something now, and failed only if it fails that.
            self.legs[leg].refused.retain(|(refused, _)| *refused != pod);
            self.legs[leg].failed.retain(|failed| *failed != pod);
            self.excluded.retain(|excluded| *excluded != pod);
        }
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
        let mut attempt = Attempt::new(id, pod, self.log.attempts.len(), self.request.api);
        self.log.attempts.push(AttemptRecord::begun(name, pod, now));
        self.push(Action::Acquire(id, pod, leg));
        // A concurrent decode leg waits for prefill: its first-byte timeout starts when that is done.
        let waits = self.is_concurrent() && self.is_last(leg) && self.is_prefilling() && !self.probing;
        if !waits {
            self.start_timeout(leg, &mut attempt, now);
        }
        self.legs[leg].state = LegState::InFlight(attempt);
        let forced = self.legs[leg].is_forced;
        self.push(Action::Send { attempt: id, pod, step: leg, request, forced });
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
        self.blame_others(Some(leg));
        let last = self.legs.len() - 1;
        if self.is_concurrent() && !self.is_prefilling() {
            if let Some(mut attempt) = self.legs[last].take_attempt() {
                if attempt.answer.received == 0 {
                    self.start_timeout(last, &mut attempt, now);
                }
                self.legs[last].state = LegState::InFlight(attempt);
            }
        }
        self.advance(now);
    }
}
