//! Their filters.

use std::sync::Arc;
use std::time::Duration;

use kv_index::{BlockSize, PodId, Tier};
use routing_core::OnEmpty;
use routing_plugins::extra::{
    ContextRange, ContextRangeFilter, ContextRangeParameters, MetricCondition, MetricFilter, MetricFilterParameters,
    MetricSource, Metrics,
};
use routing_plugins::filter::{AffinityFilter, AffinityParameters, Comparison, Metric, Unreported};
use routing_plugins::load::PodLoad;
use routing_plugins::prepare::GivenTokensPreparer;
use routing_plugins::{Fraction, Positive};
use serde_json::Value;

use super::given::{as_expected, hold, kept, on_empty, profile, with_loads, with_search};
use crate::case::{Case, fleet, request};
use crate::read::{figures, known, known_case, list, number, refused, whole};

fn condition(metric: impl Into<MetricSource>, is: Comparison, value: f64) -> Result<MetricCondition, String> {
    MetricCondition::new(metric, is, value).map_err(|error| format!("unknown limit: {error}"))
}

fn by_metrics(
    case: &Case,
    loads: Vec<PodLoad>,
    conditions: Vec<MetricCondition>,
    unreported: Unreported,
    metrics: Arc<dyn Metrics>,
) -> Result<(), String> {
    let (_, fleet) = fleet(loads.len(), |_, pod| pod);
    let on_empty = on_empty(&case.params, "fallbackOnEmpty")?;
    let parameters = MetricFilterParameters::new(conditions).unreported(unreported);
    let profile = with_loads(profile("serve"), loads);
    let kept = kept(profile, &request(), &fleet, on_empty, |d| MetricFilter::declare(d, parameters, metrics))?;
    as_expected(case, &kept)
}

/// Their attributes have any name, as figures of the host's have here. Who produces one is part of its name.
pub(super) fn attribute(case: &Case) -> Result<(), String> {
    known_case(case, &["attribute", "operator", "value", "onMissing", "fallbackOnEmpty"], &["values"])?;
    let built = attribute_condition(&case.params);
    if case.is_of_parameters() {
        return refused(case, built);
    }
    let (name, condition, unreported) = built?;
    let values = figures(&case.input["values"])?;
    let loads = vec![PodLoad::default(); values.len()];
    by_metrics(case, loads, vec![condition], unreported, Arc::new(Attribute(name, values)))
}

fn attribute_condition(params: &Value) -> Result<(Box<str>, MetricCondition, Unreported), String> {
    let is = match params["operator"].as_str() {
        Some("LessThan") => Comparison::Below,
        Some("LessThanOrEqual") => Comparison::AtMost,
        Some("Equal") => Comparison::Equal,
        Some("NotEqual") => Comparison::NotEqual,
        Some("GreaterThanOrEqual") => Comparison::AtLeast,
        Some("GreaterThan") => Comparison::Above,
        other => return Err(format!("unknown operator {other:?}")),
    };
    let unreported = match params["onMissing"].as_str() {
        None | Some("Pass") => Unreported::Keep,
        Some("Fail") => Unreported::Remove,
        other => return Err(format!("unknown onMissing {other:?}")),
    };
    let value = number(params, "value")?.ok_or("no value")?;
    let name: Box<str> = params["attribute"].as_str().unwrap_or("attribute").into();
    Ok((name.clone(), condition(MetricSource::Host(name), is, value)?, unreported))
}

/// One figure of every pod, by name.
#[derive(Debug)]
struct Attribute(Box<str>, Vec<Option<f64>>);

impl Metrics for Attribute {
    fn figure(&self, metric: &str, pod: PodId) -> Option<f64> {
        self.1.get(pod.index()).copied().flatten().filter(|_| *metric == *self.0)
    }
}

