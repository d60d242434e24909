//! Scorers, and what of the index and of the framework cases ask by scores.

mod expect;
mod held;
mod latency;
mod loads;
mod places;
mod setup;

use std::sync::Arc;

use kv_index::{PodId, PodSet};
use routing_core::{
    Declare, Filter, OnEmpty, PluginError, ProfileBuilder, RoutingContext, RoutingInput, RoutingPlan, Scorer, Scores,
    Trace,
};
use routing_plugins::Fraction;
use routing_plugins::extra::ColdPromptRecorder;
use routing_plugins::extra::{
    AdapterScorer, LruOrder, MetricRange, MetricScorer, MetricScorerParameters, Metrics, NoHitSpreadScorer,
    PreferredMetric,
};
use routing_plugins::score::{CacheAffinityParameters, CacheAffinityScorer};
use serde_json::Value;

use super::case::{self, Case, Verdict, close};
use expect::expect;
use setup::{Best, Setup};

pub(crate) fn check(case: &Case) -> Verdict {
    let result = match (case.plugin.as_str(), case.kind.as_str()) {
        ("queue-scorer", "score") => loads::queue(case),
        ("multicluster-queue-scorer", "score") => loads::multicluster_queue(case),
        ("running-requests-size-scorer", "score") => loads::running(case),
        ("load-aware-scorer", "score") => loads::load_aware(case),
        ("token-load-scorer", "score") => loads::token_load(case),
        ("active-request-scorer", "score") => loads::active_requests(case),
        ("kv-cache-utilization-scorer", "score") => loads::kv_utilization(case),
        ("prefix-cache-scorer", "score") => prefix(case),
        ("prefix-cache-scorer", "config") => prefix_config(case),
        ("no-hit-lru-scorer", "score") => no_hit(case),
        ("no-hit-lru-scorer", "sequence") => no_hit_sequence(case),
        ("lora-affinity-scorer", "score") => adapter(case),
        ("context-length-aware", "score") => places::context_range(case),
        ("topology-affinity-scorer", "score") => places::topology(case),
        ("endpoint-attribute-scorer", "score") => attribute(case),
        ("latency-scorer", "score") => latency::latency(case),
        ("scheduler-profile", "run") => profile(case),
        ("kv-longest-prefix", "score") => held::longest_prefix(case),
        ("matched-block-count", "count") => held::count(case),
        ("matched-block-count-by-tier", "count") if !held::is_speculated(case) => held::count_by_tier(case),
        _ => return Verdict::NotMine,
    };
    Verdict::of(result)
}

/// Refuses what a mapping does not know.
fn known(case: &Case, params: &[&str], input: &[&str]) -> Result<(), String> {
    for (what, map, known) in [("parameter", &case.params, params), ("input", &case.input, input)] {
        let keys = map.as_object().into_iter().flat_map(|map| map.keys());
        if let Some(key) = keys.into_iter().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("unknown {what} `{key}`"));
        }
    }
    Ok(())
}

/// A list of numbers, some of which may be missing.
fn figures(list: &Value) -> Result<Vec<Option<f64>>, String> {
    let list = list.as_array().ok_or("unknown input: no list")?;
    let figure = |value: &Value| match value {
        Value::Null => Ok(None),
        value => value.as_f64().map(Some).ok_or(format!("unknown figure {value}")),
    };
    list.iter().map(figure).collect()
}

/// A list of counts; missing ones are 0, and below 0 there are none.
fn counts(list: &Value) -> Result<Vec<u32>, String> {
    let count = |figure: Option<f64>| {
        let figure = figure.unwrap_or_default();
        let whole = figure >= 0.0 && figure <= f64::from(u32::MAX) && figure.fract() == 0.0;
        if whole { Ok(figure as u32) } else { Err(format!("unknown count {figure}")) }
    };
    figures(list)?.into_iter().map(count).collect()
}

fn affinity(params: &Value) -> Result<CacheAffinityParameters, String> {
    let mut parameters = CacheAffinityParameters::default();
    if let Some(weight) = params["matchLengthWeight"].as_f64() {
        parameters.length_weight = Fraction::try_from(weight).map_err(|error| error.to_string())?;
    }
    if let Some(scale) = params["matchLengthScaleTokens"].as_i64() {
        let scale = u32::try_from(scale).map_err(|error| error.to_string())?;
        parameters.length_scale = scale.try_into().map_err(|error: std::num::TryFromIntError| error.to_string())?;
    }
    Ok(parameters)
}

/// Totals differ by endpoint there, so each is asked alone.
fn prefix(case: &Case) -> Result<(), String> {
    known(case, &["matchLengthWeight", "matchLengthScaleTokens"], &["match", "block_size"])?;
    let parameters = affinity(&case.params)?;
    let block = case.input["block_size"].as_u64().unwrap_or(16) as usize;
    let mut found = Vec::new();
    for matched in case.input["match"].as_array().ok_or("no matches")? {
        let pair = if matched.is_null() { vec![0, 1] } else { counts(matched)? };
        let [held, total] = pair[..] else { return Err("unknown match".into()) };
        let setup = Setup::new(1).prompt(total as usize * block, block as u32);
        setup.hold(0, held as usize);
        found.extend(setup.scores(move |d| CacheAffinityScorer::declare(d, parameters))?);
    }
    expect(case, &found)
}

