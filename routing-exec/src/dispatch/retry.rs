//! Retry: what follows a failed attempt, which is another pod, a skipped step, a new plan, or the end.

use std::sync::Arc;
use std::time::Instant;

use routing_core::{FailurePolicy, Pod};

use super::legs::LegState;
use super::{Dispatch, State};
use crate::action::Action;
use crate::error::DispatchError;
use crate::failure::Failure;
use crate::handoff::{HandoffError, HandoffReuse};
use crate::report::AttemptOutcome;

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Retry,
    Skip,
    Replan,
    GiveUp,
    /// As `GiveUp`, because the retry budget is exhausted.
    NoBudget,
}

impl Dispatch {
    /// Fails a leg's attempt.
    pub(super) fn fail(&mut self, leg: usize, failure: Failure, now: Instant) {
        if !self.client.has_begun() {
            let next = self.decide(leg, &failure, now);
            return self.apply(leg, failure, next, now);
        }
        let is_forwarded = self.is_forwarded(leg);
        self.stop_failed(leg, failure.clone(), now);
        if is_forwarded {
            self.finish_with(DispatchError::Truncated(failure), now);
        } else {
            // The client's response has begun: this leg is not needed any more.
            self.legs[leg].state = LegState::Skipped;
        }
    }

    /// Fails both of two concurrent legs, neither of which responded. A prefill pod responds once its blocks are fetched, so it
    /// is unknown which one keeps the other waiting: no breaker is charged, and neither pod is retried if there are others.
    /// Where only one leg has other candidates, the other one's pod is retried.
    pub(super) fn fail_pair(&mut self, leg: usize, now: Instant) {
        let last = self.legs.len() - 1;
        for leg in [leg, last] {
            self.change_attempt(leg, |attempt| attempt.is_unattributable = true);
        }
        let [prefill, decode] = [leg, last].map(|leg| self.has_another(leg, &Failure::FirstByteTimeout));
        let stays = self.plan.steps()[leg].on_failure == FailurePolicy::NextCandidate;
        match (prefill, decode) {
            (false, true) if stays => self.fail(last, Failure::FirstByteTimeout, now),
            (_, true) => {
                self.stop_failed(last, Failure::FirstByteTimeout, now);
                self.fail(leg, Failure::FirstByteTimeout, now);
            }
            (_, false) => self.fail(leg, Failure::FirstByteTimeout, now),
        }
    }

    /// Skips a pod whose address or engine is unknown: the next candidate follows, and no breaker is charged. The last one's
    /// error is the dispatch's.
    pub(super) fn skip_unknown(&mut self, leg: usize, pod: Pod, unknown: Pod, error: HandoffError, now: Instant) {
        let prefills = || self.prefill_leg(leg).filter(|_| self.prefill_pod(leg) == Some(unknown));
        let Some(leg) = (if unknown == pod { Some(leg) } else { prefills() }) else {
            return self.finish_with(error.into(), now);
        };
        self.reset(leg, now);
        self.legs[leg].failed.push(unknown);
        self.legs[leg].failure = Some(Failure::Connect(error.to_string().into()));
        if !self.log.failed.contains(&unknown) {
            self.log.failed.push(unknown);
        }
        // As with an open breaker, nothing was sent.
        match self.decide(leg, &Failure::BreakerOpen, now) {
            Next::GiveUp | Next::NoBudget => self.finish_with(error.into(), now),
            next => self.apply(leg, Failure::BreakerOpen, next, now),
        }
    }

    /// Fails a leg's attempt unless that would end the dispatch; whether it did.
    pub(super) fn retry(&mut self, leg: usize, failure: Failure, now: Instant) -> bool {
        let next = self.decide(leg, &failure, now);
        let is_retried = !matches!(next, Next::GiveUp | Next::NoBudget);
        if is_retried {
            self.apply(leg, failure, next, now);
        }
        is_retried
    }

