//! Execution host of a routed request: accounts its load, replans when pods fail, audits what engines report.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kv_index::{BlockHash, DEFAULT_POD_WORDS, Pod};
use routing_core::{Fleet, PlanStep, Role, RoutingPlan};
use routing_exec::{AttemptOutcome, AttemptRecord, DispatchHost, DispatchReport};
use routing_plugins::PaceSample;
use routing_plugins::load::{LoadGuard, Work};

use crate::answer_learning::{Decoding, answered};
use crate::cache_audit::{Audited, AuditedPrompt, Expectation};
use crate::flow_control::{AttemptGuard, OpenCharge, PrefillLeg};
use crate::llm_request::LlmRequest;
use crate::open_turn::{OpenTurn, answers};
use crate::pace_samples::PaceSamples;
use crate::prompt_size::PromptSize;
use crate::reserved::Reserved;
use crate::routed::Routed;
use crate::router::{Live, Router};
use crate::watched_answer::taken;

/// The host of one request. Wrap it to learn what happens: delegate each call, and look at what comes.
pub struct RouterHost<const W: usize = DEFAULT_POD_WORDS> {
    router: Router<W>,
    live: Arc<Live<W>>,
    request: Arc<LlmRequest>,
    prompt: PromptSize,
    /// The last prefill pod's attempt.
    prefill: Option<Arc<PrefillLeg>>,
    /// When the current plan was made.
    decided: Instant,
    /// The plan's first pod, and the prompt tokens that it is expected to have cached.
    expected: Option<(Pod, u64)>,
    /// What was expected of each attempt's pod.
    expectations: Vec<Expectation>,
    /// What the current plan expects of its first pods.
    samples: PaceSamples,
    /// The newest attempt of a stream whose first token was expected, if that teaches how fast its pod is.
    sample: Option<(usize, PaceSample, Arc<Decoding>)>,
    /// The same of a pod that computes the prompt for another.
    prefill_sample: Option<(usize, PaceSample)>,
    /// Its shares of its pods' load, until its attempts begin.
    reserved: Reserved<W>,
    /// The program that it is a turn of, until it is over.
    turn: Option<OpenTurn<W>>,
    /// What it was charged by flow control, until it is over.
    charge: Option<OpenCharge<W>>,
    /// Set at the end, if an engine reported its cached tokens.
    audited: Arc<OnceLock<Audited>>,
}

impl<const W: usize> RouterHost<W> {
    pub(crate) fn new(
        router: Router<W>,
        live: Arc<Live<W>>,
        request: Arc<LlmRequest>,
        plan: &RoutingPlan,
        decided: Instant,
    ) -> Self {
        let prompt = router.prompt_size(&request.request(router.name(), decided)).of_samples(request.has_samples());
        let mut host = Self {
            router,
            live,
            request,
            prompt,
            prefill: None,
            decided,
            expected: None,
            expectations: Vec::new(),
            samples: PaceSamples::default(),
            sample: None,
            prefill_sample: None,
            reserved: Reserved::default(),
            turn: None,
            charge: None,
            audited: Arc::default(),
        };
        host.samples = host.samples_of(plan);
        host.expected = plan.steps().first().and_then(|step| {
            let pod = step.candidates.first()?.pod;
            Some((pod, host.expected_tokens(pod, step)))
        });
        host
    }

    /// The same of a request that counts on its pods already, and was charged.
    pub(crate) fn reserved(mut self, reserved: Reserved<W>, charge: Option<OpenCharge<W>>) -> Self {
        (self.reserved, self.charge) = (reserved, charge);
        self
    }

    fn samples_of(&self, plan: &RoutingPlan) -> PaceSamples {
        PaceSamples::of(plan, &self.router.plugin_state().paces, self.decided)
    }

    /// Whether another pod computed the prompt, or is about to.
    fn is_prefilled(&self) -> bool {
        self.prefill.as_ref().is_some_and(|leg| !leg.has_failed())
    }

    /// Its share of a pod's load that was kept for it, or a new one.
    fn share(&mut self, pod: Pod, step: &PlanStep, work: Work) -> LoadGuard<W> {
        let kept = self.reserved.take(pod, step.role, self.is_prefilled());
        let share = kept.unwrap_or_else(|| self.router.plugin_state().load.begin(pod, work));
        // Whatever else was kept is not needed any more, once it is where it ends.
        if answers(step) && self.reserved.clear() {
            self.router.pump();
        }
        share
    }

    /// It is over, and took so many tokens.
    fn settle(&mut self, tokens: Option<u64>) {
        self.turn = None;
        let had_room = self.reserved.clear() | self.charge.is_some();
        if let Some(charge) = self.charge.take() {
            charge.settle(tokens);
        }
        if had_room {
            self.router.pump();
        }
    }

