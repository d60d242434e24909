//! Golden recording (characterization test) of routing decisions: every stock profile, in code and as a document, and every
//! example policy decides over the same made-up traffic as it did when `decisions.txt` was written.
//!
//! It says nothing about which decisions are good, only that a change left them alone. `POINTSMAN_RECORD=FILE` writes every
//! line in full, so that two revisions can be compared by `diff`; `POINTSMAN_BLESS=1` takes what is decided now for right.
#![cfg(feature = "serde")]

mod recording;
mod traffic;
mod world;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use recording::Section;
use routing_core::{Registry, Workflow};
use routing_plugins::{PluginState, profiles, register};
use traffic::Traffic;
use world::World;

/// Decisions of each profile.
const DECISIONS: u64 = 400;

type InCode = fn(&PluginState) -> Workflow;

macro_rules! profile {
    ($name:ident) => {
        (
            stringify!($name),
            (|state: &PluginState| profiles::$name(state).build().expect("a ready profile builds").into()) as InCode,
        )
    };
}

const PROFILES: [(&str, InCode); 12] = [
    profile!(round_robin),
    profile!(least_load),
    profile!(consistent_hash),
    profile!(first_token),
    profile!(total_latency),
    profile!(programs),
    profile!(cache_aware),
    profile!(cache_aware_sticky),
    profile!(sticky_least_loaded),
    profile!(prefill_decode),
    profile!(prefill_decode_conditional),
    profile!(approximate_prefix),
];

const POLICIES: [&str; 18] = [
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

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The workflow that a file describes.
fn read(file: &Path, state: &PluginState) -> Workflow {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut registry = Registry::new();
    register(&mut registry, state).expect("nothing else is registered");
    let document = registry.read(serde_yaml_ng::Deserializer::from_str(&text));
    let document = document.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    document.build(&registry).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn record(name: String, build: impl Fn(&PluginState) -> Workflow) -> Section {
    let state = world::state();
    let workflow = build(&state);
    let (mut world, mut traffic) = (World::new(state, workflow), Traffic::default());
    let mut lines: Vec<String> = (0..DECISIONS)
        .map(|number| format!("{name} {number}: {}", world.route(&traffic.ask(number), number)))
        .collect();
    lines.push(format!("{name} end: {}", world.state()));
    Section { name, lines }
}

fn everything() -> Vec<Section> {
    let mut sections = Vec::new();
    for (name, in_code) in PROFILES {
        sections.push(record(format!("{name} in code"), in_code));
        let file = folder("profiles").join(format!("{name}.yaml"));
        sections.push(record(format!("{name} as document"), |state| read(&file, state)));
    }
    for name in POLICIES {
        let file = folder("../examples/simulator/policies").join(format!("{name}.yaml"));
        sections.push(record(format!("policy {name}"), |state| read(&file, state)));
    }
    // What none of those use: guesses, bindings and cold prompts that recorders keep, priorities, adapters, two choices.
    let others = folder("tests/recorded_decisions/others.yaml");
    sections.push(record("others".to_owned(), |state| read(&others, state)));
    sections
}

#[test]
fn every_profile_decides_as_recorded() {
    recording::hold_against(&folder("tests/recorded_decisions/decisions.txt"), &everything());
}

#[test]
fn the_traffic_meets_failures_replans_and_prompts_that_are_held() {
    let lines: Vec<String> = everything().into_iter().flat_map(|section| section.lines).collect();
    assert!(lines.len() > 12_000, "{}", lines.len());
    let with = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    for (text, least) in [("error: ", 300), (" | ", 600), (": without ", 2_000), (" *2", 500)] {
        assert!(with(text) >= least, "{text:?} is in {} of {} lines", with(text), lines.len());
    }
    let held =
        |word: &str| word.split_once('/').is_some_and(|(held, _)| held.parse::<u32>().is_ok_and(|held| held > 0));
    let warm = lines.iter().filter(|line| line.split(' ').any(held)).count();
    assert!(warm > 2_000, "{warm} of {} prompts are held", lines.len());
}

#[test]
fn every_document_is_recorded() {
    let files = |path: &str| -> BTreeSet<String> {
        let files = std::fs::read_dir(folder(path)).expect("the folder of documents");
        files.map(|entry| entry.expect("a file").file_name().into_string().expect("a plain name")).collect()
    };
    let yaml = |name: &str| format!("{name}.yaml");
    assert_eq!(files("profiles"), PROFILES.iter().map(|(name, _)| yaml(name)).collect());
    assert_eq!(files("../examples/simulator/policies"), POLICIES.iter().map(|name| yaml(name)).collect());
}
