//! A routed request: its plan, and the guards that count it towards the load of the pods it is sent to.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use kv_index::{DEFAULT_POD_WORDS, Pod};
use parking_lot::Mutex;
use routing_core::{Fleet, Request, Role, RoutingPlan};
use routing_exec::handoff::Api;
use routing_exec::{Admission, BreakerSample, Failure, Permit};
use routing_plugins::{DecodeSample, PaceSample};

use crate::flow_control::{AttemptGuard, OpenCharge, PrefillLeg};
use crate::open_turn::{OpenTurn, answers};
use crate::pace_samples::PaceSamples;
use crate::prompt_size::PromptSize;
use crate::reserved::Reserved;
use crate::router::{Live, Router};
use crate::watched_answer::WatchedAnswer;

/// Where a request goes, for hosts that send it themselves; [`Router::execute`](crate::Router::execute) does both.
///
/// Say what becomes of it by an [`Attempt`] for each pod that it is sent to: loads and circuit breakers live on that.
pub struct Routed<const W: usize = DEFAULT_POD_WORDS> {
    router: Router<W>,
    live: Arc<Live<W>>,
    plan: RoutingPlan,
    prompt: PromptSize,
    /// The last attempt at a prefill step.
    prefill: Option<Arc<PrefillLeg>>,
    /// What the plan expects of its first pods.
    samples: PaceSamples,
    /// Its shares of its pods' load, until its attempts begin.
    reserved: Reserved<W>,
    /// The program that it is a turn of, shared with the attempts that may answer: over with the last of them.
    turn: Option<Arc<Mutex<OpenTurn<W>>>>,
    /// What it was charged by flow control, shared alike: given back with the last of them, unless one of them answered.
    charge: SharedCharge<W>,
}

type SharedCharge<const W: usize> = Option<Arc<Mutex<Option<OpenCharge<W>>>>>;

impl<const W: usize> Routed<W> {
    pub(crate) fn new(router: Router<W>, request: &Request<'_>, live: Arc<Live<W>>, plan: RoutingPlan) -> Self {
        let prompt = router.prompt_size(request);
        let (turn, reserved) = (OpenTurn::of(&router, &plan), router.reserve(&plan, || prompt));
        Self::decided(router, live, plan, prompt, request.now).turn(turn).reserved(reserved, None)
    }

    /// A plan that was made at an instant.
    pub(crate) fn decided(
        router: Router<W>,
        live: Arc<Live<W>>,
        plan: RoutingPlan,
        prompt: PromptSize,
        decided: Instant,
    ) -> Self {
        let (reserved, turn, charge) = (Reserved::default(), None, None);
        let samples = PaceSamples::of(&plan, &router.plugin_state().paces, decided);
        Self { router, live, prompt, prefill: None, samples, reserved, turn, charge, plan }
    }

    pub(crate) fn turn(mut self, turn: Option<OpenTurn<W>>) -> Self {
        self.turn = turn.map(|turn| Arc::new(Mutex::new(turn)));
        self
    }

