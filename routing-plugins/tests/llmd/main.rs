//! Cases restated from llm-d's own unit tests, for the plugins that claim the same behaviour.
//!
//! Every case is claimed by a module here, or named in [`NOT_CLAIMED`] with the reason. Where a claimed plugin is another,
//! [`differences`] says how. More files of the same form are run when `POINTSMAN_VECTORS` names a folder with one.

mod case;
mod differences;
mod filter;
mod pick;
mod plugins;
mod prepare;
mod read;
mod score;
mod topology;

use std::collections::BTreeMap;

use case::{Case, Verdict};
use differences::{DIFFERENCES, Difference};
use serde_json::Value;

const CASES: &str = include_str!("../fixtures/llmd_plugin_cases.json");
const MORE_CASES: &str = include_str!("../fixtures/llmd_more_cases.json");

/// Plugins of theirs that none of ours stands for, or kinds of their cases, and why.
const NOT_CLAIMED: &[(&str, &str)] = &[
    ("burst-prefix", "bursts are kept together by speculation, one decision at a time"),
    ("data-graph", "what fits together is proven by routing-core, by its own tests"),
    ("endpoint-notification", "pods come and go by the host's snapshots of its fleet"),
    ("header-based-testing-filter", "a filter by a header is for tests of theirs; a host brings its own"),
    ("header-label-affinity", "labels are compared with a selector, not with a header"),
    ("latency-slo-admitter", "admission is the host's; `filter::saturation` tells it how full the fleet is"),
    ("mm-embeddings", "what encoders cache is not indexed"),
    ("multicluster-approx-prefix", "an index is of the pods of one gateway"),
    ("multicluster-kv-cache-utilization-scorer", "a cluster's mean is a figure of the host's, for `MetricScorer`"),
    ("multicluster-prefix-cache-scorer", "an index is of the pods of one gateway"),
    ("multicluster-session-affinity", "a session's pod is in the host's table, not in a token of the client's"),
    ("p2p-source-producer", "engines find their own sources"),
    ("pd-", "the wire is routing-exec's, and so are its cases"),
    ("predicted-latency", "latencies come from the host's predictor; ours is by throughput alone"),
    ("probabilistic-admitter", "admission is the host's; `filter::saturation` tells it how full the fleet is"),
    ("session-affinity", "a session's pod is in the host's table, not in a token of the client's"),
    ("session-id-producer", "the places of a session's name are parameters here, with other defaults"),
    ("slo-headroom-tier-filter", "a scorer prefers headroom; nobody is filtered out for lack of it"),
    ("soft-reflective-ceiling-policy", "ceilings are by priority alone"),
];

/// What the one module that claims a case says of it; `NotMine` if none does.
fn verdict(case: &Case) -> Result<Verdict, String> {
    let verdicts = [filter::check(case), pick::check(case), prepare::check(case), score::check(case)];
    let mut claims = verdicts.into_iter().filter(|verdict| !matches!(verdict, Verdict::NotMine));
    match (claims.next(), claims.next()) {
        (Some(_), Some(_)) => Err("claimed twice".into()),
        (claim, None) => Ok(claim.unwrap_or(Verdict::NotMine)),
        (None, Some(_)) => unreachable!("a second claim without a first"),
    }
}

/// What is wrong about a case, if anything is.
fn fault(case: &Case) -> Result<(), String> {
    let excused = NOT_CLAIMED.iter().any(|(excused, _)| case.plugin.starts_with(excused));
    match (verdict(case)?, Difference::of(case), excused) {
        (Verdict::NotMine, None, true) | (Verdict::Passed, None, false) => Ok(()),
        (Verdict::NotMine, _, _) => Err("nobody claims it, and nothing excuses it".into()),
        (_, _, true) => Err("claimed and excused".into()),
        (Verdict::Failed(why), Some(_), false) if !why.starts_with("unknown") => Ok(()),
        (Verdict::Failed(why), _, false) => Err(why),
        (Verdict::Passed, Some(difference), false) => Err(format!("no difference: {}", difference.name)),
    }
}