    /// The same of a turn of a program.
    pub(crate) fn turn(mut self, turn: Option<OpenTurn<W>>) -> Self {
        self.turn = turn;
        self
    }

    /// The plan and what counts it, for hosts that send it themselves.
    pub(crate) fn into_routed(mut self, plan: RoutingPlan) -> Routed<W> {
        let (router, live) = (self.router.clone(), Arc::clone(&self.live));
        let (reserved, charge) = (std::mem::take(&mut self.reserved), self.charge.take());
        Routed::decided(router, live, plan, self.prompt, self.decided).turn(self.turn.take()).reserved(reserved, charge)
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> &Arc<LlmRequest> {
        &self.request
    }

    /// The fleet that the current plan was decided on.
    #[must_use]
    pub fn fleet(&self) -> &Arc<Fleet<W>> {
        &self.live.fleet
    }

    /// The model's name.
    #[must_use]
    pub fn model(&self) -> &str {
        self.router.name()
    }

    /// The name of the profile that made the current plan.
    #[must_use]
    pub fn profile(&self) -> &Arc<str> {
        &self.live.profile
    }

    /// The pods that it was sent to so far, with what was expected of each.
    #[must_use]
    pub fn expectations(&self) -> &[Expectation] {
        &self.expectations
    }

    /// The plan's first pod, and the prompt tokens that it is expected to have cached.
    #[must_use]
    pub fn expected(&self) -> Option<(Pod, u64)> {
        self.expected
    }

    /// Where expected and reported cached tokens will be, once an engine has reported them.
    #[must_use]
    pub fn audited(&self) -> Arc<OnceLock<Audited>> {
        Arc::clone(&self.audited)
    }

    /// Prompt tokens that a pod of a step is expected to have cached, by what its engine announced.
    ///
    /// A cache-aware profile has what its first candidate holds in its plan; for others, and where that may be speculated, the
    /// index is asked. Engines compute at least the last token, so a block that it completes counts for nothing, even if it is
    /// held.
    fn expected_tokens(&self, pod: Pod, step: &PlanStep) -> u64 {
        let index = self.router.index();
        if self.request.bypasses_cache() || self.live.is_predicted || !index.alive().contains(pod.id()) {
            return 0;
        }
        let is_first = step.candidates.first().is_some_and(|first| first.pod == pod);
        let held = match step.cache.filter(|_| is_first) {
            Some(cache) if cache.held == 0 || !index.has_speculated(pod) => cache.held,
            Some(cache) => index.announced(pod, &self.hashes(cache.held)).unwrap_or(0),
            None => index.announced(pod, &self.hashes(usize::MAX)).unwrap_or(0),
        };
        let size = self.router.block_size().tokens();
        (held.min(self.request.tokens().len().saturating_sub(1) / size) * size) as u64
    }

    /// So many of the prompt's block hashes, the first ones; none where they cannot be made.
    fn hashes(&self, blocks: usize) -> Vec<BlockHash> {
        let mut request = self.request.request(self.router.name(), self.decided);
        let most = blocks.saturating_mul(self.router.block_size().tokens());
        request.tokens = request.tokens.map(|tokens| &tokens[..tokens.len().min(most)]);
        let mut hashes = self.router.plugin_state().hashing.hashes(&request).unwrap_or_default();
        hashes.truncate(blocks);
        hashes
    }

    /// Learns how fast the pod is from when tokens came, and how long such answers are.
    fn learn(&self, report: &DispatchReport) {
        let first_token = |attempt| report.attempts.get(attempt).and_then(AttemptRecord::time_to_first_token);
        let sampled = self.sample.as_ref();
        if let Some((sample, took)) = sampled.and_then(|(attempt, sample, _)| Some((*sample, first_token(*attempt)?))) {
            self.router.plugin_state().paces.first_token(sample, took, self.router.now());
        }
        if let Some((sample, took)) =
            self.prefill_sample.and_then(|(at, sample)| Some((sample, computed_in(report, at)?)))
        {
            self.router.plugin_state().paces.first_token(sample, took, self.router.now());
        }
        let Some((at, answer, tokens)) = answered(report) else { return };
        let decoding = sampled.filter(|(attempt, ..)| *attempt == at).and_then(|(.., decoding)| {
            let samples = [*decoding.began.get()?, *decoding.ended.get()?];
            Some((samples, answer.ended?.saturating_duration_since(answer.first_byte?)))
        });
        self.router.learn_answer(self.prompt, tokens, decoding);
    }

    fn expect(&mut self, pod: Pod, step: &PlanStep) {
        let name = self.live.fleet.pod(pod.id()).map_or_else(|| "?".into(), |info| info.name.as_ref().into());
        // What a decode pod reports includes what came over the wire, and one of several answers had the others' blocks. What
        // is guessed by text has no blocks of an engine's to compare.
        let is_handed_off = step.role == Role::Decode && self.is_prefilled();
        let is_told = !self.request.tokens().is_empty() && !self.live.is_predicted;
        let is_comparable = !is_handed_off && !self.request.has_samples() && is_told;
        // Of the first pod it is known from the decision.
        let known = self.expected.filter(|(first, _)| self.expectations.is_empty() && *first == pod);
        let tokens = known.map(|(_, tokens)| tokens);
        let tokens = is_comparable.then(|| tokens.unwrap_or_else(|| self.expected_tokens(pod, step)));
        let is_suspended = !self.router.index().alive().contains(pod.id());
        self.expectations.push(Expectation { pod, name, tokens, decided: self.decided, is_suspended });
    }
}

/// How long an attempt took to compute a prompt for another pod; nothing where that began meanwhile, since each may have waited for the other.
fn computed_in(report: &DispatchReport, attempt: usize) -> Option<Duration> {
    let own = report.attempts.get(attempt)?;
    let took = own.time_to_first_token()?;
    let is_alone = report.attempts.get(attempt + 1).is_none_or(|next| next.sent >= own.sent + took);
    (own.outcome == AttemptOutcome::Completed && is_alone).then_some(took)
}

impl<const W: usize> DispatchHost for RouterHost<W> {
    type Guard = AttemptGuard<W>;

