//! Execution host of one request: accounts its load, replans when pods fail, records the outcome.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use kv_index::{BlockSize, PodSet};
use routing_core::{InFlightGuard, PlanStep, Pod, Role, RoutingPlan};
use routing_exec::{DispatchHost, DispatchReport};
use routing_plugins::load::{LoadGuard, OutputEstimate, Work};

use super::app_state::AppState;
use super::cache_audit::{Audited, AuditedPrompt, Expectation};
use super::decision_log::{DecisionRecord, unix_ms};
use super::live_config::LiveConfig;
use super::routing_request::RoutingRequest;

/// When a plan was made, and what it expects.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecisionBasis {
    pub(super) at: Instant,
    /// The plan's first pod, and the prompt tokens that it is expected to have cached.
    pub(super) expected: Option<(Pod, u64)>,
}

/// The host of one request.
pub(super) struct RequestHost {
    app: Arc<AppState>,
    live_config: Arc<LiveConfig>,
    routing_request: Arc<RoutingRequest>,
    key: u64,
    /// Whether a prefill pod was used.
    prefilled: bool,
    /// What the current plan is based on.
    basis: DecisionBasis,
    /// What was expected of each attempt's pod.
    expectations: Vec<Expectation>,
    /// Set at the end, if an engine reported its cached tokens.
    audited: Arc<OnceLock<Audited>>,
}

impl RequestHost {
    pub(super) fn new(
        app: Arc<AppState>,
        live_config: Arc<LiveConfig>,
        routing_request: Arc<RoutingRequest>,
        key: u64,
        basis: DecisionBasis,
    ) -> Self {
        let (expectations, audited) = (Vec::new(), Arc::default());
        Self { app, live_config, routing_request, key, prefilled: false, basis, expectations, audited }
    }

    /// Where the cached tokens will be, once an engine has reported them.
    pub(super) fn audited(&self) -> Arc<OnceLock<Audited>> {
        Arc::clone(&self.audited)
    }

    fn expect(&mut self, pod: Pod, step: &PlanStep) {
        let name = self.live_config.fleet.pod(pod.id()).map_or_else(|| "?".into(), |info| info.name.as_ref().into());
        // What a decode pod reports includes what came over the wire, and one of several answers had the others' blocks.
        let is_handed_off = step.role == Role::Decode && self.prefilled;
        let is_comparable = !is_handed_off && !self.routing_request.parsed.has_samples;
        // Of the first pod it is known from the decision.
        let known = self.basis.expected.filter(|(first, _)| self.expectations.is_empty() && *first == pod);
        let tokens = known.map(|(_, tokens)| tokens);
        let tokens =
            is_comparable.then(|| tokens.unwrap_or_else(|| self.routing_request.expected_tokens(&self.app, pod, step)));
        let is_suspended = !self.app.plugin_state.index.alive().contains(pod.id());
        self.expectations.push(Expectation { pod, name, tokens, decided: self.basis.at, is_suspended });
    }

    fn audit(&self, report: &DispatchReport) -> Option<Audited> {
        let prompt = AuditedPrompt {
            tokens: self.routing_request.tokens.len() as u64,
            block_tokens: u64::from(self.app.model.block_size.get()),
            hashes: &|| self.routing_request.hashes(&self.app),
        };
        self.app.cache_audit.record(&self.expectations, report, &prompt)
    }

    /// What the request costs a pod.
    fn work(&self, pod: Pod, step: &PlanStep) -> Work {
        let prompt = self.routing_request.tokens.len() as u64;
        let work = Work::of(prompt);
        // What the plan knows is about the first candidate.
        let held = step.cache.filter(|_| step.candidates.first().is_some_and(|first| first.pod == pod));
        let work = match (held, BlockSize::new(self.app.model.block_size.get())) {
            // What another pod computed comes over the wire.
            _ if step.role == Role::Decode && self.prefilled => work.held(prompt),
            (Some(cache), Some(size)) => work.held_blocks(cache.held, size),
            _ => work,
        };
        if step.role == Role::Prefill {
            return work.output(1);
        }
        work.output(OutputEstimate::default().of(prompt, self.routing_request.parsed.max_output_tokens))
    }
}

impl DispatchHost for RequestHost {
    type Guard = LoadShare;

    fn begin_attempt(&mut self, pod: Pod, step: &PlanStep) -> LoadShare {
        self.expect(pod, step);
        let guard = self.app.plugin_state.load.begin(pod, self.work(pod, step));
        self.app.request_log.record_dispatch(self.key, pod, step.role, self.prefilled);
        self.prefilled |= step.role == Role::Prefill;
        let answers = (step.role != Role::Prefill).then(|| (Arc::clone(&self.app), self.key));
        LoadShare { guard, answers }
    }

    fn replan(&mut self, failed: &[Pod]) -> Option<RoutingPlan> {
        // The newest fleet: the first plan was made on one whose pods failed.
        let live_config = self.app.live_config.load_full();
        let mut excluded = PodSet::EMPTY;
        for pod in failed {
            excluded.insert(pod.id());
        }
        self.basis = DecisionBasis { at: Instant::now(), expected: None };
        let request = self.routing_request.request(&self.app.model.name, self.basis.at);
        let plan = live_config.decide(&request, excluded, None).ok();
        self.live_config = live_config;
        plan
    }

    fn finished(&mut self, report: DispatchReport) {
        let audited = self.audit(&report);
        if let Some(audited) = &audited {
            let _ = self.audited.set(audited.clone());
        }
        let ended = self.app.request_log.record_outcome(self.key, &report, audited.clone());
        if let (Some(log), Some(ended)) = (&self.app.decision_log, ended) {
            log.push(DecisionRecord {
                unix_ms: unix_ms(),
                id: ended.id.to_string(),
                profile: self.live_config.profile.to_string(),
                pods: self.expectations.iter().map(|expectation| expectation.name.to_string()).collect(),
                prompt_tokens: self.routing_request.tokens.len() as u64,
                expected_tokens: audited.as_ref().map(|audited| audited.observation.expected),
                cached_tokens: audited.as_ref().map(|audited| audited.observation.actual),
                cause: None,
                outcome: ended.outcome,
                ttft_ms: ended.ttft.map(|time| time.as_secs_f64() * 1e3),
                total_ms: ended.total.as_secs_f64() * 1e3,
                audited,
            });
        }
    }
}

/// A request's share of a pod's load.
pub(super) struct LoadShare {
    guard: LoadGuard,
    /// The request whose first byte it is, if the pod's response is the client's.
    answers: Option<(Arc<AppState>, u64)>,
}

impl InFlightGuard for LoadShare {
    fn first_byte(&mut self) {
        self.guard.first_token();
        if let Some((app, key)) = self.answers.take() {
            app.request_log.record_first_byte(key);
        }
    }
}
