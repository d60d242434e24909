//! `GET /state`: the gateway's state as JSON, for the admin page.
//!
//! Gathered on demand. Traces of decisions are recorded while it is read, and for ten seconds after.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::app_state::AppState;
use super::config::PodRole;
pub use super::config::{Breakers, Retry};
use super::explain;
pub use super::explain::{FlowReasons, PodReasons, ProgramReasons, ScoreReason, StepReasons};
use super::findings;
pub use super::findings::ModelFinding;
use super::model::Model;
use super::request_log::Decision;
pub use super::request_log::{Sample, Totals};
pub use pointsman::{CacheAccuracy, Cause};
use pointsman::{RegisteredPod, Router};
pub use pointsman_reporter::source_status::SourceView;

/// State of a gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct State {
    /// Seconds since it started.
    pub uptime_s: f64,
    /// Whether it is stopping, its grace period included.
    pub draining: bool,
    /// The models it serves, in the order of the configuration.
    pub models: Vec<ModelState>,
    /// What is probably wrong.
    pub findings: Vec<ModelFinding>,
    /// Its pods, in the order of the configuration.
    pub pods: Vec<PodState>,
    /// When circuit breakers open, as configured.
    pub breakers: Breakers,
    /// What is tried again, as configured.
    pub retry: Retry,
    /// Bodies of requests that are being read; they are not in flight yet.
    pub uploads: UploadState,
    /// Bands of flow control, with what waits in them; none without it.
    pub flow: Vec<FlowBandState>,
    /// Counters since the start.
    pub totals: Totals,
    /// One sample a second, oldest first.
    pub series: Vec<Sample>,
    /// The last decisions, newest first.
    pub decisions: Vec<DecisionState>,
    /// Requests in flight.
    pub active_requests: Vec<ActiveRequestState>,
}

/// Bodies of requests that are being read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UploadState {
    /// How many.
    pub count: usize,
    /// Bytes that have arrived of them.
    pub bytes: usize,
    /// Those that were refused since the start, since there were too many or they had too many bytes.
    pub refused: u64,
}

impl UploadState {
    pub(super) fn of(app: &AppState) -> Self {
        let uploads = &app.uploads;
        Self { count: uploads.count(), bytes: uploads.bytes(), refused: uploads.refused() }
    }
}

/// What waits in a band of flow control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FlowBandState {
    /// The model.
    pub model: String,
    /// Its name.
    pub band: String,
    /// Requests that wait.
    pub requests: usize,
    /// Tokens that serving them takes.
    pub tokens: u64,
    /// Bytes that they keep: of their bodies and of their prompts' tokens.
    pub bytes: u64,
    /// Keys with the most waiting requests.
    pub keys: Vec<(String, usize)>,
    /// Requests since the start, by what became of them: `passed`, `waited`, or why they were shed. Of all models together.
    pub outcomes: BTreeMap<&'static str, u64>,
}

impl FlowBandState {
    pub(super) fn all(app: &AppState) -> Vec<Self> {
        let counts = app.flow_metrics.counts();
        let outcomes = |band: &str| {
            let of_band = counts.bands.iter().filter(|((name, _), _)| **name == *band);
            of_band.map(|((_, outcome), count)| (*outcome, *count)).collect()
        };
        let models = app.models.iter().flat_map(|model| {
            let bands = model.router.flow_status(SHOWN_KEYS).into_iter();
            bands.map(|band| (model.router.name().to_owned(), band)).collect::<Vec<_>>()
        });
        models
            .map(|(model, status)| Self {
                model,
                outcomes: outcomes(&status.name),
                band: status.name.to_string(),
                requests: status.requests,
                tokens: status.tokens,
                bytes: status.bytes,
                keys: status.keys.iter().map(|(key, requests)| (key.to_string(), *requests)).collect(),
            })
            .collect()
    }
}

