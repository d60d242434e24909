//! A run: one request carried out by its plan, as a state machine.
//!
//! It is told what happened and says what to do; it does nothing itself. Three rules hold whatever the order of events:
//! a run ends once, and nothing comes after its end; whatever is held for an attempt is released once; and once the
//! client has had a byte, nothing is tried again.
//!
//! Time only ever goes into it: a moment that lies before another one is no time passed, and a bound too far off to be
//! told as a moment is none.

mod answer;
mod attempt;
mod failure;
mod headers;
mod legs;
mod requests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use routing_core::Pod;
use routing_core::RoutingPlan;

use self::answer::ClientSide;
use self::attempt::Attempt;
use self::legs::Leg;
pub use self::requests::ClientRequest;
use crate::action::{Action, AttemptId, Input, TimerId, Verdict};
use crate::budget::RetryBudget;
use crate::config::RunConfig;
use crate::error::RunError;
use crate::handoff::{Addresses, Handoff, HandoffError, Mode};
use crate::hook::Hook;
use crate::record::{AttemptRecord, Fate, Outcome, Report};

/// What a host sets up once and all its runs share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// How patient runs are.
    pub config: Arc<RunConfig>,
    /// How a request is handed from one pod to the next.
    pub handoff: Arc<dyn Handoff>,
    /// Where pods are, for engines that must be told.
    pub addresses: Arc<dyn Addresses>,
    /// How many retries all runs together may make.
    pub budget: Option<Arc<RetryBudget>>,
}

impl Settings {
    /// Settings with a handoff and where pods are: the default patience, and no bound on retries but each run's own.
    #[must_use]
    pub fn new(handoff: Arc<dyn Handoff>, addresses: Arc<dyn Addresses>) -> Self {
        Self { config: Arc::default(), handoff, addresses, budget: None }
    }
}

/// One request, carried out.
///
/// [`start`](Self::start) it, then do what [`next_action`](Self::next_action) says until it says no more, then tell it what happened by
/// [`handle`](Self::handle); and so on until [`Action::Finish`].
pub struct Run {
    settings: Settings,
    request: ClientRequest,
    plan: RoutingPlan,
    hooks: Vec<Box<dyn Hook>>,
    legs: Vec<Leg>,
    client: ClientSide,
    log: Log,
    /// Pods that failed under an earlier plan.
    ruled_out: Vec<Pod>,
    /// Whether the last leg's pod is asked first, to say whether it needs the others.
    probing: bool,
    /// Whether the latest leg was sent what an earlier one handed out.
    handed_over: bool,
    actions: VecDeque<Action>,
    attempts: u32,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// A new plan was asked for, because of this.
    Replanning(RunError),
    Over,
}

/// What is written down on the way.
#[derive(Debug, Default)]
struct Log {
    attempts: Vec<AttemptRecord>,
    /// Pods whose breaker has heard of this request.
    judged: Vec<Pod>,
    /// Pods that did well, and may be asked again for another step: judged when all is over.
    well: Vec<(AttemptId, Pod, Verdict)>,
    /// Pods that failed, for whoever makes a new plan.
    failed: Vec<Pod>,
    skipped: Vec<Arc<str>>,
    handoffs_dropped: u32,
    replans: u32,
}

impl Run {
    /// A run of a plan. The last step's answer goes to the client.
    #[must_use]
    pub fn new(settings: Settings, request: ClientRequest, plan: RoutingPlan, hooks: Vec<Box<dyn Hook>>) -> Self {
        let mut run = Self {
            settings,
            request,
            plan: RoutingPlan::default(),
            hooks,
            legs: Vec::new(),
            client: ClientSide::default(),
            log: Log::default(),
            ruled_out: Vec::new(),
            probing: false,
            handed_over: false,
            actions: VecDeque::new(),
            attempts: 0,
            state: State::Running,
        };
        run.follow(plan);
        run
    }

    /// Begins. A run that is over before it began stays over.
    pub fn start(&mut self, now: Instant) {
        if self.is_over() {
            return;
        }
        if let Some(error) = self.request.unreadable {
            return self.finish_with(HandoffError::Body(error).into(), now);
        }
        if let Some(budget) = &self.settings.budget {
            budget.deposit(now);
        }
        if let Some(deadline) = self.request.deadline {
            self.push(Action::Arm(TimerId::Deadline, deadline));
        }
        self.advance(now);
    }

