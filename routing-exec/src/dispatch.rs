//! Dispatch: one request executed by its plan, as a sans-IO state machine.
//!
//! Three rules hold whatever the order of inputs: a dispatch ends once, and no action follows its end; what is acquired for an
//! attempt is released once; and nothing is retried after the client got a byte.
//!
//! Time is an argument: time that goes backwards is none, and a timeout beyond the range of `Instant` is none.

mod attempt;
mod bounds;
mod headers;
mod legs;
mod request;
mod response;
mod retry;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use routing_core::{Pod, RoutingPlan};

use self::attempt::Attempt;
use self::legs::{Leg, LegState};
pub use self::request::ClientRequest;
use self::response::ClientResponse;
use crate::action::{Action, AttemptId, BreakerSample, Input, TimerId};
use crate::error::DispatchError;
use crate::failure::Failure;
use crate::handoff::{Handoff, HandoffError, HandoffMode, PodAddresses, check_roles};
use crate::hook::Hook;
use crate::policy::DispatchPolicy;
use crate::report::{AttemptOutcome, AttemptRecord, DispatchOutcome, DispatchReport};
use crate::retry_budget::RetryBudget;

/// Configuration that dispatches share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DispatchConfig {
    /// Timeouts, retries and buffering.
    pub policy: Arc<DispatchPolicy>,
    /// The dialect of prefill/decode handoffs.
    pub handoff: Arc<dyn Handoff>,
    /// Addresses of pods, for dialects that name them to engines.
    pub addresses: Arc<dyn PodAddresses>,
    /// A bound on the retries of all dispatches together.
    pub retry_budget: Option<Arc<RetryBudget>>,
}

impl DispatchConfig {
    /// The default policy, and no retry budget.
    #[must_use]
    pub fn new(handoff: Arc<dyn Handoff>, addresses: Arc<dyn PodAddresses>) -> Self {
        Self { policy: Arc::default(), handoff, addresses, retry_budget: None }
    }
}

/// One request executed by its plan, as a sans-IO state machine.
///
/// To drive it: [`start`](Self::start), perform every [`next_action`](Self::next_action), [`handle`](Self::handle) what
/// happened, and so on until [`Action::Finish`]. [`TransportExecutor`](crate::TransportExecutor) does so.
pub struct Dispatch {
    config: DispatchConfig,
    request: ClientRequest,
    plan: RoutingPlan,
    hooks: Vec<Box<dyn Hook>>,
    legs: Vec<Leg>,
    client: ClientResponse,
    log: Log,
    /// Pods that failed under an earlier plan.
    excluded: Vec<Pod>,
    /// Whether the decode pod is sent its request first, and may decline it for prefill.
    probing: bool,
    /// Whether the latest leg was sent a handoff.
    handed_off: bool,
    actions: VecDeque<Action>,
    next_attempt: u32,
    /// When it ends, complete or not, and with which error.
    bound: Option<(Instant, DispatchError)>,
    /// Whether nothing is in flight until a pause is over.
    is_paused: bool,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Waits for a new plan; without one, ends with this error.
    Replanning(DispatchError),
    /// Waits for a new plan; without one, what this attempt's pod refused with is the answer.
    Refused(AttemptId, Failure),
    Over,
}

/// What the report and the breakers' samples are made of.
#[derive(Debug, Default)]
struct Log {
    attempts: Vec<AttemptRecord>,
    /// Pods whose breakers got their sample.
    sampled: Vec<Pod>,
    /// Pods that failed the request in a way that may be its own: their samples are taken back if others did too, and none served
    /// it.
    blamed: Vec<(usize, AttemptId, Pod)>,
    /// Pods that refused what another may serve: they are charged if one does.
    refusals: Vec<(usize, AttemptId, Pod, Failure)>,
    /// Whether no other pod was asked after a failure, for want of retry budget.
    is_out_of_budget: bool,
    /// Whether a pod refused the request, and another was tried.
    was_refused: bool,
    /// Successes of pods that may get another request of this dispatch: sampled at its end.
    deferred: Vec<(AttemptId, Pod, BreakerSample)>,
    /// Pods that failed, which a new plan excludes.
    failed: Vec<Pod>,
    /// The shortest time that a pod which pushed back asks to be left alone for.
    retry_after: Option<Duration>,
    skipped: Vec<Arc<str>>,
    handoffs_dropped: u32,
    replans: u32,
}

impl Dispatch {
    /// A dispatch of a plan. The last step's response goes to the client.
    #[must_use]
    pub fn new(config: DispatchConfig, request: ClientRequest, plan: RoutingPlan, hooks: Vec<Box<dyn Hook>>) -> Self {
        let mut dispatch = Self {
            config,
            request,
            plan: RoutingPlan::default(),
            hooks,
            legs: Vec::new(),
            client: ClientResponse::default(),
            log: Log::default(),
            excluded: Vec::new(),
            probing: false,
            handed_off: false,
            actions: VecDeque::new(),
            next_attempt: 0,
            bound: None,
            is_paused: false,
            state: State::Running,
        };
        dispatch.follow(plan);
        dispatch
    }

