//! What follows when a pod fails: another pod, the step left out, a new plan, or the end.

use std::sync::Arc;
use std::time::Instant;

use routing_core::FailurePolicy;

use super::legs::LegState;
use super::{Run, State};
use crate::action::Action;
use crate::error::RunError;
use crate::failure::Failure;
use crate::record::Fate;

/// How a run goes on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Pod,
    Skip,
    Replan,
    GiveUp,
    /// As `GiveUp`, because the host's retries are used up.
    NoBudget,
}

impl Run {
    /// A leg's pod failed.
    pub(super) fn fail(&mut self, leg: usize, failure: Failure, now: Instant) {
        if !self.client.has_begun() {
            let next = self.decide(leg, &failure, now);
            return self.go_on(leg, failure, next, now);
        }
        let answers = self.answers(leg);
        self.stop_failed(leg, failure.clone(), now);
        if answers {
            self.finish_with(RunError::BrokenOff(failure), now);
        } else {
            // The client's answer is under way: whatever this leg was for, it has served.
            self.legs[leg].state = LegState::Skipped;
        }
    }

    /// Fails a leg if anything but the end of the run would follow; whether it did.
    pub(super) fn fail_if_it_helps(&mut self, leg: usize, failure: Failure, now: Instant) -> bool {
        let next = self.decide(leg, &failure, now);
        let helps = !matches!(next, Next::GiveUp | Next::NoBudget);
        if helps {
            self.go_on(leg, failure, next, now);
        }
        helps
    }

    fn go_on(&mut self, leg: usize, failure: Failure, next: Next, now: Instant) {
        let step = Arc::clone(&self.plan.steps()[leg].name);
        let error = RunError::StepFailed { step: (&*step).into(), failure: failure.clone() };
        let was_sent = failure != Failure::Refused;
        self.stop_failed(leg, failure.clone(), now);
        // Engines that were to meet each other would wait in vain.
        if self.is_concurrent() {
            (0..self.legs.len()).filter(|other| *other != leg).for_each(|other| self.reopen(other, now));
            self.request.new_transfer();
        }
        match next {
            Next::Pod => {
                if self.is_last(leg) && was_sent && !self.settings.handoff.is_reusable() {
                    // What the leg that prefilled handed out was for the pod that failed.
                    let from = self.prefill_leg(leg).unwrap_or(0);
                    (from..leg).for_each(|earlier| self.reopen(earlier, now));
                    self.request.new_transfer();
                }
                self.advance(now);
            }
            Next::Skip => {
                self.legs[leg].state = LegState::Skipped;
                self.log.skipped.push(step);
                self.advance(now);
            }
            Next::Replan => {
                self.stop_others(leg, now);
                self.log.replans += 1;
                self.state = State::Replanning(error);
                self.ruled_out.clone_from(&self.log.failed);
                self.push(Action::Replan(self.ruled_out.clone()));
            }
            Next::GiveUp => self.finish_with(error, now),
            Next::NoBudget => self.finish_with(RunError::NoBudget { step: (&*step).into(), failure }, now),
        }
    }

    /// Ends a leg's attempt because its pod failed, and rules the pod out.
    fn stop_failed(&mut self, leg: usize, failure: Failure, now: Instant) {
        let Some(pod) = self.legs[leg].attempt().map(|attempt| attempt.pod) else { return };
        self.stop(leg, Fate::Failed(failure.clone()), now);
        let state = &mut self.legs[leg];
        state.failed.push(pod);
        state.sent = state.sent.saturating_add(u32::from(failure != Failure::Refused));
        state.failure = Some(failure);
        if !self.log.failed.contains(&pod) {
            self.log.failed.push(pod);
        }
    }

    /// Pods are tried as long as there are any and they may be; then it is for the step's policy to say.
    ///
    /// Asking another pod, and asking for another plan, is paid for; a pod that a breaker held back cost nothing.
    fn decide(&self, leg: usize, failure: &Failure, now: Instant) -> Next {
        let Some(step) = self.plan.steps().get(leg) else { return Next::GiveUp };
        let config = &self.settings.config;
        if !config.retry_on.covers(failure) || step.on_failure == FailurePolicy::Fail {
            return Next::GiveUp;
        }
        let budget = self.settings.budget.as_ref().filter(|_| *failure != Failure::Refused);
        let pays = || budget.is_none_or(|budget| budget.withdraw(now));
        let asked = self.legs[leg].attempt().map(|attempt| attempt.pod);
        let mut pods = step.candidates.iter().map(|candidate| candidate.pod);
        let is_left = pods.any(|pod| Some(pod) != asked && !self.is_ruled_out(leg, pod));
        let sent = self.legs[leg].sent.saturating_add(u32::from(*failure != Failure::Refused));
        let may_ask = is_left && sent < config.attempts;
        if may_ask && pays() {
            return Next::Pod;
        }
        match step.on_failure {
            FailurePolicy::Skip if !self.is_last(leg) => Next::Skip,
            FailurePolicy::Replan if self.log.replans < config.replans => {
                if pays() {
                    Next::Replan
                } else {
                    Next::NoBudget
                }
            }
            _ if may_ask => Next::NoBudget,
            _ => Next::GiveUp,
        }
    }

    /// Takes a leg back to where nobody was asked, unless it is left out for good.
    fn reopen(&mut self, leg: usize, now: Instant) {
        self.stop(leg, Fate::Cancelled, now);
        if let LegState::Done(..) = self.legs[leg].state {
            self.legs[leg].state = LegState::Open;
        }
    }
}
