//! Retry: what follows a failed attempt, which is another pod, a skipped step, a new plan, or the end.

use std::sync::Arc;
use std::time::Instant;

use routing_core::{FailurePolicy, PlanStep, Pod, RoutingPlan};

use super::bounds::MAX_PAUSES;
use super::legs::LegState;
use super::{Dispatch, State};
use crate::action::{Action, AttemptId};
use crate::error::DispatchError;
use crate::failure::Failure;
use crate::handoff::{HandoffError, HandoffReuse};
use crate::report::AttemptOutcome;

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Retry,
    /// As `Retry`, past the circuit breaker of a pod: no other one is left.
    Force,
    /// As `Retry`, a little later.
    Pause,
    Skip,
    Replan,
    /// As `Replan`, of one that was asked for already.
    AwaitPlan,
    /// As `Replan`, after a refusal: without another plan it is the answer.
    AskElsewhere,
    GiveUp,
    /// As `GiveUp`, because the retry budget is exhausted.
    NoBudget,
}

impl Dispatch {
    /// Fails a leg's attempt.
    pub(super) fn fail(&mut self, leg: usize, failure: Failure, now: Instant) {
        if !self.client.has_begun() {
            let is_asked = matches!(self.state, State::Refused(..));
            let next = if is_asked { Next::AwaitPlan } else { self.decide(leg, &failure, now) };
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
        self.split_merged(leg, unknown, &Failure::BreakerOpen);
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
        match next {
            Next::GiveUp | Next::NoBudget => {
                self.log.is_out_of_budget = next == Next::NoBudget;
                return false;
            }
            Next::AskElsewhere => self.ask_elsewhere(leg, failure),
            next => self.apply(leg, failure, next, now),
        }
        true
    }

    fn apply(&mut self, leg: usize, failure: Failure, next: Next, now: Instant) {
        let step = Arc::clone(&self.plan.steps()[leg].name);
        let error = DispatchError::StepFailed { step: (&*step).into(), failure: failure.clone() };
        let is_consumed = match self.config.handoff.reuse() {
            HandoffReuse::Always => false,
            HandoffReuse::IfUnprocessed => !failure.is_unprocessed(),
            HandoffReuse::Never => !failure.is_unsent(),
        };
        // A step is skipped while it has another candidate for the same reason.
        let is_skipped_early = next == Next::Skip && self.has_another(leg, &failure);
        self.log.is_out_of_budget = next == Next::NoBudget || is_skipped_early;
        self.stop_failed(leg, failure.clone(), now);
        // The other engine would wait in vain.
        if self.is_concurrent() {
            (0..self.legs.len()).filter(|other| *other != leg).for_each(|other| self.reset(other, now));
            self.request.new_transfer();
        }
        match next {
            Next::Retry | Next::Force => {
                self.legs[leg].is_forced |= next == Next::Force;
                if self.is_last(leg) && is_consumed {
                    // The handoff was for the pod that failed.
                    let from = self.prefill_leg(leg).unwrap_or(0);
                    (from..leg).for_each(|earlier| self.reset(earlier, now));
                    self.request.new_transfer();
                }
                self.advance(now);
            }
            Next::Pause => self.pause(leg, now),
            Next::Skip => {
                self.legs[leg].state = LegState::Skipped;
                self.log.skipped.push(step);
                self.advance(now);
            }
            Next::Replan | Next::AwaitPlan => {
                self.stop_others(leg, now);
                self.state = State::Replanning(error);
                self.excluded.clone_from(&self.log.failed);
                if next == Next::Replan {
                    self.log.replans += 1;
                    self.push(Action::Replan(self.excluded.clone()));
                }
            }
            Next::GiveUp | Next::AskElsewhere => self.finish_with(error, now),
            Next::NoBudget => {
                self.finish_with(DispatchError::RetryBudgetExhausted { step: (&*step).into(), failure }, now)
            }
        }
    }

    pub(super) fn on_replanned(&mut self, plan: Option<RoutingPlan>, now: Instant) {
        let plan = plan.filter(|plan| !plan.steps().is_empty());
        match (std::mem::replace(&mut self.state, State::Running), plan) {
            (State::Replanning(_), Some(plan)) => self.start_plan(plan, now),
            (State::Replanning(error), None) => {
                if !self.force_refused(now) {
                    self.finish_with(error, now);
                }
            }
            (State::Refused(attempt, failure), plan) => self.after_refusal(attempt, failure, plan, now),
            (state, _) => self.state = state,
        }
    }

    /// Follows a plan that was made after another failed.
    fn start_plan(&mut self, plan: RoutingPlan, now: Instant) {
        self.follow(plan);
        match self.check_roles() {
            Ok(()) => self.advance(now),
            Err(error) => self.finish_with(error, now),
        }
    }

    /// Asks for a plan of other pods, while what the pod refused with is on its way to the client.
    fn ask_elsewhere(&mut self, leg: usize, failure: Failure) {
        let Some(refused) = self.legs[leg].attempt().map(|attempt| attempt.id) else { return };
        self.change_attempt(leg, |attempt| attempt.passes_through = true);
        self.log.replans += 1;
        self.state = State::Refused(refused, failure);
        self.push(Action::Replan(self.failed_with(leg)));
    }

    /// Follows another plan after a refusal; without one, the refusal is the answer.
    fn after_refusal(&mut self, refused: AttemptId, failure: Failure, plan: Option<RoutingPlan>, now: Instant) {
        let Some(leg) = self.leg_of(refused) else { return };
        let failed = self.failed_with(leg);
        let has_others = |plan: &RoutingPlan| {
            let has_another =
                |step: &PlanStep| step.candidates.iter().any(|candidate| !failed.contains(&candidate.pod));
            plan.steps().iter().all(has_another)
        };
        // What has begun to be forwarded meanwhile stays the answer.
        let Some(plan) = plan.filter(|plan| !self.client.has_begun() && has_others(plan)) else {
            return self.stop_others(leg, now);
        };
        self.stop_failed(leg, failure, now);
        self.stop_others(leg, now);
        self.excluded.clone_from(&self.log.failed);
        self.start_plan(plan, now);
    }

    /// The pods that failed, and the one that a leg is sent to.
    fn failed_with(&self, leg: usize) -> Vec<Pod> {
        let current = self.legs[leg].attempt().map(|attempt| attempt.pod);
        self.log.failed.iter().copied().chain(current).collect()
    }

    /// Ends a leg's attempt as failed, and excludes its pod.
    fn stop_failed(&mut self, leg: usize, failure: Failure, now: Instant) {
        let Some((pod, asked)) = self.legs[leg].attempt().map(|attempt| (attempt.pod, attempt.answer.retry_after))
        else {
            return;
        };
        self.stop(leg, AttemptOutcome::Failed(failure.clone()), now);
        self.log.was_refused |= failure.is_refusal();
        if let Some(asked) = asked.filter(|_| failure.is_pushback()) {
            self.log.retry_after = Some(self.log.retry_after.map_or(asked, |least| least.min(asked)));
        }
        let (state, is_local) = (&mut self.legs[leg], failure.is_local());
        if !failure.is_unsent() {
            // There was a connection, so that there may be one to these.
            state.release_local();
        }
        state.failed.push(pod);
        state.local.extend(is_local.then_some(pod));
        state.sent = state.sent.saturating_add(u32::from(!failure.is_unsent()));
        self.split_merged(leg, pod, &failure);
        self.legs[leg].failure = Some(failure);
        if !is_local && !self.log.failed.contains(&pod) {
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
        if let Some(next) = self.decide_local(leg, failure, may_skip) {
            return next;
        }
        // What a pod refuses costs nobody much, and is tried once more at most.
        let is_free = *failure == Failure::BreakerOpen || failure.is_refusal();
        let budget = self.config.retry_budget.as_ref().filter(|_| !is_free);
        let withdraw = || budget.is_none_or(|budget| budget.withdraw(now));
        let has_another = self.has_another(leg, failure);
        if failure.is_refusal() && (self.log.was_refused || !has_another) {
            // One other pod said the same, or there is none to ask: it is the answer. One with an open breaker can be asked; the
            // plan may have left it out for the sake of the one that refuses.
            return match self.log.was_refused {
                false if self.may_force(leg, failure) => Next::Force,
                false if self.may_send_more(leg, failure) && self.log.replans < policy.max_replans => {
                    Next::AskElsewhere
                }
                _ => Next::GiveUp,
            };
        }
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
            _ if !has_another && self.may_force(leg, failure) && withdraw() => Next::Force,
            _ if has_another => Next::NoBudget,
            _ => Next::GiveUp,
        }
    }

    /// What follows a want of this process's own: another pod at once, to which a connection may be open; then, after a pause, all
    /// of them again. It costs no retry budget and no attempt, since nobody was asked; the pauses bound it.
    ///
    /// `None` if the failure is none of the kind, nor came after one.
    fn decide_local(&self, leg: usize, failure: &Failure, may_skip: bool) -> Option<Next> {
        let (state, is_local) = (&self.legs[leg], failure.is_local());
        if !failure.is_unsent() || !is_local && state.local.is_empty() {
            return None;
        }
        let tried = u32::try_from(state.local.len()).unwrap_or(u32::MAX).saturating_add(u32::from(is_local));
        match self.is_left(leg, failure) && tried < self.config.policy.max_attempts {
            true => Some(Next::Retry),
            false if state.pauses < MAX_PAUSES => Some(Next::Pause),
            false if may_skip => Some(Next::Skip),
            // Of pods with open breakers one may have a connection.
            false => is_local.then_some(Next::GiveUp),
        }
    }

    /// Whether a pod with an open breaker may be sent the request for want of another: an answer that may be had is worth more
    /// than the breaker's word.
    fn may_force(&self, leg: usize, failure: &Failure) -> bool {
        let is_open = self.config.policy.fail_open && self.likeliest_refused(leg).is_some();
        is_open && self.may_send_more(leg, failure)
    }

    /// Goes past open breakers after no other plan was found; whether there is one to go past.
    pub(super) fn force_refused(&mut self, now: Instant) -> bool {
        let may_force = |leg: &usize| {
            let is_pending = matches!(self.legs[*leg].state, LegState::Pending);
            is_pending && self.may_force(*leg, &Failure::BreakerOpen)
        };
        let Some(leg) = (0..self.legs.len()).find(may_force) else { return false };
        self.legs[leg].is_forced = true;
        self.advance(now);
        true
    }

    /// Whether a leg has another candidate, and another attempt.
    fn has_another(&self, leg: usize, failure: &Failure) -> bool {
        self.is_left(leg, failure) && self.may_send_more(leg, failure)
    }

    /// Whether a leg has another attempt after a failure of the present one.
    fn may_send_more(&self, leg: usize, failure: &Failure) -> bool {
        let sent = self.legs[leg].sent.saturating_add(u32::from(!failure.is_unsent()));
        sent < self.config.policy.max_attempts
    }

    /// Whether a leg has another candidate after a failure of the present one.
    fn is_left(&self, leg: usize, failure: &Failure) -> bool {
        let current = self.legs[leg].attempt().map(|attempt| attempt.pod);
        let mut pods = self.plan.steps()[leg].candidates.iter().map(|candidate| candidate.pod);
        // What was not reached for want of something local may be, once another pod was.
        let is_released = |pod: Pod| !failure.is_unsent() && self.legs[leg].local.contains(&pod);
        pods.any(|pod| Some(pod) != current && (!self.is_excluded(leg, pod) || is_released(pod)))
    }

    /// Resets a leg, unless it was skipped.
    fn reset(&mut self, leg: usize, now: Instant) {
        self.stop(leg, AttemptOutcome::Cancelled, now);
        if let LegState::Done(..) = self.legs[leg].state {
            self.legs[leg].state = LegState::Pending;
        }
    }
}
