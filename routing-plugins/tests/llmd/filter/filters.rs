//! Their filters.

use std::sync::Arc;
use std::time::Duration;

use kv_index::{BlockSize, PodId};
use routing_core::{OnEmpty, Role};
use routing_plugins::extra::Metrics;
use routing_plugins::extra::{
    ContextRange, ContextRangeFilter, ContextRangeParameters, LabelFilter, LabelParameters, LabelSelector,
    MetricCondition, MetricFilter, MetricFilterParameters, MetricSource,
};
use routing_plugins::filter::{
    AffinityFilter, AffinityParameters, Comparison, Metric, RoleFilter, RoleParameters, Unlabelled, Unreported,
};
use routing_plugins::load::PodLoad;
use routing_plugins::prepare::GivenTokensPreparer;
use routing_plugins::{Fraction, Positive};
use serde_json::Value;

use super::given::{as_expected, hold, kept, known, list, number, on_empty, profile, whole, with_loads, with_search};
use crate::case::{Case, fleet, request};

pub(super) fn role(case: &Case) -> Result<(), String> {
    known(&case.params, &[])?;
    known(&case.input, &["role_label"])?;
    let labels = list(&case.input, "role_label")?;
    let (_, fleet) =
        fleet(labels.len(), |at, pod| labels[at].as_str().into_iter().fold(pod, |pod, role| pod.label("role", role)));
    // Only for decode does theirs take a pod without a label for one that does both.
    let (role, unlabelled) = match &*case.plugin {
        "prefill-filter" => (Role::Prefill, Unlabelled::None),
        "encode-filter" => (Role::Encode, Unlabelled::None),
        _ => (Role::Decode, Unlabelled::Both),
    };
    let parameters = RoleParameters::new(role).label("role").unlabelled(unlabelled);
    let kept = kept(profile("serve"), &request(), &fleet, OnEmpty::Fail, |d| RoleFilter::declare(d, parameters))?;
    as_expected(case, &kept)
}

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
    let parameters = MetricFilterParameters { conditions, unreported };
    let profile = with_loads(profile("serve"), loads);
    let kept = kept(profile, &request(), &fleet, on_empty, |d| MetricFilter::declare(d, parameters, metrics))?;
    as_expected(case, &kept)
}

/// Their attributes have any name, as figures of the host's have here.
pub(super) fn attribute(case: &Case) -> Result<(), String> {
    known(&case.params, &["attribute", "operator", "value", "onMissing", "fallbackOnEmpty"])?;
    known(&case.input, &["values"])?;
    let is = match case.params["operator"].as_str() {
        Some("LessThan") => Comparison::Below,
        Some("LessThanOrEqual") => Comparison::AtMost,
        Some("Equal") => Comparison::Equal,
        Some("NotEqual") => Comparison::NotEqual,
        Some("GreaterThanOrEqual") => Comparison::AtLeast,
        Some("GreaterThan") => Comparison::Above,
        other => return Err(format!("unknown operator {other:?}")),
    };
    let unreported = match case.params["onMissing"].as_str() {
        None | Some("Pass") => Unreported::Keep,
        Some("Fail") => Unreported::Remove,
        other => return Err(format!("unknown onMissing {other:?}")),
    };
    let value = number(&case.params, "value")?.ok_or("no value")?;
    let mut values = Vec::new();
    for value in list(&case.input, "values")? {
        values.push(match value {
            Value::Null => None,
            number => Some(number.as_f64().ok_or_else(|| format!("unknown value {number}"))?),
        });
    }
    let name = case.params["attribute"].as_str().unwrap_or("attribute");
    let conditions = vec![condition(MetricSource::Host(name.into()), is, value)?];
    let loads = vec![PodLoad::default(); values.len()];
    by_metrics(case, loads, conditions, unreported, Arc::new(Attribute(name.into(), values)))
}

/// One figure of every pod, by name.
#[derive(Debug)]
struct Attribute(Box<str>, Vec<Option<f64>>);

impl Metrics for Attribute {
    fn figure(&self, metric: &str, pod: PodId) -> Option<f64> {
        self.1.get(pod.index()).copied().flatten().filter(|_| *metric == *self.0)
    }
}

/// A selector as text, or as the two lists that Kubernetes objects have.
pub(super) fn label_selector(case: &Case) -> Result<(), String> {
    known(&case.params, &["selector", "matchLabels", "matchExpressions"])?;
    known(&case.input, &["labels"])?;
    let selector = match &case.params["selector"] {
        Value::String(text) => text.parse::<LabelSelector>().map_err(|error| error.to_string())?,
        Value::Null => from_lists(&case.params)?,
        lists => {
            known(lists, &["matchLabels", "matchExpressions"])?;
            from_lists(lists)?
        }
    };
    let mut pods = Vec::new();
    for labels in list(&case.input, "labels")? {
        pods.push(pairs(labels)?);
    }
    let (_, fleet) = fleet(pods.len(), |at, pod| pods[at].iter().fold(pod, |pod, (key, value)| pod.label(key, value)));
    let parameters = LabelParameters::new(selector);
    let kept = kept(profile("serve"), &request(), &fleet, OnEmpty::Fail, |d| LabelFilter::declare(d, parameters))?;
    as_expected(case, &kept)
}

fn pairs(labels: &Value) -> Result<Vec<(&str, &str)>, String> {
    if labels.is_null() {
        return Ok(Vec::new());
    }
    let labels = labels.as_object().ok_or_else(|| format!("unknown labels {labels}"))?;
    labels
        .iter()
        .map(|(key, value)| Ok((key.as_str(), value.as_str().ok_or_else(|| format!("unknown label {value}"))?)))
        .collect()
}