    /// Starts it. A dispatch that is over before it started stays over.
    pub fn start(&mut self, now: Instant) {
        if self.is_over() {
            return;
        }
        if let Some(error) = self.request.unreadable {
            return self.finish_with(HandoffError::Body(error).into(), now);
        }
        if let Err(error) = self.check_roles() {
            return self.finish_with(error, now);
        }
        if let Some(budget) = &self.config.retry_budget {
            budget.deposit(now);
        }
        self.set_bound(now);
        self.advance(now);
    }

    /// The next action; `None` until the next input.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The current plan.
    #[must_use]
    pub fn plan(&self) -> &RoutingPlan {
        &self.plan
    }

    /// The client's request.
    #[must_use]
    pub fn request(&self) -> &ClientRequest {
        &self.request
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Handles an input. One that concerns a cancelled attempt, or comes after the end, is ignored.
    pub fn handle(&mut self, now: Instant, input: Input) {
        if self.is_over() {
            return;
        }
        let leg = input.attempt().and_then(|id| self.leg_of(id));
        match (input, leg) {
            (Input::Head(_, head), Some(leg)) => self.on_head(leg, head, now),
            (Input::Chunk(_, chunk), Some(leg)) => self.on_chunk(leg, chunk, now),
            (Input::End(_, trailers), Some(leg)) => self.on_end(leg, trailers, now),
            (Input::Failed(_, failure), Some(leg)) => {
                self.change_attempt(leg, |attempt| attempt.ended = true);
                self.fail(leg, failure, now);
            }
            (Input::Refused(_, wait), Some(leg)) => {
                if let Some(pod) = self.legs[leg].attempt().map(|attempt| attempt.pod) {
                    self.legs[leg].refused.push((pod, wait));
                }
                self.change_attempt(leg, |attempt| attempt.ended = true);
                self.fail(leg, Failure::BreakerOpen, now);
            }
            (Input::Expired(TimerId::Attempt(_)), Some(leg)) => self.on_timer(leg, now),
            (Input::Expired(TimerId::Deadline), _) => self.on_deadline(now),
            (Input::Expired(TimerId::Pause), _) => self.on_pause_over(now),
            (Input::ClientDisconnected, _) => self.finish(DispatchOutcome::ClientDisconnected, now),
            (Input::Cancel, _) => {
                self.respond_error(&DispatchError::Cancelled);
                self.finish(DispatchOutcome::Cancelled, now);
            }
            (Input::Replanned(plan), _) => self.on_replanned(plan, now),
            // Of an attempt that is over.
            (_, None) => {}
        }
    }

    /// Starts a plan from its first step: what was done by an earlier plan was for other pods.
    fn follow(&mut self, plan: RoutingPlan) {
        self.legs = plan.steps().iter().map(|_| Leg::default()).collect();
        self.plan = plan;
        if !self.request.api.generates() {
            // There is nothing to hand off: the last step's pod does all of it.
            let last = self.legs.len().saturating_sub(1);
            self.legs.iter_mut().take(last).for_each(|leg| leg.state = LegState::Skipped);
        }
        self.probing = self.request.api.generates()
            && self.legs.len() > 1
            && self.config.handoff.decodes_first(self.request.api, self.request.body());
        self.request.new_transfer();
    }

    /// Whether the dialect carries every step of the plan.
    fn check_roles(&self) -> Result<(), DispatchError> {
        let steps = self.plan.steps().iter().map(|step| (&*step.name, step.role));
        Ok(check_roles(&*self.config.handoff, steps)?)
    }

    /// The leg of an attempt in flight.
    fn leg_of(&self, id: AttemptId) -> Option<usize> {
        self.legs.iter().position(|leg| leg.attempt().is_some_and(|attempt| attempt.id == id))
    }

    fn is_concurrent(&self) -> bool {
        self.config.handoff.mode() == HandoffMode::Concurrent && self.legs.len() > 1
    }

    fn is_last(&self, leg: usize) -> bool {
        leg + 1 == self.legs.len()
    }

    /// Records the end of an attempt, samples its pod's breaker and releases it.
    ///
    /// In this order, so that a half-open breaker has the sample of a probe before its permit is free again.
    fn close(&mut self, leg: usize, attempt: &Attempt, outcome: AttemptOutcome, now: Instant) {
        let is_last = self.is_last(leg);
        let record = &mut self.log.attempts[attempt.record];
        let sample = attempt.sample(record, &outcome, is_last);
        let is_alone = self.log.is_out_of_budget && self.log.blamed.iter().all(|(.., pod)| *pod == attempt.pod);
        let sample = sample.map(|sample| if is_alone { sample.unconfirmed() } else { sample });
        (record.ended, record.bytes, record.outcome) = (Some(now), attempt.answer.received, outcome);
        record.usage = attempt.answer.usage();
        match (&record.outcome, &sample) {
            (_, Some(BreakerSample::Failure(failure)))
                if failure.may_be_the_requests() && !self.log.sampled.contains(&attempt.pod) =>
            {
                self.log.blamed.push((leg, attempt.id, attempt.pod));
            }
            (AttemptOutcome::Failed(failure), None) if failure.is_refusal() => {
                self.log.refusals.push((leg, attempt.id, attempt.pod, failure.clone()));
            }
            _ => {}
        }
        match sample {
            Some(BreakerSample::Success(first_byte)) if self.may_send_again(attempt.pod, leg) => {
                self.log.deferred.push((attempt.id, attempt.pod, BreakerSample::Success(first_byte)));
            }
            Some(sample) => self.sample(attempt.id, attempt.pod, sample),
            None => {}
        }
        self.push(Action::Release(attempt.id));
    }

    /// Whether a pod may yet be sent another step, or the same one: after it declined, it is.
    fn may_send_again(&self, pod: Pod, leg: usize) -> bool {
        let steps = self.plan.steps().iter().enumerate();
        let mut pending = steps.filter(|(at, _)| (*at != leg || self.probing) && self.legs[*at].is_unfinished());
        pending.any(|(_, step)| step.candidates.iter().any(|candidate| candidate.pod == pod))
    }

    /// Samples a pod's breaker, once.
    fn sample(&mut self, attempt: AttemptId, pod: Pod, sample: BreakerSample) {
        if !self.log.sampled.contains(&pod) {
            self.log.sampled.push(pod);
            self.push(Action::Sample(attempt, pod, sample));
        }
    }

    /// A pod serves a leg, or the whole request: what others failed of it is their own, and those that refused it are charged.
    fn blame_others(&mut self, served: Option<usize>) {
        let is_served = |leg: usize| served.is_none_or(|served| served == leg);
        self.log.blamed.retain(|(leg, ..)| !is_served(*leg));
        for (leg, attempt, pod, failure) in std::mem::take(&mut self.log.refusals) {
            if is_served(leg) {
                self.sample(attempt, pod, BreakerSample::Failure(failure));
            } else {
                self.log.refusals.push((leg, attempt, pod, failure));
            }
        }
    }

    /// Takes samples back where several pods failed and none served the request.
    fn exonerate(&mut self, outcome: &DispatchOutcome) {
        let blamed = std::mem::take(&mut self.log.blamed);
        // Whoever left or ran out of time did not see what the next pod would have done.
        let is_exhausted = match outcome {
            DispatchOutcome::Completed(_) => true,
            DispatchOutcome::Failed(error) => !error.is_total_bound(),
            _ => false,
        };
        if is_exhausted && blamed.iter().any(|(.., pod)| *pod != blamed[0].2) {
            for (_, attempt, pod) in blamed {
                self.push(Action::Exonerate(attempt, pod));
            }
        }
    }

    /// Changes the attempt in flight of a leg, if there is one.
    fn change_attempt(&mut self, leg: usize, change: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.legs[leg].attempt_mut() {
            change(attempt);
        }
    }

    /// Ends a leg's attempt, if one is in flight; the leg is pending then.
    fn stop(&mut self, leg: usize, outcome: AttemptOutcome, now: Instant) {
        if let Some(attempt) = self.legs[leg].take_attempt() {
            if !attempt.ended {
                self.push(Action::Cancel(attempt.id));
            }
            self.close(leg, &attempt, outcome, now);
        }
    }

    /// Cancels every leg but one.
    fn stop_others(&mut self, leg: usize, now: Instant) {
        for other in (0..self.legs.len()).filter(|other| *other != leg) {
            self.stop(other, AttemptOutcome::Cancelled, now);
        }
    }

    /// Ends the dispatch with an error response.
    fn finish_with(&mut self, error: DispatchError, now: Instant) {
        self.respond_error(&error);
        self.finish(DispatchOutcome::Failed(error), now);
    }

    fn finish(&mut self, outcome: DispatchOutcome, now: Instant) {
        (0..self.legs.len()).for_each(|leg| self.stop(leg, AttemptOutcome::Cancelled, now));
        for (attempt, pod, sample) in std::mem::take(&mut self.log.deferred) {
            self.sample(attempt, pod, sample);
        }
        self.exonerate(&outcome);
        let Log { attempts, skipped, handoffs_dropped, replans, .. } = std::mem::take(&mut self.log);
        let bytes = self.client.forwarded;
        let report = DispatchReport { outcome, attempts, skipped, handoffs_dropped, replans, bytes };
        self.hooks.iter_mut().for_each(|hook| hook.on_finish(&report));
        self.push(Action::Finish(report));
        self.state = State::Over;
    }

    fn push(&mut self, action: Action) {
        self.actions.push_back(action);
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch").field("state", &self.state).field("legs", &self.legs).finish_non_exhaustive()
    }
}