    /// What to do next; none if something must happen first.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The plan that it follows now.
    #[must_use]
    pub fn plan(&self) -> &RoutingPlan {
        &self.plan
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Takes note of what happened. What concerns an attempt that was given up, or a run that is over, changes nothing.
    pub fn handle(&mut self, now: Instant, input: Input) {
        if self.is_over() {
            return;
        }
        match input {
            Input::Head(id, head) => {
                if let Some(leg) = self.leg_of(id) {
                    self.on_head(leg, head, now);
                }
            }
            Input::Chunk(id, chunk) => {
                if let Some(leg) = self.leg_of(id) {
                    self.on_chunk(leg, chunk, now);
                }
            }
            Input::End(id, trailers) => {
                if let Some(leg) = self.leg_of(id) {
                    self.on_end(leg, trailers, now);
                }
            }
            Input::Failed(id, failure) => {
                if let Some(leg) = self.leg_of(id) {
                    self.ended(leg);
                    self.fail(leg, failure, now);
                }
            }
            Input::Expired(TimerId::Deadline) => self.on_deadline(now),
            Input::Expired(TimerId::Attempt(id)) => {
                if let Some(leg) = self.leg_of(id) {
                    self.on_timer(leg, now);
                }
            }
            Input::ClientGone => self.finish(Outcome::ClientGone, now),
            Input::Cancel => {
                self.tell(&RunError::Cancelled);
                self.finish(Outcome::Cancelled, now);
            }
            Input::Replanned(plan) => self.on_replanned(plan, now),
        }
    }

    /// Takes up a plan, from its beginning: what an earlier one got done was for other pods.
    fn follow(&mut self, plan: RoutingPlan) {
        self.legs = plan.steps().iter().map(|_| Leg::default()).collect();
        self.plan = plan;
        self.probing =
            self.legs.len() > 1 && self.settings.handoff.decodes_first(self.request.api, self.request.body());
        self.request.new_transfer();
    }

    fn on_replanned(&mut self, plan: Option<RoutingPlan>, now: Instant) {
        let error = match std::mem::replace(&mut self.state, State::Running) {
            State::Replanning(error) => error,
            state => return self.state = state,
        };
        let Some(plan) = plan.filter(|plan| !plan.steps().is_empty()) else { return self.finish_with(error, now) };
        self.follow(plan);
        self.advance(now);
    }

    fn on_deadline(&mut self, now: Instant) {
        match self.request.deadline {
            Some(deadline) if now < deadline => self.push(Action::Arm(TimerId::Deadline, deadline)),
            Some(_) => self.finish_with(RunError::Deadline, now),
            None => {}
        }
    }

    /// The leg that an attempt under way is for.
    fn leg_of(&self, id: AttemptId) -> Option<usize> {
        self.legs.iter().position(|leg| leg.attempt().is_some_and(|attempt| attempt.id == id))
    }

    fn is_concurrent(&self) -> bool {
        self.settings.handoff.mode() == Mode::Concurrent && self.legs.len() > 1
    }

    fn is_last(&self, leg: usize) -> bool {
        leg + 1 == self.legs.len()
    }

    /// An attempt is over: it is written down, its pod is judged, and what was held for it is let go.
    ///
    /// In this order, so that a pod that is being tried out has its verdict before its place is free again.
    fn close(&mut self, leg: usize, attempt: &Attempt, fate: Fate, now: Instant) {
        let is_last = self.is_last(leg);
        let record = &mut self.log.attempts[attempt.record];
        let verdict = attempt.verdict(record, &fate, is_last);
        (record.ended, record.bytes, record.fate) = (Some(now), attempt.received, fate);
        match verdict {
            Some(verdict @ Verdict::Bad(_)) => self.judge(attempt.id, attempt.pod, verdict),
            Some(verdict) if self.may_ask(attempt.pod, leg) => self.log.well.push((attempt.id, attempt.pod, verdict)),
            Some(verdict) => self.judge(attempt.id, attempt.pod, verdict),
            None => {}
        }
        self.push(Action::Release(attempt.id));
    }

    /// Whether a pod may yet be asked for another step, or for the same: one that was asked first and declined is.
    fn may_ask(&self, pod: Pod, leg: usize) -> bool {
        let steps = self.plan.steps().iter().enumerate();
        let mut pending = steps.filter(|(at, _)| (*at != leg || self.probing) && self.legs[*at].is_pending());
        pending.any(|(_, step)| step.candidates.iter().any(|candidate| candidate.pod == pod))
    }

    /// Has a pod judged, unless it was.
    fn judge(&mut self, attempt: AttemptId, pod: Pod, verdict: Verdict) {
        if !self.log.judged.contains(&pod) {
            self.log.judged.push(pod);
            self.push(Action::Judge(attempt, pod, verdict));
        }
    }

    /// Takes note that nothing more comes of a leg's attempt, so that nobody is told to give it up.
    fn ended(&mut self, leg: usize) {
        if let Some(attempt) = self.legs[leg].attempt_mut() {
            attempt.ended = true;
        }
    }

    /// Ends a leg's attempt, if one is under way; the leg is then to be asked anew.
    fn stop(&mut self, leg: usize, fate: Fate, now: Instant) {
        if let Some(attempt) = self.legs[leg].take_attempt() {
            if !attempt.ended {
                self.push(Action::Cancel(attempt.id));
            }
            self.close(leg, &attempt, fate, now);
        }
    }

    /// Stops every leg but one, through no fault of theirs.
    fn stop_others(&mut self, leg: usize, now: Instant) {
        for other in (0..self.legs.len()).filter(|other| *other != leg) {
            self.stop(other, Fate::Cancelled, now);
        }
    }

    /// Ends the run with an error that the client is told.
    fn finish_with(&mut self, error: RunError, now: Instant) {
        self.tell(&error);
        self.finish(Outcome::Failed(error), now);
    }

    fn finish(&mut self, outcome: Outcome, now: Instant) {
        (0..self.legs.len()).for_each(|leg| self.stop(leg, Fate::Cancelled, now));
        for (attempt, pod, verdict) in std::mem::take(&mut self.log.well) {
            self.judge(attempt, pod, verdict);
        }
        let Log { attempts, skipped, handoffs_dropped, replans, .. } = std::mem::take(&mut self.log);
        let bytes = self.client.forwarded;
        let report = Report { outcome, attempts, skipped, handoffs_dropped, replans, bytes };
        self.hooks.iter_mut().for_each(|hook| hook.at_end(&report));
        self.push(Action::Finish(report));
        self.state = State::Over;
    }

    fn push(&mut self, action: Action) {
        self.actions.push_back(action);
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("state", &self.state).field("legs", &self.legs).finish_non_exhaustive()
    }
}
