//! What follows when a pod fails: another pod, the step left out, a new plan, or the end.

use std::sync::Arc;
use std::time::Instant;

use routing_core::{FailurePolicy, Pod};

use super::legs::LegState;
use super::{Run, State};
use crate::action::Action;
use crate::error::RunError;
use crate::failure::Failure;
use crate::handoff::{HandoffError, Reuse};
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

    /// Neither of two engines that were to meet has said anything. A prefill pod answers once its blocks are fetched, so it
    /// cannot be told which of them keeps the other waiting: neither is charged, and neither is asked again if there are
    /// others. Where only one leg has others, the other one's pod is asked again.
    pub(super) fn fail_both(&mut self, leg: usize, now: Instant) {
        let last = self.legs.len() - 1;
        for leg in [leg, last] {
            if let Some(attempt) = self.legs[leg].attempt_mut() {
                attempt.is_blameless = true;
            }
        }
        let [prefill, decode] = [leg, last].map(|leg| self.may_ask_another(leg, &Failure::Silent));
        let stays = self.plan.steps()[leg].on_failure == FailurePolicy::NextCandidate;
        match (prefill, decode) {
            (false, true) if stays => self.fail(last, Failure::Silent, now),
            (_, true) => {
                self.stop_failed(last, Failure::Silent, now);
                self.fail(leg, Failure::Silent, now);
            }
            (_, false) => self.fail(leg, Failure::Silent, now),
        }
    }

    /// A pod of a leg cannot be told of, or cannot be told to another, because too little is known of it: the next one's turn,
    /// at nobody's charge. The last one's error is the run's.
    pub(super) fn pass_over(&mut self, leg: usize, asked: Pod, unknown: Pod, error: HandoffError, now: Instant) {
        let prefills = || self.prefill_leg(leg).filter(|_| self.prefill_pod(leg) == Some(unknown));
        let Some(leg) = (if unknown == asked { Some(leg) } else { prefills() }) else {
            return self.finish_with(error.into(), now);
        };
        self.reopen(leg, now);
        self.legs[leg].failed.push(unknown);
        self.legs[leg].failure = Some(Failure::Connect(error.to_string().into()));
        if !self.log.failed.contains(&unknown) {
            self.log.failed.push(unknown);
        }
        // As where a breaker held the pod back: nothing was sent.
        match self.decide(leg, &Failure::Refused, now) {
            Next::GiveUp | Next::NoBudget => self.finish_with(error.into(), now),
            next => self.go_on(leg, Failure::Refused, next, now),
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
        let is_used_up = match self.settings.handoff.reuse() {
            Reuse::Always => false,
            Reuse::Unbegun => !failure.is_before_it_began(),
            Reuse::Never => failure != Failure::Refused,
        };
        self.stop_failed(leg, failure.clone(), now);
        // Engines that were to meet each other would wait in vain.
        if self.is_concurrent() {
            (0..self.legs.len()).filter(|other| *other != leg).for_each(|other| self.reopen(other, now));
            self.request.new_transfer();
        }
        match next {
            Next::Pod => {
                if self.is_last(leg) && is_used_up {
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
        let may_skip = step.on_failure == FailurePolicy::Skip && !self.is_last(leg);
        // Another pod would say as much, but the next step may do without.
        if *failure == Failure::TooLong && may_skip {
            return Next::Skip;
        }
        if !config.retry_on.covers(failure) || step.on_failure == FailurePolicy::Fail {
            return Next::GiveUp;
        }
        let budget = self.settings.budget.as_ref().filter(|_| *failure != Failure::Refused);
        let pays = || budget.is_none_or(|budget| budget.withdraw(now));
        let may_ask = self.may_ask_another(leg, failure);
        if may_ask && pays() {
            return Next::Pod;
        }
        match step.on_failure {
            FailurePolicy::Skip if may_skip => Next::Skip,
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

    /// Whether another pod than the one that was asked is left for a leg, and may be asked.
    fn may_ask_another(&self, leg: usize, failure: &Failure) -> bool {
        let asked = self.legs[leg].attempt().map(|attempt| attempt.pod);
        let mut pods = self.plan.steps()[leg].candidates.iter().map(|candidate| candidate.pod);
        let is_left = pods.any(|pod| Some(pod) != asked && !self.is_ruled_out(leg, pod));
        let sent = self.legs[leg].sent.saturating_add(u32::from(*failure != Failure::Refused));
        is_left && sent < self.settings.config.attempts
    }

    /// Takes a leg back to where nobody was asked, unless it is left out for good.
    fn reopen(&mut self, leg: usize, now: Instant) {
        self.stop(leg, Fate::Cancelled, now);
        if let LegState::Done(..) = self.legs[leg].state {
            self.legs[leg].state = LegState::Open;
        }
    }
}
