//! Their filters, detectors and deciders, on our filters and conditions.
//!
//! Where theirs fail open, ours are given `OnEmpty::KeepPrevious`: filters do not decide that themselves.

mod decider;
mod detectors;
mod filters;
mod given;

use super::case::{Case, Verdict};

pub(crate) fn check(case: &Case) -> Verdict {
    let run: fn(&Case) -> Result<(), String> = match (&*case.plugin, &*case.kind) {
        ("prefill-filter" | "decode-filter" | "encode-filter", "filter") => filters::role,
        ("endpoint-attribute-filter", "filter") => filters::attribute,
        ("label-selector-filter" | "by-label-selector", "filter") => filters::label_selector,
        ("utilization-filter", "filter") => filters::utilization,
        ("prefix-cache-affinity-filter", "filter") => filters::affinity,
        ("context-length-aware", "filter") => filters::context_range,
        ("context-length-aware", "parse") => filters::parse_range,
        ("utilization-detector", "filter") => detectors::utilization_filter,
        ("utilization-detector", "saturation") => detectors::utilization_saturation,
        ("concurrency-detector", "filter") => detectors::concurrency_filter,
        ("concurrency-detector", "saturation") => detectors::concurrency_saturation,
        ("priority-holdback-policy", "limits") => detectors::ceilings,
        ("prefix-based-pd-decider", "decide") => decider::decide,
        _ => return Verdict::NotMine,
    };
    Verdict::of(run(case))
}

#[test]
fn cases_of_filters_pass_and_can_fail() {
    let mut claimed = 0;
    for mut case in super::case::read(super::CASES) {
        match check(&case) {
            Verdict::NotMine => continue,
            Verdict::Passed => claimed += 1,
            Verdict::Failed(why) => panic!("{}: {why}", case.id),
        }
        let is_refused = |case: &Case| matches!(check(case), Verdict::Failed(_));
        let expected = case.expected.take();
        assert!(is_refused(&case), "{} expects nothing", case.id);
        case.expected = expected;
        case.params["further"] = true.into();
        assert!(is_refused(&case), "{} takes any parameter", case.id);
        case.params.as_object_mut().expect("parameters").remove("further");
        case.input["further"] = true.into();
        assert!(is_refused(&case), "{} takes any input", case.id);
    }
    assert!(claimed >= 53, "only {claimed} cases");
}

#[cfg(test)]
fn made(plugin: &str, params: serde_json::Value, input: serde_json::Value, kept: &[usize]) -> Case {
    let expected = serde_json::json!({ "kept": kept });
    let case = serde_json::json!({
        "id": plugin, "plugin": plugin, "kind": "filter", "params": params, "input": input, "expected": expected,
    });
    serde_json::from_value(case).expect("a case")
}

/// What the cases of the file do not have, by the published rules.
#[test]
fn cases_that_are_not_in_the_file_are_mapped_too() {
    use serde_json::json;

    let hybrid = json!({"mode": "hybrid", "maxConcurrency": 2, "maxTokenConcurrency": 100});
    let in_flight =
        |requests: [u32; 3], tokens: [u32; 3]| json!({"inflight_requests": requests, "inflight_tokens": tokens});
    let attribute = |operator: &str, value: f64, missing: &str| json!({"attribute": "heat", "operator": operator, "value": value, "onMissing": missing});
    let heat = json!({"values": [-2.5, -0.5, 1e9, null]});
    let sticky = json!({"affinityThreshold": 0.8, "maxTTFTPenaltyMs": 100, "ttftSource": "latencyPredictor"});
    let endpoint = |share: u32, ttft: Option<u32>| json!({"match_pct": share, "predicted_ttft_ms": ttft});
    let ends = |list: &[(u32, Option<u32>)]| json!({"endpoints": list.iter().map(|(share, ttft)| endpoint(*share, *ttft)).collect::<Vec<_>>()});
    let zones = json!({"labels": [{"zone": "a"}, {"zone": "b", "gpu": "h"}, {}, null]});
    let lists = json!({"matchLabels": {"zone": "b"}, "matchExpressions": [{"key": "gpu", "operator": "Exists"}]});
    let detector =
        |stale: bool| json!({"endpoints": [{"queue": 0, "kv": 0.1, "stale": stale}, {"queue": 1, "kv": 0.1}]});
    let cases = [
        made("concurrency-detector", hybrid.clone(), in_flight([1, 2, 1], [50, 50, 100]), &[0]),
        made("concurrency-detector", hybrid, in_flight([2, 2, 1], [50, 50, 100]), &[0, 1, 2]),
        made("endpoint-attribute-filter", attribute("LessThan", -0.5, "Fail"), heat.clone(), &[0]),
        made("endpoint-attribute-filter", attribute("GreaterThanOrEqual", -0.5, "Pass"), heat, &[1, 2, 3]),
        made(
            "prefix-cache-affinity-filter",
            sticky.clone(),
            ends(&[(90, Some(500)), (90, None), (0, Some(450))]),
            &[0, 1],
        ),
        made(
            "prefix-cache-affinity-filter",
            sticky.clone(),
            ends(&[(90, Some(500)), (0, None), (0, Some(50))]),
            &[0, 1, 2],
        ),
        made("prefix-cache-affinity-filter", sticky, ends(&[(90, Some(5)), (0, None)]), &[0, 1]),
        made("label-selector-filter", json!({"selector": "zone in (a, c)"}), zones.clone(), &[0]),
        made("label-selector-filter", json!({ "selector": lists }), zones.clone(), &[1]),
        made("label-selector-filter", json!({"selector": "!zone"}), zones, &[2, 3]),
        made("utilization-detector", json!({}), detector(true), &[1]),
    ];
    for case in &cases {
        assert!(matches!(check(case), Verdict::Passed), "{case:?}: {:?}", check(case));
    }
}
