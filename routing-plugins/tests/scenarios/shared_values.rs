//! The shipped document of `first_token`: cost model and wait credit are one value each, for the scorer and the recorder.
#![cfg(feature = "serde")]

use std::time::Instant;

use routing_core::{Document, Fleet, PodInfo, Registry, Request, RoutingInput, RoutingPlan, Value, Warning};
use routing_plugins::profiles::StockProfile;
use routing_plugins::{Amount, CostModel, PluginState, register};

use super::world::{prompt, state};

fn shipped() -> &'static str {
    <StockProfile>::find("first_token").expect("it is shipped").document
}

fn read(text: &str, state: &PluginState) -> (Document, Registry) {
    let mut registry = Registry::new();
    register(&mut registry, state).expect("nothing else is registered");
    (registry.read(serde_yaml_ng::Deserializer::from_str(text)).expect("it is sound"), registry)
}

/// Seconds that the recorder adds for a prompt, and the score of the pod that is idle beside the one that got it.
#[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
fn queued(text: &str) -> f64 {
    let (now, state) = (Instant::now(), state());
    let (document, registry) = read(text, &state);
    // No warning: both go by the same terms, which the build compares.
    let workflow = document.build_strict(&registry).expect("nothing is warned of");
    let pod = state.index.join("a").expect("room");
    let fleet = Fleet::new(1, [PodInfo::new(pod, "a")]);
    let tokens = prompt(1, 150);
    let request = Request::new("m", now).tokens(&tokens);
    let mut plan = RoutingPlan::default();
    workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet), &mut plan).expect("a plan");
    state.prefill_queues.of(pod, now).expect("it was recorded")
}

#[test]
fn scorer_and_recorder_refer_to_one_cost_model() {
    let (document, _) = read(shipped(), &state());
    let parameters =
        |kind: &str| &document.plugins.iter().find(|plugin| plugin.kind == kind).expect("it is there").parameters;
    let (scorer, recorder) = (parameters("first_token_scorer"), parameters("prefill_queue_recorder"));
    assert_eq!(scorer["cost_model"], recorder["cost_model"]);
    assert!(matches!(&scorer["cost_model"], Value::Map(map) if map["$value"] == Value::from("cost_model")));
    assert!(document.values.contains_key("wait_credit"));
}

#[test]
fn one_place_is_changed_and_both_with_it() {
    let tokens = prompt(1, 150).len() as f64;
    let default = CostModel::default().prefill_seconds(tokens, 0.0);
    assert!((queued(shipped()) - default).abs() < 1e-4, "the numbers that are shipped are those of the default");
    let slower = shipped().replacen("fixed: 0.00484", "fixed: 5", 1);
    let model = CostModel::default().fixed(Amount::new(5.0).expect("an amount"));
    assert!((queued(&slower) - model.prefill_seconds(tokens, 0.0)).abs() < 1e-4, "{}", queued(&slower));
    assert!(queued(&slower) > 10.0 * default);
}

#[test]
fn two_places_that_differ_are_warned_of() {
    let apart = shipped().replacen("cost_model: { $value: cost_model }, wait", "cost_model: { fixed: 5 }, wait", 1);
    assert_ne!(apart, shipped());
    let (document, registry) = read(&apart, &state());
    let workflow = document.build(&registry).expect("it works");
    assert!(matches!(workflow.warnings(), [Warning::OtherTerms { .. }]), "{:?}", workflow.warnings());
}