/// Keys of a band that are told.
const SHOWN_KEYS: usize = 10;

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelState {
    /// Its name.
    pub name: String,
    /// Every name that clients may use: its own, aliases, adapters.
    pub names: Vec<String>,
    /// The profile in force.
    pub profile: String,
    /// Distinct blocks in its index.
    pub blocks: usize,
    /// Other gateways that tell what they have in flight to its pods.
    pub peers: usize,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PodState {
    /// Its name.
    pub name: String,
    /// The model it serves.
    pub model: String,
    /// Its role.
    pub role: &'static str,
    /// Whether it answers its health checks.
    pub healthy: bool,
    /// Its circuit breaker: `closed`, `open`, `half_open`, or `cooling` where it pushes back.
    pub circuit: &'static str,
    /// How many of a hundred requests go elsewhere though it is closed, since too many failed.
    pub withheld_percent: u8,
    /// Requests in flight from this gateway.
    pub in_flight: u32,
    /// Those waiting for a first token.
    pub prefilling: u32,
    /// Their prompt tokens yet to be computed.
    pub queued_tokens: u64,
    /// Used share of its KV cache, as it reports.
    pub kv_used: f32,
    /// Requests waiting, as it reports.
    pub waiting: u32,
    /// Requests running, as it reports.
    pub running: u32,
    /// How much longer than by the cost model it takes for first tokens, as learned.
    pub pace: f64,
    /// The same for the tokens after the first.
    pub decode_pace: f64,
    /// Tokens that its cache has room for, if it was told.
    pub kv_tokens: Option<u64>,
    /// Tokens of programs' contexts on it that run or will be back soon; 0 where the profile knows no programs.
    pub working_set: u64,
    /// Its blocks in the index that its engine announced.
    pub blocks: usize,
    /// Those that were entered ahead of its events.
    pub speculated: usize,
    /// Events of it that named another parent of a block than an earlier one did, its own or another pod's: who hashes otherwise contradicts everybody.
    pub parent_conflicts: u64,
    /// Its event source.
    pub events: SourceView,
    /// Cached tokens expected of it against those it reported.
    pub cache: CacheAccuracy,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DecisionState {
    /// The request's id.
    pub id: String,
    /// Seconds ago.
    pub age_s: f64,
    /// The model.
    pub model: String,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Those that the chosen pod was expected to have cached.
    pub expected_tokens: u64,
    /// Those that its engine says were cached, once it has said so.
    pub cached_tokens: Option<u64>,
    /// Why the two differ, a second after the response.
    pub cause: Option<Cause>,
    /// Its outcome; `in flight` until it has ended.
    pub outcome: String,
    /// Time to first token, once known.
    pub ttft_ms: Option<f64>,
    /// Duration, once it has ended.
    pub total_ms: Option<f64>,
    /// What flow control did to it, with a trace.
    pub flow: Option<FlowReasons>,
    /// Its steps; without a trace, if `/state` was not being read.
    pub steps: Vec<StepReasons>,
}

/// A request in flight.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ActiveRequestState {
    /// Its id.
    pub id: String,
    /// Seconds since it arrived.
    pub age_s: f64,
    /// Its last pod.
    pub pod: Option<String>,
    /// `prefill`, `decode` or `streaming`.
    pub stage: &'static str,
}

/// Gathers the state.
pub(super) fn gather(app: &Arc<AppState>) -> State {
    let active = app.request_log.active(MAX_ACTIVE);
    let (breakers, retry) = {
        let config = app.config.lock();
        (config.breakers.clone(), config.retry.clone())
    };
    State {
        uptime_s: app.request_log.uptime().as_secs_f64(),
        draining: app.is_withdrawn(),
        models: app.models.iter().map(|model| model_state(&model.router)).collect(),
        findings: findings::gather(app),
        pods: pods(app),
        breakers,
        retry,
        uploads: UploadState::of(app),
        flow: FlowBandState::all(app),
        totals: Totals { in_flight: *app.in_flight.borrow(), ..app.request_log.totals() },
        series: app.request_log.series(),
        decisions: app.request_log.decisions().iter().map(decision_state).collect(),
        active_requests: active
            .iter()
            .map(|request| ActiveRequestState {
                id: request.id.to_string(),
                age_s: request.began.elapsed().as_secs_f64(),
                pod: request.pod.as_ref().map(ToString::to_string),
                stage: request.stage.name(),
            })
            .collect(),
    }
}

/// The pods, in the order of the configuration.
pub(super) fn pods(app: &AppState) -> Vec<PodState> {
    let of = |model: &Model| {
        let pods = model.router.pods();
        pods.iter().map(|entry| pod_state(app, &model.router, entry)).collect::<Vec<_>>()
    };
    app.models.iter().flat_map(of).collect()
}

fn model_state(router: &Router) -> ModelState {
    ModelState {
        name: router.name().to_owned(),
        names: router.names().map(str::to_owned).collect(),
        profile: router.profile().to_string(),
        blocks: router.index().stats().blocks,
        peers: router.peers().peers,
    }
}

fn pod_state(app: &AppState, router: &Router, entry: &RegisteredPod) -> PodState {
    let state = router.plugin_state();
    let view = state.load.load_of(entry.pod, entry.load, Instant::now(), Duration::from_secs(10));
    let in_flight = view.in_flight.without(&state.peers.in_flight(entry.pod));
    let stats = router.index().pod_stats(entry.pod).unwrap_or_default();
    PodState {
        name: entry.spec.name.clone(),
        model: router.name().to_owned(),
        role: PodRole::of(entry.spec.role).name(),
        healthy: entry.healthy,
        circuit: entry.breaker.name(),
        withheld_percent: entry.breaker.withheld_percent,
        in_flight: in_flight.requests,
        prefilling: in_flight.prefilling,
        queued_tokens: in_flight.uncached_tokens,
        kv_used: entry.load.kv_used,
        waiting: entry.load.waiting,
        running: entry.load.running,
        pace: entry.pace,
        decode_pace: entry.decode_pace,
        kv_tokens: entry.spec.kv_tokens.or(entry.cache_tokens),
        working_set: state.programs.working_set(entry.pod, Instant::now()),
        blocks: stats.blocks.saturating_sub(stats.speculated),
        speculated: stats.speculated,
        parent_conflicts: stats.parent_conflicts,
        events: app.sources.lock().view(&entry.spec.name),
        cache: router.cache_audit().of(&entry.spec.name),
    }
}

fn decision_state(decision: &Decision) -> DecisionState {
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let (ended, audited) = (decision.ended.as_ref(), decision.audited.as_ref());
    let fleet = &decision.fleet;
    let steps = match &decision.trace {
        Some(trace) => explain::reasons(trace, fleet),
        None => decision
            .picks
            .iter()
            .map(|(step, pod)| {
                let picked = pod.and_then(|pod| fleet.pod(pod.id())).map(|info| info.name.to_string());
                StepReasons {
                    step: step.to_string(),
                    picked,
                    reason: UNTRACED.to_owned(),
                    pods: Vec::new(),
                    left_out: 0,
                }
            })
            .collect(),
    };
    DecisionState {
        id: decision.id.to_string(),
        age_s: decision.at.elapsed().as_secs_f64(),
        model: decision.model.to_string(),
        prompt_tokens: decision.prompt_tokens,
        expected_tokens: audited.map_or(decision.expected_tokens, |audited| audited.observation.expected),
        cached_tokens: audited.map(|audited| audited.observation.actual),
        cause: audited.and_then(|audited| audited.cause.get().copied()),
        outcome: ended.map_or_else(|| "in flight".to_owned(), |ended| ended.outcome.clone()),
        ttft_ms: ended.and_then(|ended| ended.ttft).map(millis),
        total_ms: ended.map(|ended| millis(ended.total)),
        flow: decision.trace.as_ref().and_then(|trace| trace.flow.as_ref()).map(explain::FlowReasons::of),
        steps,
    }
}

const UNTRACED: &str = "no trace: /state was not being read";
const MAX_ACTIVE: usize = 200;
