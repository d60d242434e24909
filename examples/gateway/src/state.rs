//! What a gateway is at, as its page shows it: `GET /state`.
//!
//! Gathered only when somebody asks. Reasons of decisions are kept while somebody looks, and for ten seconds after.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::book::Decision;
pub use super::book::Second;
use super::explain::{self, StepReasons};
use super::roster::Member;
use super::shared::Shared;
pub use super::sources::EventFigures;

/// What a gateway is at.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct State {
    /// Seconds since it started.
    pub uptime_s: f64,
    /// The profile in force.
    pub profile: String,
    /// Whether it is stopping.
    pub draining: bool,
    /// The model it serves.
    pub model: String,
    /// Its pods, in the order of the configuration.
    pub pods: Vec<PodState>,
    /// What is counted from the start.
    pub totals: TotalsState,
    /// A figure a second, oldest first.
    pub series: Vec<Second>,
    /// The last decisions, newest first.
    pub decisions: Vec<DecisionState>,
    /// What is under way.
    pub flow: Vec<FlowState>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PodState {
    /// Its name.
    pub name: String,
    /// What it does.
    pub role: &'static str,
    /// Whether it answers its health checks.
    pub healthy: bool,
    /// `closed` or `open`.
    pub circuit: &'static str,
    /// Requests from here.
    pub in_flight: u32,
    /// Those of them that wait for a first token.
    pub prefilling: u32,
    /// Their prompts' tokens that are yet to be computed.
    pub queued_tokens: u64,
    /// How full its cache is, as it reports.
    pub kv_used: f32,
    /// Requests that wait, as it reports.
    pub waiting: u32,
    /// Requests that run, as it reports.
    pub running: u32,
    /// Blocks that the index knows it to hold.
    pub blocks: usize,
    /// How its events come in.
    pub events: EventFigures,
}

/// What is counted from the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TotalsState {
    /// Requests that were decided on.
    pub requests: u64,
    /// Requests under way, those that are read or decided on included.
    pub in_flight: usize,
    /// Requests that a pod answered.
    pub completed: u64,
    /// Requests that ended in an error.
    pub failed: u64,
    /// Requests whose client left.
    pub cancelled: u64,
    /// Requests that no pod was asked for.
    pub refused: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Those that the index knew the chosen pod to hold.
    pub cached_tokens: u64,
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
    /// Those that the chosen pod was known to hold.
    pub matched_tokens: u64,
    /// What became of it; `under way` until it is over.
    pub outcome: String,
    /// How long its first byte took, once that came.
    pub ttft_ms: Option<f64>,
    /// How long it took, once it is over.
    pub total_ms: Option<f64>,
    /// Its steps. Without reasons, if nobody looked when it was decided.
    pub steps: Vec<StepReasons>,
}

/// A request under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FlowState {
    /// Its id.
    pub id: String,
    /// Seconds since it came.
    pub age_s: f64,
    /// The pod that was asked last.
    pub pod: Option<String>,
    /// `prefill`, `decode` or `streaming`.
    pub stage: &'static str,
}

/// Gathers the state.
pub(super) fn gather(shared: &Arc<Shared>) -> State {
    let serving = shared.serving.load_full();
    let totals = shared.book.totals();
    let name = |pod: routing_core::Pod| {
        let known = serving.fleet.pod(pod.id()).filter(|info| info.pod == pod);
        known.map_or_else(|| "?".to_owned(), |info| info.name.to_string())
    };
    let flows = shared.book.flows(MOST_FLOWS);
    State {
        uptime_s: shared.book.uptime().as_secs_f64(),
        profile: serving.profile.to_string(),
        draining: shared.is_draining(),
        model: shared.model.name.clone(),
        pods: pods(shared),
        totals: TotalsState {
            requests: totals.requests,
            in_flight: *shared.in_flight.borrow(),
            completed: totals.completed,
            failed: totals.failed,
            cancelled: totals.cancelled,
            refused: totals.refused,
            prompt_tokens: totals.prompt_tokens,
            cached_tokens: totals.cached_tokens,
        },
        series: shared.book.series(),
        decisions: shared.book.decisions().iter().map(|decision| decision_state(shared, decision)).collect(),
        flow: flows
            .iter()
            .map(|flow| FlowState {
                id: flow.id.to_string(),
                age_s: flow.began.elapsed().as_secs_f64(),
                pod: flow.pod.map(name),
                stage: flow.stage.name(),
            })
            .collect(),
    }
}

/// The pods, in the order of the configuration.
pub(super) fn pods(shared: &Shared) -> Vec<PodState> {
    let members = shared.roster.lock().members.clone();
    members.iter().map(|member| pod_state(shared, member)).collect()
}

fn pod_state(shared: &Shared, member: &Member) -> PodState {
    let view = shared.plugin_state.load.view(Instant::now(), Duration::from_secs(10)).of(member.pod, member.load);
    let is_open = shared.plugin_state.open_breakers.opened().contains(member.pod.id());
    PodState {
        name: member.settings.name.clone(),
        role: member.settings.role.name(),
        healthy: member.healthy,
        circuit: if is_open { "open" } else { "closed" },
        in_flight: view.in_flight.requests,
        prefilling: view.in_flight.prefilling,
        queued_tokens: view.in_flight.uncached_tokens,
        kv_used: member.load.kv_used,
        waiting: member.load.waiting,
        running: member.load.running,
        blocks: shared.plugin_state.index.pod_stats(member.pod).map_or(0, |stats| stats.blocks),
        events: shared.sources.lock().figures(&member.settings.name),
    }
}

fn decision_state(shared: &Shared, decision: &Decision) -> DecisionState {
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let fleet = &decision.serving.fleet;
    let steps = match &decision.trace {
        Some(trace) => explain::reasons(trace, fleet),
        None => decision
            .picks
            .iter()
            .map(|(step, pod)| {
                let picked = pod.and_then(|pod| fleet.pod(pod.id())).map(|info| info.name.to_string());
                StepReasons { step: step.to_string(), picked, reason: UNWATCHED.to_owned(), pods: Vec::new() }
            })
            .collect(),
    };
    DecisionState {
        id: decision.id.to_string(),
        age_s: decision.at.elapsed().as_secs_f64(),
        model: shared.model.name.clone(),
        prompt_tokens: decision.prompt_tokens,
        matched_tokens: decision.matched_tokens,
        outcome: decision.outcome.clone().unwrap_or_else(|| "under way".to_owned()),
        ttft_ms: decision.ttft.map(millis),
        total_ms: decision.total.map(millis),
        steps,
    }
}

const UNWATCHED: &str = "nobody looked, so no reasons were kept";
const MOST_FLOWS: usize = 200;
