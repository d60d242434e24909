//! Their filters, detectors and deciders, on our filters and conditions.
//!
//! Where theirs fail open, ours are given `OnEmpty::KeepPrevious`: filters do not decide that themselves.

mod decider;
mod detectors;
mod filters;
mod given;
mod labels;

use super::case::{Case, Verdict};

pub(crate) fn check(case: &Case) -> Verdict {
    let run: fn(&Case) -> Result<(), String> = match (&*case.plugin, &*case.kind) {
        ("prefill-filter" | "decode-filter" | "encode-filter", "filter") => labels::role,
        ("label-selector-filter" | "by-label-selector", "filter" | "config") => labels::label_selector,
        ("by-label", "filter" | "config") => labels::by_label,
        ("topology-affinity-filter", "filter" | "config") => labels::topology,
        ("endpoint-attribute-filter", "filter" | "config") => filters::attribute,
        ("utilization-filter", "filter" | "config") => filters::utilization,
        ("prefix-cache-affinity-filter", "filter" | "config") => filters::affinity,
        ("context-length-aware", "filter" | "config") => filters::context_range,
        ("context-length-aware", "parse") => filters::parse_range,
        ("utilization-detector", "filter") => detectors::utilization_filter,
        ("utilization-detector", "saturation") => detectors::utilization_saturation,
        ("utilization-detector", "config") => detectors::utilization_config,
        ("concurrency-detector", "filter") => detectors::concurrency_filter,
        ("concurrency-detector", "saturation") => detectors::concurrency_saturation,
        ("concurrency-detector", "config") => detectors::concurrency_config,
        ("priority-holdback-policy", "limits" | "config") => detectors::ceilings,
        ("prefix-based-pd-decider", "decide" | "config") => decider::decide,
        _ => return Verdict::NotMine,
    };
    Verdict::of(run(case))
}
