//! The published rules of `examples/simulator/policies`: each builds, and decides as its formula says.
#![cfg(feature = "serde")]

mod costs;
mod gates;
mod plain;
mod scene;

use std::collections::BTreeSet;

use routing_core::Warning;

/// The documents that are tested, by their names.
const TESTED: [&str; 18] = [
    "aibrix_prefix",
    "dynamo_linear",
    "dynamo_tuned",
    "expected_wait",
    "least_load",
    "llm_d",
    "llm_d_affinity",
    "llm_d_latency",
    "lmetric",
    "longest_prefix",
    "mooncake_decode",
    "mooncake_ttft",
    "preble_e2",
    "random",
    "round_robin",
    "session_sticky",
    "smg_cache_aware",
    "vllm_rfc",
];

#[test]
fn every_document_is_tested() {
    let files: BTreeSet<String> = std::fs::read_dir(scene::folder())
        .expect("the folder of policies")
        .map(|entry| entry.expect("a file").file_name().into_string().expect("a plain name"))
        .collect();
    assert_eq!(files, TESTED.map(|name| format!("{name}.yaml")).into_iter().collect());
}

#[test]
fn every_document_builds_without_warnings_and_says_whose_rule_it_is() {
    for name in TESTED {
        let text = scene::document(name);
        let comment = text.lines().take_while(|line| line.starts_with('#')).count();
        assert!(comment >= 3, "{name}: who, the formula, and where it departs");
        let workflow = scene::build(name, &scene::state());
        // Rules that go by what is under way, without a queue that time works off.
        let has_no_queue = ["mooncake_decode", "mooncake_ttft", "llm_d_latency"].contains(&name);
        let is_meant = |warning: &Warning| has_no_queue && matches!(warning, Warning::NeverRecorded { .. });
        let warnings: Vec<_> = workflow.warnings().iter().filter(|warning| !is_meant(warning)).collect();
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
    }
}