pub(super) fn utilization(case: &Case) -> Result<(), String> {
    known_case(case, &["conditions", "fallbackOnEmpty"], &["endpoints"])?;
    for condition in case.params["conditions"].as_array().into_iter().flatten() {
        known(condition, &["metric", "maxValue"])?;
    }
    let conditions = utilization_conditions(&case.params);
    if case.is_of_parameters() {
        return refused(case, conditions);
    }
    let conditions = conditions?;
    let mut loads = Vec::new();
    for endpoint in list(&case.input, "endpoints")? {
        let mut load = PodLoad::default();
        if !endpoint.is_null() {
            known(endpoint, &["active", "running", "waiting", "kv"])?;
            let count = |name| whole(endpoint, name).map(|count| count.unwrap_or_default() as u32);
            load.in_flight.requests = count("active")?;
            (load.running, load.waiting) = (count("running")?, count("waiting")?);
            load.kv_used = number(endpoint, "kv")?.unwrap_or_default() as f32;
            load.age =
                ["running", "waiting", "kv"].iter().any(|name| !endpoint[*name].is_null()).then_some(Duration::ZERO);
        }
        loads.push(load);
    }
    // What is missing passes.
    by_metrics(case, loads, conditions, Unreported::Keep, Arc::new(()))
}

fn utilization_conditions(params: &Value) -> Result<Vec<MetricCondition>, String> {
    let mut conditions = Vec::new();
    for given in list(params, "conditions")? {
        let metric = match given["metric"].as_str() {
            Some("active-requests") => Metric::InFlightRequests,
            Some("running-requests") => Metric::Running,
            Some("waiting-queue") => Metric::Waiting,
            Some("kv-cache-utilization") => Metric::KvUsed,
            other => return Err(format!("unknown metric {other:?}")),
        };
        let most = number(given, "maxValue")?.ok_or("no maxValue")?;
        conditions.push(condition(metric, Comparison::AtMost, most)?);
    }
    if conditions.is_empty() { Err("no conditions".into()) } else { Ok(conditions) }
}

/// Blocks of a token each, and a hundred of them, so that a percentage is a number of blocks.
pub(super) fn affinity(case: &Case) -> Result<(), String> {
    let names =
        ["affinityThreshold", "explorationProbability", "maxTTFTPenaltyMs", "ttftSource", "peakPrefillThroughput"];
    known_case(case, &names, &["endpoints"])?;
    let built = affinity_parameters(&case.params);
    if case.is_of_parameters() {
        return refused(case, built);
    }
    let parameters = built?;
    // Their predictor says a time; ours has no predictor, and is given the backlog that takes as long.
    let is_predicted = case.params["ttftSource"] == "latencyPredictor";
    let (figure, scale) = if is_predicted { ("predicted_ttft_ms", 1000.0) } else { ("inflight_tokens", 1.0) };
    let endpoints = list(&case.input, "endpoints")?;
    let (index, fleet) = fleet(endpoints.len(), |_, pod| pod);
    let (prompt, size): (Vec<u32>, _) = ((0..100).collect(), BlockSize::new(1).expect("not zero"));
    let mut loads = Vec::new();
    // Whether the time is known of one that holds enough, and of one that does not.
    let mut is_timed = [false; 2];
    for (at, endpoint) in endpoints.iter().enumerate() {
        known(endpoint, &["match_pct", "match_ratio", "predicted_ttft_ms", "inflight_tokens"])?;
        let held = held_of_a_hundred(endpoint)?;
        hold(&index, at, Tier::Gpu, prompt.get(..held).ok_or("unknown share above 100 %")?, size)?;
        let mut load = PodLoad::default();
        // Theirs leaves out whom it has no time of: here, nobody waits longer.
        let figure = number(endpoint, figure)?.filter(|figure| *figure >= 0.0);
        let missing = if is_predicted { u64::MAX } else { 0 };
        load.in_flight.uncached_tokens = figure.map_or(missing, |figure| (figure * scale) as u64);
        is_timed[usize::from(held as f32 / 100.0 >= parameters.share.get())] |= figure.is_some();
        loads.push(load);
    }
    if is_timed != [true; 2] && parameters.most_wait.is_some() && loads.iter().any(is_unknown) {
        // Theirs does not narrow where one side has no time at all. Ours always knows what it sent: there it is no filter.
        return as_expected(case, &(0..loads.len()).collect::<Vec<_>>());
    }
    let profile = with_search(with_loads(profile("serve"), loads), index, size);
    let request = request().tokens(&prompt);
    let kept =
        kept(profile, &request, &fleet, OnEmpty::KeepPrevious, move |d| <AffinityFilter>::declare(d, parameters))?;
    as_expected(case, &kept)
}