fn prefix_config(case: &Case) -> Result<(), String> {
    known(case, &["matchLengthWeight", "matchLengthScaleTokens"], &[])?;
    let expected = case.expected["error"].as_bool().ok_or("unknown expectation")?;
    let parameters = affinity(&case.params);
    if parameters.is_err() == expected { Ok(()) } else { Err(format!("found {parameters:?}")) }
}

/// Theirs forgets pods beyond a number of them; ours remembers every pod, which is the same where they are fewer.
fn forgets_nobody(case: &Case, pods: usize) -> Result<(), String> {
    let size = &case.params["lruSize"];
    // What is not above 0 is their default, of a thousand.
    let size = if size.is_null() { 0 } else { size.as_i64().ok_or(format!("unknown lruSize {size}"))? };
    if size <= 0 || size as usize >= pods { Ok(()) } else { Err(format!("unknown: {size} of {pods} remembered")) }
}

fn no_hit(case: &Case) -> Result<(), String> {
    known(case, &["lruSize"], &["matched_blocks", "lru_history"])?;
    let matched = counts(&case.input["matched_blocks"])?;
    forgets_nobody(case, matched.len())?;
    let setup = Setup::new(matched.len()).prompt(64, 1);
    matched.iter().enumerate().for_each(|(pod, blocks)| setup.hold(pod, *blocks as usize));
    let cold = Arc::new(LruOrder::new());
    // Read as a history is: the earliest first.
    for pod in case.input["lru_history"].as_array().ok_or("no history")? {
        let at = pod.as_u64().filter(|at| *at < matched.len() as u64).ok_or(format!("unknown endpoint {pod}"))?;
        cold.stamp(setup.pod(at as usize));
    }
    expect(case, &setup.scores(move |d| NoHitSpreadScorer::declare(d, cold))?)
}