    /// The same of a request that counts on its pods already, and was charged.
    pub(crate) fn reserved(mut self, reserved: Reserved<W>, charge: Option<OpenCharge<W>>) -> Self {
        (self.reserved, self.charge) = (reserved, charge.map(|charge| Arc::new(Mutex::new(Some(charge)))));
        self
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &RoutingPlan {
        &self.plan
    }

    /// The fleet that it was decided on.
    #[must_use]
    pub fn fleet(&self) -> &Fleet<W> {
        &self.live.fleet
    }

    /// The first step's first choice.
    #[must_use]
    pub fn first_pod(&self) -> Option<Pod> {
        Some(self.plan.steps().first()?.candidates.first()?.pod)
    }

    /// The pods of a step with their addresses, best first. Try the next where one fails before it answered. A pod that is first for
    /// a prefill step and for the decode step behind it is sent one plain request, as executors do.
    pub fn candidates(&self, step: usize) -> impl Iterator<Item = (Pod, String)> {
        let candidates = self.plan.steps().get(step).map(|step| &step.candidates[..]).unwrap_or_default();
        candidates.iter().filter_map(|candidate| Some((candidate.pod, self.router.address(candidate.pod)?)))
    }

    /// Begins to send a step to a pod.
    ///
    /// # Errors
    ///
    /// When the pod may not be sent anything, and why: try the next candidate, or route again.
    pub fn begin(&mut self, step: usize, pod: Pod) -> Result<Attempt<W>, BeginError> {
        let steps = self.plan.steps();
        let step = steps.get(step).ok_or(BeginError::NoStep { step, steps: steps.len() })?;
        let (now, breakers) = (self.router.now(), self.router.breakers());
        let refused = || {
            let info = self.live.fleet.pod(pod.id()).filter(|info| info.pod == pod);
            let name = info.map_or_else(|| "?".into(), |info| (&*info.name).into());
            // A breaker knows whose place another pod has.
            if breakers.status(pod).is_some() { BeginError::BreakerOpen(name) } else { BeginError::PodLeft(name) }
        };
        let permit = breakers.admit(pod, now).ok_or_else(refused)?;
        let is_prefilled = self.prefill.as_ref().is_some_and(|leg| !leg.has_failed());
        let work = self.prompt.work(self.router.block_size(), step, pod, is_prefilled);
        let is_prefill = step.role == Role::Prefill;
        let sample = self.samples.of_pod(pod).filter(|_| !is_prefill);
        let kept = self.reserved.take(pod, step.role, is_prefilled);
        let share = kept.unwrap_or_else(|| self.router.plugin_state().load.begin(pod, work));
        let leg = is_prefill.then(Arc::default);
        self.prefill = leg.clone().or(self.prefill.take());
        let load = AttemptGuard::new(share, self.router.clone()).leg(leg);
        // Whatever else was kept is not needed any more, once it is where it ends.
        if answers(step) && self.reserved.clear() {
            self.router.pump();
        }
        let (router, admission) = (self.router.clone(), permit.admission());
        let ends = answers(step);
        let (turn, charge) = (self.turn.clone().filter(|_| ends), self.charge.clone().filter(|_| ends));
        if let Some(turn) = &turn {
            turn.lock().sent(step, pod, &self.live);
        }
        let prompt = self.prompt;
        Ok(Attempt {
            router,
            load,
            sample,
            decoding: None,
            admission,
            _permit: permit,
            began: now,
            first_token: None,
            is_timed: true,
            turn,
            charge,
            prompt,
            answers: ends,
            answer: None,
            failed: false,
        })
    }
}

impl<const W: usize> Drop for Routed<W> {
    /// What was kept for steps that nobody sent is others'.
    fn drop(&mut self) {
        if self.reserved.clear() {
            self.router.pump();
        }
    }
}

impl<const W: usize> fmt::Debug for Routed<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routed").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// Why nothing may be sent to a pod. The host can act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// The pod failed too often lately, or as many requests as may are trying it out.
    #[error("the circuit breaker of pod `{0}` is open: send the step to its next candidate")]
    BreakerOpen(Box<str>),
    /// The pod left after the request was routed, and another one has its place by now.
    #[error(
        "pod `{0}` left, and another has its place: send the step to its next candidate, or route the request again"
    )]
    PodLeft(Box<str>),
    /// The plan is shorter.
    #[error("the plan has no step {step}: its {steps} steps are counted from 0")]
    NoStep {
        /// What was asked for.
        step: usize,
        /// The steps there are.
        steps: usize,
    },
}

/// One request on one pod. It counts towards the pod's load until it is dropped; dropped without a word it was cancelled, which
/// says nothing of the pod.
#[must_use = "a request counts while its attempt is held"]
pub struct Attempt<const W: usize = DEFAULT_POD_WORDS> {
    router: Router<W>,
    load: AttemptGuard<W>,
    /// What was expected of the first token, until it comes.
    sample: Option<PaceSample>,
    /// Its pod as it was when that came.
    decoding: Option<(PaceSample, DecodeSample)>,
    admission: Admission,
    _permit: Permit<W>,
    began: Instant,
    first_token: Option<Instant>,
    /// Whether its beginning is known.
    is_timed: bool,
    /// The program that it is a turn of.
    turn: Option<Arc<Mutex<OpenTurn<W>>>>,
    charge: SharedCharge<W>,
    prompt: PromptSize,
    /// Whether the client has its answer: that of a prefill step is none.
    answers: bool,
    /// Tokens of its answer so far, where that is known.
    answer: Option<u64>,
    /// Whether the pod failed: another one may serve the request.
    failed: bool,
}

/// Whoever leaves before the end has taken what was computed: given back, those who leave would go before those who stay.
impl<const W: usize> Drop for Attempt<W> {
    fn drop(&mut self) {
        if self.answers && !self.failed {
            self.settle(self.taken());
        }
        // Before its place is another's: who goes next follows from what was charged.
        self.charge = None;
    }
}