fn own_cases() -> Vec<Case> {
    [CASES, MORE_CASES].into_iter().flat_map(case::read).collect()
}

#[test]
fn every_case_of_a_claimed_plugin_passes() {
    let mut cases = own_cases();
    for text in ["llmd_plugin_cases.json", "llmd_more_cases.json"].into_iter().filter_map(case::further) {
        let further = case::read(&text);
        assert!(!further.is_empty(), "a file without cases proves nothing");
        cases.extend(further);
    }
    let wrong: Vec<String> =
        cases.iter().filter_map(|case| fault(case).err().map(|why| format!("{}: {why}", case.id))).collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn every_difference_has_a_case_and_ids_occur_once() {
    let cases = own_cases();
    let mut seen = BTreeMap::new();
    for case in &cases {
        assert_eq!(seen.insert(&case.id, ()), None, "{} occurs twice", case.id);
    }
    for difference in DIFFERENCES {
        let has_case = cases.iter().filter_map(Difference::of).any(|found| found.name == difference.name);
        assert!(has_case, "no case of `{}`: {}", difference.name, difference.why);
    }
}

/// What a mapping does not know it refuses, wherever it stands, and every value that is expected counts.
#[test]
fn claimed_cases_can_fail() {
    let is_passed = |case: &Case| matches!(verdict(case), Ok(Verdict::Passed));
    let mut claimed = 0;
    for case in own_cases().into_iter().filter(is_passed) {
        claimed += 1;
        assert!(!is_passed(&Case { expected: Value::Null, ..case.clone() }), "{} expects nothing", case.id);
        for odd in changed(&case.expected, odd_name).into_iter().chain(changed(&case.expected, other_value)) {
            assert!(!is_passed(&Case { expected: odd.clone(), ..case.clone() }), "{} expects {odd}", case.id);
        }
        for odd in changed(&case.params, odd_name) {
            assert!(!is_passed(&Case { params: odd.clone(), ..case.clone() }), "{} takes {odd}", case.id);
        }
        for odd in changed(&case.input, odd_name) {
            assert!(!is_passed(&Case { input: odd.clone(), ..case.clone() }), "{} takes {odd}", case.id);
        }
    }
    assert!(claimed >= 450, "only {claimed} cases");
}

/// The same value with one part of it changed, once for each part that can be.
fn changed(value: &Value, change: fn(&Value) -> Option<Value>) -> Vec<Value> {
    let mut all: Vec<Value> = change(value).into_iter().collect();
    match value {
        Value::Object(object) => {
            for (name, part) in object {
                all.extend(changed(part, change).into_iter().map(|part| {
                    let mut object = object.clone();
                    object.insert(name.clone(), part);
                    Value::Object(object)
                }));
            }
        }
        Value::Array(list) => {
            for (at, part) in list.iter().enumerate() {
                all.extend(changed(part, change).into_iter().map(|part| {
                    let mut list = list.clone();
                    list[at] = part;
                    Value::Array(list)
                }));
            }
        }
        _ => {}
    }
    all
}

/// An object with a name that nobody knows.
fn odd_name(value: &Value) -> Option<Value> {
    let mut object = value.as_object()?.clone();
    object.insert("further".into(), true.into());
    Some(object.into())
}

/// Another number, text or truth.
fn other_value(value: &Value) -> Option<Value> {
    match value {
        // Towards the middle: beyond 0..=1 raw scores are the same.
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Some((if whole > 0 { whole - 1 } else { whole + 1 }).into()),
            None => number.as_f64().map(|number| if number > 0.5 { number - 1.0 } else { number + 1.0 }.into()),
        },
        Value::String(_) => Some("?".into()),
        Value::Bool(truth) => Some((!truth).into()),
        _ => None,
    }
}