/// Steps like `cold->a`; what comes after a blank is a remark.
fn no_hit_sequence(case: &Case) -> Result<(), String> {
    known(case, &["lruSize"], &["endpoints", "steps"])?;
    let texts = |list: &Value| -> Result<Vec<String>, String> {
        let list = list.as_array().ok_or("no list")?;
        list.iter().map(|value| value.as_str().map(str::to_owned).ok_or(format!("unknown {value}"))).collect()
    };
    let (pods, steps) = (texts(&case.input["endpoints"])?, texts(&case.input["steps"])?);
    forgets_nobody(case, pods.len())?;
    let cold = Arc::new(LruOrder::new());
    for step in &steps {
        let step = step.split(' ').next().unwrap_or_default();
        let (kind, pod) = step.split_once("->").ok_or(format!("unknown step {step}"))?;
        let at = pods.iter().position(|known| known == pod).ok_or(format!("unknown endpoint {pod}"))?;
        let setup = Setup::new(pods.len()).prompt(4, 1);
        match kind {
            "cold" => {}
            "warm" => setup.hold(at, 2),
            _ => return Err(format!("unknown step {step}")),
        }
        let recorded = Arc::clone(&cold);
        let sent = setup.profile().filter("to", OnEmpty::Fail, move |_: &mut Declare<'_>| Only(vec![at]));
        let sent = sent.recorder("cold", move |d: &mut Declare<'_>| ColdPromptRecorder::declare(d, recorded));
        setup.scores_of(&setup.request(), sent.scorer("even", 1.0, |_: &mut Declare<'_>| Even(1.0)))?;

        let scored = Arc::clone(&cold);
        let next = Setup::new(pods.len()).prompt(4, 1);
        let scores = next.scores(move |d| NoHitSpreadScorer::declare(d, scored))?;
        let best = (0..pods.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).ok_or("no endpoints")?;
        let expected = case.expected["best_after"].get(step).and_then(Value::as_str);
        if expected.is_some_and(|expected| expected != pods[best]) {
            return Err(format!("after {step}: found {}, expected {expected:?}", pods[best]));
        }
    }
    let named = case.expected["best_after"].as_object().ok_or("nothing is expected")?;
    let missed = named.keys().find(|key| !steps.iter().any(|step| step.split(' ').next() == Some(key)));
    missed.map_or(Ok(()), |key| Err(format!("unknown step {key} is expected")))
}

fn adapter(case: &Case) -> Result<(), String> {
    known(case, &[], &["target_model", "endpoints"])?;
    let endpoints = case.input["endpoints"].as_array().ok_or("no endpoints")?;
    let names = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let setup = Setup::of(endpoints.len(), |at, mut info| {
        let endpoint = &endpoints[at];
        info = names(&endpoint["active"]).iter().fold(info, |info, name| info.adapter(name));
        info = names(&endpoint["waiting"]).iter().fold(info, |info, name| info.adapter_waiting(name));
        endpoint["max"].as_u64().map_or(info.clone(), |most| info.adapter_slots(most as u16))
    });
    let target = case.input["target_model"].as_str().ok_or("no target model")?;
    let profile = setup.profile().scorer("adapter", 1.0, AdapterScorer::declare);
    expect(case, &setup.scores_of(&setup.request().adapter(target), profile)?)
}

fn attribute(case: &Case) -> Result<(), String> {
    known(case, &["preference", "range", "min", "max"], &["values"])?;
    let values = figures(&case.input["values"])?;
    let mut parameters = MetricScorerParameters::new("value");
    parameters.prefer = match case.params["preference"].as_str() {
        Some("lower") => PreferredMetric::Lower,
        Some("higher") => PreferredMetric::Higher,
        other => return Err(format!("unknown preference {other:?}")),
    };
    parameters.range = match (case.params["range"].as_str(), case.params["min"].as_f64(), case.params["max"].as_f64()) {
        (Some("adaptive"), None, None) => None,
        (Some("fixed"), Some(least), Some(most)) => MetricRange::new(least, most),
        other => return Err(format!("unknown range {other:?}")),
    };
    let setup = Setup::new(values.len());
    expect(case, &setup.scores(move |d| MetricScorer::declare(d, parameters, Arc::new(Figures(values))))?)
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
    known(case, &[], &["scores", "weights", "filter_result"])?;
    let setup = Setup::new(1);
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
    let decided = workflow.decide(
        &mut workflow.workspace(),
        RoutingInput::new(&case::request(), &setup.fleet).traced(&mut trace),
        &mut plan,
    );
    match (decided, case.expected["total"].as_f64(), case.expected["error"].as_str()) {
        (Err(routing_core::DecideError::AllFiltered { .. }), None, Some(text)) if text.contains("no endpoints") => {
            Ok(())
        }
        (Ok(()), Some(total), None) => {
            let found = f64::from(trace.steps[0].totals[0].1) * sum;
            close(&[found], &vec![total].into(), case.tolerance)
        }
        (decided, ..) => Err(format!("found {decided:?}, expected {}", case.expected)),
    }
}

/// Keeps pods by their number.
struct Only(Vec<usize>);

impl Filter for Only {
    fn filter(&self, _: &RoutingContext<'_>, _: PodSet) -> Result<PodSet, PluginError> {
        Ok(self.0.iter().map(|at| PodId::new(*at as u16)).collect())
    }
}

/// The same score for all.
struct Even(f32);

impl Scorer for Even {
    fn score(&self, _: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|_| self.0);
        Ok(())
    }
}

#[test]
fn scorers_pass_their_cases() {
    let mut texts = vec![super::CASES.to_owned()];
    texts.extend(case::further("llmd_plugin_cases.json"));
    let verdicts = texts.iter().flat_map(|text| case::read(text)).map(|case| (check(&case), case.id));
    let mut passed = 0;
    let mut failed = Vec::new();
    for (verdict, id) in verdicts {
        match verdict {
            Verdict::NotMine => {}
            Verdict::Passed => passed += 1,
            Verdict::Failed(why) => failed.push(format!("{id}: {why}")),
        }
    }
    assert!(failed.is_empty(), "{} cases:\n{}", failed.len(), failed.join("\n"));
    assert!(passed >= 46, "{passed} cases");
}

/// What the cases of the file do not have, by the published rules.
#[test]
fn cases_that_are_not_in_the_file_are_mapped_too() {
    use serde_json::json;

    let made = |plugin: &str, params: Value, input: Value, scores: Value| -> Case {
        let expected = json!({ "scores": scores });
        let case = json!({
            "id": plugin, "plugin": plugin, "kind": "score", "params": params, "input": input, "expected": expected,
        });
        serde_json::from_value(case).expect("a case")
    };
    let cold = json!({"matched_blocks": [0, 0, 0], "lru_history": [0]});
    let tokens = json!({"inflight_tokens": [0, 2_097_152]});
    let speculated = |weight: f64, keys: [&str; 2]| {
        let weights = json!({"gpu": 1.0, "cpu": 0.5, "speculative": weight});
        json!({"keys": [1, 2], "tier_weights": weights, "index": {"1": [keys[0]], "2": [keys[1]]}})
    };
    let cases = [
        made("no-hit-lru-scorer", json!({"lruSize": 3}), cold.clone(), json!([0.0, 1.0, 0.5])),
        made("no-hit-lru-scorer", json!({"lruSize": -1}), cold.clone(), json!([0.0, 1.0, 0.5])),
        made("token-load-scorer", json!({"queueThresholdTokens": 0}), tokens, json!([1.0, 0.5])),
        made("kv-longest-prefix", json!({}), speculated(0.25, ["a/gpu", "a/speculative"]), json!({"a": 1.25})),
        made("kv-longest-prefix", json!({}), speculated(0.25, ["a/speculative", "a/speculative"]), json!({"a": 0.5})),
    ];
    for case in &cases {
        assert!(matches!(check(case), Verdict::Passed), "{case:?}: {:?}", check(case));
    }
    let forgetful = made("no-hit-lru-scorer", json!({"lruSize": 1}), cold, json!([0.0, 1.0, 0.5]));
    assert!(matches!(check(&forgetful), Verdict::Failed(_)), "ours remembers more");
}
