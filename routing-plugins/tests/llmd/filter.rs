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
