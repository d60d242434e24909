//! Scorers, and what of the index and of the framework cases ask by scores.

mod expect;
mod held;
mod latency;
mod loads;
mod no_hit;
mod places;
mod prefix;
mod setup;

use std::sync::Arc;

use kv_index::PodId;
use routing_core::{DecideError, Declare, OnEmpty, ProfileBuilder, RoutingInput, RoutingPlan, Trace};
use routing_plugins::extra::{
    AdapterScorer, MetricRange, MetricScorer, MetricScorerParameters, Metrics, PreferredMetric,
};
use serde_json::Value;

use super::case::{self, Case, Verdict, close};
use super::plugins::{Best, Even, Only};
use super::read::{counts, figures, known, known_case, list, number, refused, texts, whole};
use expect::expect;
pub(crate) use held::{is_speculated_and_true, is_worth_more_speculated};
use setup::Setup;

pub(crate) fn check(case: &Case) -> Verdict {
    let result = match (case.plugin.as_str(), case.kind.as_str()) {
        ("queue-scorer", "score") => loads::queue(case),
        ("multicluster-queue-scorer", "score") => loads::multicluster_queue(case),
        ("running-requests-size-scorer", "score") => loads::running(case),
        ("load-aware-scorer", "score") => loads::load_aware(case),
        ("token-load-scorer", "score") => loads::token_load(case),
        ("active-request-scorer", "score") => loads::active_requests(case),
        ("kv-cache-utilization-scorer", "score") => loads::kv_utilization(case),
        ("prefix-cache-scorer", "score") => prefix::score(case),
        ("prefix-cache-scorer", "config") => prefix::config(case),
        ("no-hit-lru-scorer", "score") => no_hit::score(case),
        ("no-hit-lru-scorer", "sequence") => no_hit::sequence(case),
        ("lora-affinity-scorer", "score") => adapter(case),
        ("context-length-aware", "score") => places::context_range(case),
        ("topology-affinity-scorer", "score") => places::topology(case),
        ("endpoint-attribute-scorer", "score" | "config") => attribute(case),
        ("latency-scorer", "score") => latency::latency(case),
        ("scheduler-profile", "run") => profile(case),
        ("kv-longest-prefix", "score") => held::longest_prefix(case),
        ("matched-block-count", "count") => held::count(case),
        ("matched-block-count-by-tier", "count") => held::count_by_tier(case),
        _ => return Verdict::NotMine,
    };
    Verdict::of(result)
}

fn adapter(case: &Case) -> Result<(), String> {
    known_case(case, &[], &["target_model", "endpoints"])?;
    let mut endpoints = Vec::new();
    for endpoint in list(&case.input, "endpoints")? {
        known(endpoint, &["active", "waiting", "max"])?;
        let names = |name: &str| if endpoint[name].is_null() { Ok(Vec::new()) } else { texts(&endpoint[name]) };
        endpoints.push((names("active")?, names("waiting")?, whole(endpoint, "max")?));
    }
    let setup = Setup::of(endpoints.len(), |at, info| {
        let (active, waiting, most) = &endpoints[at];
        let info = active.iter().fold(info, |info, name| info.adapter(name));
        let info = waiting.iter().fold(info, |info, name| info.adapter_waiting(name));
        most.map_or(info.clone(), |most| info.adapter_slots(most as u16))
    });
    let target = case.input["target_model"].as_str().ok_or("unknown: no target model")?;
    let profile = setup.profile().scorer("adapter", 1.0, AdapterScorer::declare);
    expect(case, &setup.scores_of(&setup.request().adapter(target), profile)?)
}

fn attribute(case: &Case) -> Result<(), String> {
    known_case(case, &["preference", "range", "min", "max"], &["values"])?;
    let parameters = attribute_parameters(&case.params);
    if case.is_of_parameters() {
        return refused(case, parameters);
    }
    let (parameters, values) = (parameters?, figures(&case.input["values"])?);
    let setup = Setup::new(values.len());
    expect(case, &setup.scores(move |d| MetricScorer::declare(d, parameters, Arc::new(Figures(values))))?)
}

fn attribute_parameters(params: &Value) -> Result<MetricScorerParameters, String> {
    let mut parameters = MetricScorerParameters::new("value");
    parameters.prefer = match params["preference"].as_str() {
        Some("lower") => PreferredMetric::Lower,
        Some("higher") => PreferredMetric::Higher,
        other => return Err(format!("unknown preference {other:?}")),
    };
    parameters.range = match (params["range"].as_str(), number(params, "min")?, number(params, "max")?) {
        (None | Some("adaptive"), None, None) => None,
        (Some("fixed"), Some(least), Some(most)) => Some(MetricRange::new(least, most).ok_or("no range")?),
        other => return Err(format!("unknown range {other:?}")),
    };
    Ok(parameters)
}

#[derive(Debug)]
struct Figures(Vec<Option<f64>>);

impl Metrics for Figures {
    fn figure(&self, _: &str, pod: PodId) -> Option<f64> {
        self.0[pod.index()]
    }
}

/// Their totals are sums; ours are means by weight, so the sum of the weights is the factor between them.
fn profile(case: &Case) -> Result<(), String> {
    known_case(case, &[], &["scores", "weights", "filter_result", "endpoints"])?;
    known(&case.expected, &["total", "error"])?;
    let endpoints = match &case.input["endpoints"] {
        Value::Null => 1,
        Value::Array(endpoints) => endpoints.len(),
        _ => whole(&case.input, "endpoints")?.unwrap_or_default() as usize,
    };
    let setup = Setup::new(endpoints);
    let mut profile = ProfileBuilder::new("case").picker("best", |_: &mut Declare<'_>| Best);
    if let Some(kept) = case.input.get("filter_result") {
        let kept: Vec<usize> = counts(kept)?.into_iter().map(|at| at as usize).collect();
        profile = profile.filter("kept", OnEmpty::Fail, move |_: &mut Declare<'_>| Only(kept));
    }
    let scores = case.input.get("scores").map_or(Ok(Vec::new()), figures)?;
    let weights = case.input.get("weights").map_or(Ok(Vec::new()), figures)?;
    let sum: f64 = weights.iter().flatten().sum();
    for (at, pair) in scores.iter().zip(&weights).enumerate() {
        let (Some(score), Some(weight)) = pair else { return Err("unknown score".into()) };
        let score = *score as f32;
        profile = profile.scorer(&format!("scorer-{at}"), *weight, move |_: &mut Declare<'_>| Even(score));
    }
    let workflow = profile.build().map_err(|error| error.to_string())?;
    let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
    let request = case::request();
    let input = RoutingInput::new(&request, &setup.fleet).traced(&mut trace);
    match workflow.decide(&mut workflow.workspace(), input, &mut plan) {
        Ok(()) => {
            let found = f64::from(trace.steps[0].totals[0].1) * sum;
            close(&[found], &vec![case.expected["total"].clone()].into(), case.tolerance)
        }
        Err(DecideError::AllFiltered { .. } | DecideError::NoneOffered { .. }) if is_none_left(&case.expected) => {
            Ok(())
        }
        Err(error) => Err(format!("found {error}, expected {}", case.expected)),
    }
}

/// Whether it is expected that nobody can be chosen.
fn is_none_left(expected: &Value) -> bool {
    match &expected["error"] {
        Value::Bool(refused) => *refused,
        error => error.as_str().is_some_and(|text| text.contains("no endpoints")),
    }
}