fn from_lists(lists: &Value) -> Result<LabelSelector, String> {
    let same = pairs(&lists["matchLabels"])?;
    let mut selector = same.iter().fold(LabelSelector::default(), |selector, (key, value)| selector.equal(key, value));
    for given in lists["matchExpressions"].as_array().map(Vec::as_slice).unwrap_or_default() {
        known(given, &["key", "operator", "values"])?;
        let key = given["key"].as_str().ok_or("no key")?;
        let values: Vec<&str> = given["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        selector = match given["operator"].as_str() {
            Some("In") => selector.within(key, &values),
            Some("NotIn") => selector.without(key, &values),
            Some("Exists") => selector.present(key),
            Some("DoesNotExist") => selector.absent(key),
            other => return Err(format!("unknown operator {other:?}")),
        };
    }
    Ok(selector)
}

pub(super) fn utilization(case: &Case) -> Result<(), String> {
    known(&case.params, &["conditions", "fallbackOnEmpty"])?;
    known(&case.input, &["endpoints"])?;
    let mut conditions = Vec::new();
    for given in list(&case.params, "conditions")? {
        known(given, &["metric", "maxValue"])?;
        let metric = match given["metric"].as_str() {
            Some("active-requests") => Metric::InFlightRequests,
            Some("running-requests") => Metric::Running,
            Some("waiting-queue") => Metric::Waiting,
            Some("kv-cache-utilization") => Metric::KvUsed,
            other => return Err(format!("unknown metric {other:?}")),
        };
        let most = number(given, "maxValue")?.ok_or("no maxValue")?;
        if metric == Metric::KvUsed && most > 1.0 {
            // A share is always below that; ours takes no condition that says nothing.
            continue;
        }
        conditions.push(condition(metric, Comparison::AtMost, most)?);
    }
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

/// Blocks of a token each, and a hundred of them, so that a percentage is a number of blocks.
pub(super) fn affinity(case: &Case) -> Result<(), String> {
    let names =
        ["affinityThreshold", "explorationProbability", "maxTTFTPenaltyMs", "ttftSource", "peakPrefillThroughput"];
    known(&case.params, &names)?;
    known(&case.input, &["endpoints"])?;
    let params = |name, default| number(&case.params, name).map(|number| number.unwrap_or(default));
    let fraction = |number: f64| Fraction::try_from(number).map_err(|error| error.to_string());
    // Their predictor says a time; ours has no predictor, and is given the backlog that takes as long.
    let (figure, scale, rate) = match case.params["ttftSource"].as_str() {
        None | Some("prefillThroughput") => ("inflight_tokens", 1.0, params("peakPrefillThroughput", 15_928.0)?),
        Some("latencyPredictor") => ("predicted_ttft_ms", 1000.0, 1_000_000.0),
        other => return Err(format!("unknown ttftSource {other:?}")),
    };
    let parameters = AffinityParameters {
        share: fraction(params("affinityThreshold", 0.8)?)?,
        most_wait: Positive::new(params("maxTTFTPenaltyMs", 18_000.0)? / 1000.0),
        prefill_rate: Positive::new(rate).ok_or_else(|| format!("unknown throughput {rate}"))?,
        explore: fraction(params("explorationProbability", 0.0)?)?,
    };
    let endpoints = list(&case.input, "endpoints")?;
    let (index, fleet) = fleet(endpoints.len(), |_, pod| pod);
    let (prompt, size): (Vec<u32>, _) = ((0..100).collect(), BlockSize::new(1).expect("not zero"));
    let mut loads = Vec::new();
    // Whether the time is known of one that holds enough, and of one that does not.
    let mut is_timed = [false; 2];
    for (at, endpoint) in endpoints.iter().enumerate() {
        known(endpoint, &["match_pct", "predicted_ttft_ms", "inflight_tokens"])?;
        let held = whole(endpoint, "match_pct")?.unwrap_or_default();
        hold(&index, at, prompt.get(..held as usize).ok_or("unknown share above 100 %")?, size)?;
        let mut load = PodLoad::default();
        // Theirs leaves out whom it has no time of: here, nobody waits longer.
        let figure = number(endpoint, figure)?;
        load.in_flight.uncached_tokens = figure.map_or(u64::MAX, |figure| (figure * scale) as u64);
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

fn is_unknown(load: &PodLoad) -> bool {
    load.in_flight.uncached_tokens == u64::MAX
}

pub(super) fn context_range(case: &Case) -> Result<(), String> {
    known(&case.params, &["label", "enableFiltering"])?;
    known(&case.input, &["context_length", "ranges"])?;
    let label = case.params["label"].as_str().unwrap_or("llm-d.ai/context-length-range");
    let ranges = list(&case.input, "ranges")?;
    let labelled = |at: usize, pod| {
        ranges[at].as_str().into_iter().fold(pod, |pod: routing_core::PodInfo, range| pod.label(label, range))
    };
    let (_, fleet) = fleet(ranges.len(), labelled);
    if case.params["enableFiltering"] != true {
        // Theirs only scores then: in our profile there is no filter.
        return as_expected(case, &(0..ranges.len()).collect::<Vec<_>>());
    }
    let prompt = vec![0; whole(&case.input, "context_length")?.ok_or("no length")? as usize];
    let profile = profile("serve").preparer("tokens", GivenTokensPreparer::declare);
    let parameters = ContextRangeParameters { label: label.into() };
    let request = request().tokens(&prompt);
    let kept = kept(profile, &request, &fleet, OnEmpty::Fail, |d| ContextRangeFilter::declare(d, parameters))?;
    as_expected(case, &kept)
}

pub(super) fn parse_range(case: &Case) -> Result<(), String> {
    known(&case.params, &[])?;
    known(&case.input, &["range"])?;
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
