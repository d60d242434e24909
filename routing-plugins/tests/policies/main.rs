//! The published rules of `examples/simulator/policies`: each builds, and decides as its formula says.
#![cfg(feature = "serde")]

mod costs;
mod gates;
mod plain;
mod scene;

use std::collections::BTreeSet;

use routing_core::Warning;

/// The documents that are tested, by their names.
const TESTED: [&str; 13] = [
    "dynamo_linear",
    "least_load",
    "llm_d",
    "lmetric",
    "longest_prefix",
    "mooncake_ttft",
    "preble_e2",
    "random",
    "round_robin",
    "session_sticky",
    "smg_cache_aware",
    "smg_expected_wait",
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
        // Mooncake's rule goes by what is under way, without a queue that time works off.
        let is_meant = |warning: &Warning| name == "mooncake_ttft" && matches!(warning, Warning::NeverRecorded { .. });
        let warnings: Vec<_> = workflow.warnings().iter().filter(|warning| !is_meant(warning)).collect();
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
    }
}