    fn apply(&mut self, leg: usize, failure: Failure, next: Next, now: Instant) {
        let step = Arc::clone(&self.plan.steps()[leg].name);
        let error = DispatchError::StepFailed { step: (&*step).into(), failure: failure.clone() };
        let is_consumed = match self.config.handoff.reuse() {
            HandoffReuse::Always => false,
            HandoffReuse::IfUnprocessed => !failure.is_unprocessed(),
            HandoffReuse::Never => failure != Failure::BreakerOpen,
        };
        self.stop_failed(leg, failure.clone(), now);
        // The other engine would wait in vain.
        if self.is_concurrent() {
            (0..self.legs.len()).filter(|other| *other != leg).for_each(|other| self.reset(other, now));
            self.request.new_transfer();
        }
        match next {
            Next::Retry => {
                if self.is_last(leg) && is_consumed {
                    // The handoff was for the pod that failed.
                    let from = self.prefill_leg(leg).unwrap_or(0);
                    (from..leg).for_each(|earlier| self.reset(earlier, now));
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
                self.excluded.clone_from(&self.log.failed);
                self.push(Action::Replan(self.excluded.clone()));
            }
            Next::GiveUp => self.finish_with(error, now),
            Next::NoBudget => {
                self.finish_with(DispatchError::RetryBudgetExhausted { step: (&*step).into(), failure }, now)
            }
        }
    }

    /// Ends a leg's attempt as failed, and excludes its pod.
    fn stop_failed(&mut self, leg: usize, failure: Failure, now: Instant) {
        let Some(pod) = self.legs[leg].attempt().map(|attempt| attempt.pod) else { return };
        self.stop(leg, AttemptOutcome::Failed(failure.clone()), now);
        let state = &mut self.legs[leg];
        state.failed.push(pod);
        state.sent = state.sent.saturating_add(u32::from(failure != Failure::BreakerOpen));
        state.failure = Some(failure);
        if !self.log.failed.contains(&pod) {
            self.log.failed.push(pod);
        }
    }

    /// Candidates are tried up to the limit; then the step's failure policy applies.
    ///
    /// Another attempt, and another plan, cost the retry budget; a pod with an open breaker costs nothing.
    fn decide(&self, leg: usize, failure: &Failure, now: Instant) -> Next {
        let Some(step) = self.plan.steps().get(leg) else { return Next::GiveUp };
        let policy = &self.config.policy;
        let may_skip = step.on_failure == FailurePolicy::Skip && !self.is_last(leg);
        // Another pod's response would be as large, but the next step may run without it.
        if *failure == Failure::ResponseTooLarge && may_skip {
            return Next::Skip;
        }
        if !policy.retry_on.matches(failure) || step.on_failure == FailurePolicy::Fail {
            return Next::GiveUp;
        }
        let budget = self.config.retry_budget.as_ref().filter(|_| *failure != Failure::BreakerOpen);
        let withdraw = || budget.is_none_or(|budget| budget.withdraw(now));
        let has_another = self.has_another(leg, failure);
        if has_another && withdraw() {
            return Next::Retry;
        }
        match step.on_failure {
            FailurePolicy::Skip if may_skip => Next::Skip,
            FailurePolicy::Replan if self.log.replans < policy.max_replans => {
                if withdraw() {
                    Next::Replan
                } else {
                    Next::NoBudget
                }
            }
            _ if has_another => Next::NoBudget,
            _ => Next::GiveUp,
        }
    }

    /// Whether a leg has another candidate, and another attempt.
    fn has_another(&self, leg: usize, failure: &Failure) -> bool {
        let current = self.legs[leg].attempt().map(|attempt| attempt.pod);
        let mut pods = self.plan.steps()[leg].candidates.iter().map(|candidate| candidate.pod);
        let is_left = pods.any(|pod| Some(pod) != current && !self.is_excluded(leg, pod));
        let sent = self.legs[leg].sent.saturating_add(u32::from(*failure != Failure::BreakerOpen));
        is_left && sent < self.config.policy.max_attempts
    }

    /// Resets a leg, unless it was skipped.
    fn reset(&mut self, leg: usize, now: Instant) {
        self.stop(leg, AttemptOutcome::Cancelled, now);
        if let LegState::Done(..) = self.legs[leg].state {
            self.legs[leg].state = LegState::Pending;
        }
    }
}
