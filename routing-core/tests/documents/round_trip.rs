//! What is read, built, written and read again is the same.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use routing_core::{
    Document, FailurePolicy, FilterUse, OnEmpty, PluginDefinition, ProfileDefinition, Role, ScorerUse, StepDefinition,
    Value, WorkflowDefinition,
};

use crate::format;
use crate::plugins::registry;
use crate::{JSON, TOML, YAML};

/// Names as operators might write them, those included that a format must quote.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9_.-]{0,6}",
        "[ -~]{1,6}",
        select(vec!["true", "null", "1", "é: #", "\"'\n"]).prop_map_into()
    ]
}

/// Any value that all three formats can write.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Integer),
        (-1e9..1e9_f64).prop_map(Value::Float),
        name().prop_map(Value::Text),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let map = btree_map(name(), inner.clone(), 0..3).prop_map(Value::Map);
        prop_oneof![vec(inner, 0..3).prop_map(Value::List), map]
    })
}

fn plugin() -> impl Strategy<Value = PluginDefinition> {
    (name(), option::of(name()), btree_map(name(), value(), 0..3)).prop_map(|(kind, name, parameters)| {
        let mut plugin = PluginDefinition::new(&kind);
        plugin.name = name.unwrap_or(kind);
        plugin.parameters = parameters;
        plugin
    })
}

fn profile() -> impl Strategy<Value = ProfileDefinition> {
    let on_empty = select(vec![OnEmpty::Fail, OnEmpty::KeepPrevious]);
    let filter = (name(), on_empty).prop_map(|(plugin, on_empty)| FilterUse::new(&plugin, on_empty));
    let scorer = (name(), 0.0..100.0_f64).prop_map(|(plugin, weight)| ScorerUse::new(&plugin, weight));
    let stages = (vec(name(), 0..3), vec(filter, 0..3), vec(scorer, 0..3));
    (name(), name(), stages).prop_map(|(name, pick, (prepare, filter, score))| {
        let mut profile = ProfileDefinition::new(&name, &pick);
        (profile.prepare, profile.filter, profile.score) = (prepare, filter, score);
        profile
    })
}

fn step() -> impl Strategy<Value = StepDefinition> {
    let role = select(vec![Role::Both, Role::Prefill, Role::Decode, Role::Encode]);
    let policy =
        select(vec![FailurePolicy::NextCandidate, FailurePolicy::Skip, FailurePolicy::Replan, FailurePolicy::Fail]);
    let rest = (option::of(plugin()), option::of(1_usize..9), any::<bool>());
    (name(), name(), role, policy, rest).prop_map(|(name, profile, role, on_failure, (when, ranked, independent))| {
        let mut step = StepDefinition::new(&name, &profile);
        (step.role, step.on_failure, step.when, step.independent) = (role, on_failure, when, independent);
        step.ranked = ranked.and_then(NonZeroUsize::new);
        step
    })
}

fn document() -> impl Strategy<Value = Document> {
    let workflow = (vec(step(), 0..3), option::of(vec(name(), 0..3)));
    let plain = (btree_map(name(), value(), 0..3), vec(plugin(), 0..4), vec(profile(), 0..3), option::of(workflow));
    plain.prop_map(|(values, plugins, profiles, workflow)| {
        let mut document = Document::default();
        (document.values, document.plugins, document.profiles) = (values, plugins, profiles);
        document.workflow = workflow.map(|(steps, executed_in)| {
            let mut workflow = WorkflowDefinition::default();
            (workflow.steps, workflow.executed_in) = (steps, executed_in);
            workflow
        });
        document
    })
}

proptest! {
    /// Whatever a document says, it says the same after it was written and read in any format.
    #[test]
    fn a_document_survives_every_format(document in document()) {
        let json = serde_json::to_string(&document).expect("JSON writes it");
        prop_assert_eq!(&serde_json::from_str::<Document>(&json).expect("JSON reads it"), &document);
        let toml = toml::to_string(&document).expect("TOML writes it");
        prop_assert_eq!(&toml::from_str::<Document>(&toml).expect("TOML reads it"), &document, "{}", toml);
        let yaml = serde_yaml_ng::to_string(&document).expect("YAML writes it");
        prop_assert_eq!(&serde_yaml_ng::from_str::<Document>(&yaml).expect("YAML reads it"), &document, "{}", yaml);
    }
}

#[test]
fn what_a_workflow_was_built_from_builds_the_same_again() {
    let registry = registry();
    let read = [format::yaml(&registry, YAML), format::json(&registry, JSON), format::toml(&registry, TOML)];
    for document in read {
        let workflow = document.expect("the sample is sound").build(&registry).expect("the sample builds");
        let kept = workflow.document().expect("it was built from a document");
        let yaml = serde_yaml_ng::to_string(kept).expect("YAML writes it");
        let json = serde_json::to_string(kept).expect("JSON writes it");
        let toml = toml::to_string(kept).expect("TOML writes it");
        let again = [format::yaml(&registry, &yaml), format::json(&registry, &json), format::toml(&registry, &toml)];
        for again in again {
            let again = again.expect("what was written is read").build(&registry).expect("and builds");
            assert_eq!(again.document(), Some(kept));
        }
    }
}

#[test]
fn what_need_not_be_said_is_not_written() {
    let mut document = Document::default();
    document.plugins.push(PluginDefinition::new("best"));
    document.profiles.push(ProfileDefinition::new("only", "best"));
    let json = serde_json::to_string(&document).expect("JSON writes it");
    assert_eq!(json, r#"{"plugins":[{"type":"best"}],"profiles":[{"name":"only","pick":"best"}]}"#);
    assert_eq!(document.plugins[0].parameters, BTreeMap::new());
}