/// What is missing, or below 0, is nothing.
fn held_of_a_hundred(endpoint: &Value) -> Result<usize, String> {
    let share = match number(endpoint, "match_ratio")? {
        Some(ratio) => Some(ratio * 100.0),
        None => number(endpoint, "match_pct")?,
    };
    let share = share.unwrap_or_default().max(0.0);
    if (share - share.round()).abs() > 1e-9 {
        Err(format!("unknown share {share} %"))
    } else {
        Ok(share.round() as usize)
    }
}

fn affinity_parameters(params: &Value) -> Result<AffinityParameters, String> {
    let given = |name, default| number(params, name).map(|number| number.unwrap_or(default));
    let fraction = |number: f64| Fraction::try_from(number).map_err(|error| error.to_string());
    let penalty = given("maxTTFTPenaltyMs", 18_000.0)?;
    if penalty < 0.0 {
        return Err(format!("a penalty of {penalty}"));
    }
    let most_wait = Positive::new(penalty / 1000.0);
    let throughput = given("peakPrefillThroughput", 15_928.0)?;
    let rate = match params["ttftSource"].as_str() {
        Some("latencyPredictor") => 1_000_000.0,
        None if !params["ttftSource"].is_null() => return Err("no ttftSource".into()),
        // Where nobody goes by it, none is needed.
        None | Some("prefillThroughput") if throughput == 0.0 && most_wait.is_none() => 1.0,
        None | Some("prefillThroughput") => throughput,
        other => return Err(format!("unknown ttftSource {other:?}")),
    };
    Ok(AffinityParameters::default()
        .share(fraction(given("affinityThreshold", 0.8)?)?)
        .most_wait(most_wait)
        .prefill_rate(Positive::try_from(rate).map_err(|error| error.to_string())?)
        .explore(fraction(given("explorationProbability", 0.0)?)?))
}

fn is_unknown(load: &PodLoad) -> bool {
    load.in_flight.uncached_tokens == u64::MAX
}

pub(super) fn context_range(case: &Case) -> Result<(), String> {
    known_case(case, &["label", "enableFiltering"], &["context_length", "ranges"])?;
    let label = case.params["label"].as_str().unwrap_or("llm-d.ai/context-length-range");
    if case.is_of_parameters() {
        return refused(case, Some(label).filter(|label| !label.is_empty()).ok_or("no label"));
    }
    let ranges = list(&case.input, "ranges")?;
    if let Some(odd) = ranges.iter().find(|range| !range.is_null() && !range.is_string()) {
        return Err(format!("unknown range {odd}"));
    }
    let labelled = |at: usize, pod| {
        ranges[at].as_str().into_iter().fold(pod, |pod: routing_core::PodInfo, range| pod.label(label, range))
    };
    let (_, fleet) = fleet(ranges.len(), labelled);
    if case.params["enableFiltering"] != true {
        // Theirs only scores then: in our profile there is no filter.
        return as_expected(case, &(0..ranges.len()).collect::<Vec<_>>());
    }
    let prompt = vec![0; whole(&case.input, "context_length")?.unwrap_or_default() as usize];
    let profile = profile("serve").preparer("tokens", GivenTokensPreparer::declare);
    let parameters = ContextRangeParameters::default().label(label.into());
    let request = request().tokens(&prompt);
    let kept = kept(profile, &request, &fleet, OnEmpty::Fail, |d| ContextRangeFilter::declare(d, parameters))?;
    as_expected(case, &kept)
}

pub(super) fn parse_range(case: &Case) -> Result<(), String> {
    known_case(case, &[], &["range"])?;
    known(&case.expected, &["error", "min", "max"])?;
    let parsed = ContextRange::parse(case.input["range"].as_str().ok_or("no range")?);
    match (&parsed, case.expected["error"].as_bool().unwrap_or(false)) {
        (Err(_), true) => Ok(()),
        (Ok(range), false)
            if case.expected["min"].as_u64() == Some(range.min())
                && case.expected["max"].as_u64() == Some(range.max()) =>
        {
            Ok(())
        }
        _ => Err(format!("{parsed:?}, expected {}", case.expected)),
    }
}