impl<const W: usize> Attempt<W> {
    /// The pod.
    #[must_use]
    pub fn pod(&self) -> Pod {
        self.load.pod()
    }

    /// The first token came: the prompt is computed. Say so when it comes, not at the end of the answer: how fast the pod is, is
    /// learned from it.
    pub fn first_token(&mut self) {
        let now = *self.first_token.get_or_insert_with(|| self.router.now());
        self.load.first_token();
        if let Some(sample) = self.sample.take() {
            self.router.plugin_state().paces.first_token(sample, now.saturating_duration_since(self.began), now);
            self.decoding = Some((sample, self.router.decode_sample(sample)));
        }
    }

    /// So many tokens were generated so far, in all.
    pub fn generated(&mut self, tokens: u64) {
        if tokens > 0 {
            self.first_token();
        }
        self.answered(tokens);
        self.load.generated(tokens);
    }

    /// So many tokens were generated, as its end tells: no news of when the first one came.
    pub(crate) fn answered(&mut self, tokens: u64) {
        if let Some(turn) = &self.turn {
            turn.lock().generated(tokens);
        }
        self.answer = self.answer.max(Some(tokens));
    }

    /// Reads its answer as it passes, and does all of the above: first token, tokens, success or failure. For requests of an API by
    /// a method, as the pod was sent them.
    pub fn watch(self, api: Api, method: Method) -> WatchedAnswer<W> {
        WatchedAnswer::new(self, api, method)
    }

    /// The same of a request that was sent before anybody said so: how long it takes from now on is no measure of the pod.
    pub fn untimed(mut self) -> Self {
        (self.sample, self.is_timed) = (None, false);
        self
    }

    /// The pod answered, with whatever status that a client is to blame for.
    pub fn succeeded(mut self) {
        if !self.answers {
            // What it computed is there for the next.
            self.load.first_token();
        }
        let first = self.time_to_first_token();
        self.settle(self.taken());
        self.learn();
        self.record(&BreakerSample::Success(first));
    }

    /// It ended by itself: how long such answers are is learned from it, and how fast its pod decodes.
    pub(crate) fn learn(&self) {
        let Some(tokens) = self.answer.filter(|_| self.answers) else { return };
        let decoding = self.decoding.zip(self.first_token).map(|((sample, began), first)| {
            let ended = self.router.decode_sample(sample);
            ([began, ended], self.router.now().saturating_duration_since(first))
        });
        self.router.learn_answer(self.prompt, tokens, decoding);
    }

    /// It failed, and another pod may serve the request. What is the [pod's fault](Failure::is_pod_fault) counts for its circuit breaker, and one
    /// that [pushes back](Failure::is_pushback) is sent nothing for a moment; what a client or this process is to blame for says nothing of the pod.
    ///
    /// That the same request failed on every pod, and so is at fault itself, is seen by [`Router::execute`](crate::Router::execute) alone.
    pub fn failed(mut self, failure: Failure) {
        self.failed = true;
        if failure.is_pushback() {
            self.record(&BreakerSample::Overloaded(None));
        } else if failure.is_pod_fault() {
            self.record(&BreakerSample::Failure(failure));
        } else if failure.is_refusal() {
            // It answered.
            self.record(&BreakerSample::Success(None));
        }
    }

    /// How long it took to the first token, if that came.
    pub(crate) fn time_to_first_token(&self) -> Option<Duration> {
        self.first_token.filter(|_| self.is_timed).map(|at| at.saturating_duration_since(self.began))
    }

    pub(crate) fn has_first_token(&self) -> bool {
        self.first_token.is_some()
    }

    /// It was served, and took so many tokens.
    pub(crate) fn settle(&self, tokens: Option<u64>) {
        if let Some(charge) = self.charge.as_ref().and_then(|charge| charge.lock().take()) {
            charge.settle(tokens);
        }
    }

    /// The tokens of its prompt and its answer so far, where that is known.
    fn taken(&self) -> Option<u64> {
        self.answer.map(|answer| self.prompt.tokens().saturating_add(answer))
    }

    pub(crate) fn record(&mut self, sample: &BreakerSample) {
        self.failed |= !matches!(sample, BreakerSample::Success(_));
        self.router.breakers().record(self.admission, sample, self.router.now());
    }
}

impl<const W: usize> fmt::Debug for Attempt<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("pod", &self.pod()).field("began", &self.began).finish_non_exhaustive()
    }
}