    fn begin_attempt(&mut self, pod: Pod, step: &PlanStep) -> AttemptGuard<W> {
        self.expect(pod, step);
        if let Some(turn) = &self.turn {
            turn.sent(step, pod, &self.live);
        }
        let (attempt, sample) = (self.expectations.len() - 1, self.samples.of_pod(pod));
        let mut leg = None;
        if step.role == Role::Prefill {
            leg = Some(Arc::default());
            self.prefill_sample = sample.map(|sample| (attempt, sample));
        } else if self.request.streams() {
            self.sample = sample.map(|sample| (attempt, sample, Arc::default()));
        }
        let work = self.prompt.work(self.router.block_size(), step, pod, self.is_prefilled());
        let watched = self.sample.as_ref().filter(|(attempt, ..)| *attempt + 1 == self.expectations.len());
        let watched = watched.map(|(_, sample, decoding)| (*sample, Arc::clone(decoding)));
        let share = self.share(pod, step, work);
        self.prefill = leg.clone().or(self.prefill.take());
        AttemptGuard::new(share, self.router.clone()).watching(watched).leg(leg)
    }

    fn replan(&mut self, failed: &[Pod]) -> Option<RoutingPlan> {
        if self.reserved.clear() {
            self.router.pump();
        }
        // The newest fleet: the first plan was made on one whose pods failed.
        self.live = self.router.live();
        (self.decided, self.expected) = (self.router.now(), None);
        let request = self.request.request(self.router.name(), self.decided);
        // What begins anew is not over when the other is.
        self.turn = None;
        let excluded = self.request.excluded(&self.live.fleet, failed);
        let plan = self.router.decide(&self.live, &request, excluded, None).ok()?;
        self.turn = OpenTurn::of(&self.router, &plan);
        (self.prefill, self.samples) = (None, self.samples_of(&plan));
        self.reserved = self.router.reserve(&plan, || self.prompt);
        Some(plan)
    }

    fn finished(&mut self, report: DispatchReport) {
        let usage = report.attempts.iter().rev().find_map(|attempt| attempt.usage);
        if let Some((turn, answer)) = self.turn.as_mut().zip(usage.and_then(|usage| usage.completion_tokens)) {
            turn.generated(answer);
        }
        self.settle(usage.and_then(taken));
        let prompt = AuditedPrompt {
            tokens: self.request.tokens().len() as u64,
            block_tokens: self.router.block_size().tokens() as u64,
            hashes: &|| self.hashes(usize::MAX),
        };
        self.learn(&report);
        if let Some(audited) = self.router.cache_audit().record(&self.expectations, &report, &prompt) {
            let _ = self.audited.set(audited);
        }
    }
}

impl<const W: usize> Drop for RouterHost<W> {
    /// A client that leaves is over too.
    fn drop(&mut self) {
        self.settle(None);
    }
}

impl<const W: usize> fmt::Debug for RouterHost<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterHost").field("expected", &self.expected).finish_non_exhaustive()
    }
}
