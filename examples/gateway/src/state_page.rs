//! A page of the state: a summary of the whole fleet, and those pods and scores that were asked for.
//!
//! The rule: what is left out is counted, so that nobody takes a part for the whole.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::state::{DecisionState, PodState, State, StepReasons};

/// What of the state is asked for, as a query: `/state?pods=problems&sort=load&search=zone-a&offset=50&limit=50`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct StateQuery {
    /// All pods, or those with problems.
    pub pods: PodFilter,
    /// The order of pods.
    pub sort: PodOrder,
    /// A part of a pod's name, model, role or state; all pods if empty.
    pub search: String,
    /// Pods to pass over.
    pub offset: usize,
    /// Pods at most.
    pub limit: usize,
    /// Candidates of each step of a decision, the best first.
    pub scores: usize,
    /// The decision that is asked for, by its request's id; all if empty.
    pub decision: String,
}

impl Default for StateQuery {
    fn default() -> Self {
        let (pods, sort) = (PodFilter::All, PodOrder::Given);
        Self { pods, sort, search: String::new(), offset: 0, limit: 64, scores: 2, decision: String::new() }
    }
}

/// Which pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PodFilter {
    /// All.
    All,
    /// Those that something is wrong with.
    Problems,
}

/// The order of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PodOrder {
    /// As configured.
    Given,
    /// The worst first.
    Problems,
    /// By name.
    Name,
    /// The busiest first.
    Load,
    /// The fullest cache first.
    Cache,
}

/// A page of the state.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StatePage {
    /// The whole fleet in short.
    pub fleet: FleetSummary,
    /// The rest, with the pods of this page.
    #[serde(flatten)]
    pub state: State,
}

/// The whole fleet in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FleetSummary {
    /// Pods.
    pub pods: usize,
    /// Those that answer their health checks.
    pub healthy: usize,
    /// Those that something is wrong with.
    pub problems: usize,
    /// Those that were asked for, on this page or another.
    pub matching: usize,
    /// How many of these come before this page.
    pub offset: usize,
    /// Pods on a page.
    pub limit: usize,
    /// Requests in flight from this gateway.
    pub in_flight: u64,
    /// Requests waiting, as pods report.
    pub waiting: u64,
    /// Requests running, as pods report.
    pub running: u64,
    /// Every pod, in the order of the configuration: its name, its condition, its requests in flight.
    pub cells: Vec<(String, Condition, u32)>,
}

/// How a pod is, at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Condition {
    /// It gets nothing: it is unhealthy, or its circuit breaker is not closed.
    Bad,
    /// Its events are missing, or it has more to do than it can.
    Warn,
    /// All is well.
    Good,
}

impl Condition {
    /// How a pod is.
    #[must_use]
    pub fn of(pod: &PodState) -> Self {
        use pointsman_reporter::source_status::SourceState;
        let is_behind = pod.waiting > pod.running || pod.kv_used > FULL;
        let is_blind = matches!(pod.events.state, SourceState::Connecting | SourceState::Replaying | SourceState::Lost);
        match (pod.healthy && pod.circuit == "closed", is_behind || is_blind) {
            (false, _) => Self::Bad,
            (true, true) => Self::Warn,
            (true, false) => Self::Good,
        }
    }
}

/// The page of a state that a query asks for.
#[must_use]
pub fn page(mut state: State, query: &StateQuery) -> StatePage {
    let pods = std::mem::take(&mut state.pods);
    let sum = |figure: fn(&PodState) -> u32| pods.iter().map(|pod| u64::from(figure(pod))).sum();
    let mut fleet = FleetSummary {
        pods: pods.len(),
        healthy: pods.iter().filter(|pod| pod.healthy).count(),
        problems: pods.iter().filter(|pod| Condition::of(pod) != Condition::Good).count(),
        matching: 0,
        offset: query.offset,
        limit: query.limit,
        in_flight: sum(|pod| pod.in_flight),
        waiting: sum(|pod| pod.waiting),
        running: sum(|pod| pod.running),
        cells: pods.iter().map(|pod| (pod.name.clone(), Condition::of(pod), pod.in_flight)).collect(),
    };
    let mut matching: Vec<PodState> = pods.into_iter().filter(|pod| is_asked_for(pod, query)).collect();
    fleet.matching = matching.len();
    // A stable sort: within a class pods keep the order of the configuration.
    match query.sort {
        PodOrder::Given => {}
        PodOrder::Problems => matching.sort_by_key(|pod| (Condition::of(pod), Reverse(busy(pod)))),
        PodOrder::Name => matching.sort_by(|a, b| a.name.cmp(&b.name)),
        PodOrder::Load => matching.sort_by_key(|pod| Reverse(busy(pod))),
        PodOrder::Cache => matching.sort_by(|a, b| b.kv_used.total_cmp(&a.kv_used)),
    }
    state.pods = matching.into_iter().skip(query.offset).take(query.limit).collect();
    if !query.decision.is_empty() {
        state.decisions.retain(|decision| decision.id == query.decision);
    }
    state.decisions.iter_mut().for_each(|decision| shorten(decision, query.scores));
    StatePage { fleet, state }
}

fn is_asked_for(pod: &PodState, query: &StateQuery) -> bool {
    if query.pods == PodFilter::Problems && Condition::of(pod) == Condition::Good {
        return false;
    }
    let health = if pod.healthy { "healthy" } else { "unhealthy" };
    let search = query.search.trim().to_lowercase();
    // A state is named whole: `unhealthy` has `healthy` in it.
    search.is_empty()
        || [&*pod.name, &pod.model, pod.role].iter().any(|text| text.to_lowercase().contains(&search))
        || [health, pod.circuit].contains(&&*search)
}

fn busy(pod: &PodState) -> (u32, u32) {
    (pod.in_flight, pod.waiting)
}

/// Keeps the best candidates of each step, the picked one among them.
fn shorten(decision: &mut DecisionState, most: usize) {
    for StepReasons { pods, left_out, .. } in &mut decision.steps {
        if pods.len() > most {
            pods.sort_by_key(|pod| pod.rank.unwrap_or(usize::MAX));
            *left_out = pods.len() - most;
            pods.truncate(most);
        }
    }
}

/// The share of a cache beyond which a pod is about to evict what others wait for.
const FULL: f32 = 0.95;
