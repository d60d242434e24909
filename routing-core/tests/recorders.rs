//! Recorders take note of plans that stand, and of nothing else.

mod common;

use std::sync::{Arc, Mutex};

use kv_index::PodSet;
use routing_core::{
    Condition, DEFAULT_POD_WORDS, DecideError, Declare, Filter, OnEmpty, PlanStep, PluginError, ProfileBuilder,
    Recorder, RoutingContext, StepBuilder, WorkflowBuilder,
};

use common::{Best, decide, fleet, plugin, request};

type Notes = Arc<Mutex<Vec<(String, usize)>>>;

/// Notes the step and the pod it goes to, or fails.
struct Note(Notes, bool);

impl Recorder for Note {
    fn record(&self, _: &RoutingContext<'_>, step: &PlanStep) -> Result<(), PluginError> {
        if self.1 {
            return Err(PluginError::failed("no room"));
        }
        let pod = step.candidates.first().map(|candidate| candidate.pod.id().index());
        self.0.lock().expect("no panic").push((step.name.to_string(), pod.expect("a step has candidates")));
        Ok(())
    }
}

struct Nobody;

impl Filter for Nobody {
    fn filter(&self, _: &RoutingContext<'_>, _: PodSet) -> Result<PodSet, PluginError> {
        Ok(PodSet::EMPTY)
    }
}

struct Never;

impl Condition for Never {
    fn holds(&self, _: &RoutingContext<'_>) -> Result<bool, PluginError> {
        Ok(false)
    }
}

fn noting(name: &str, notes: &Notes) -> ProfileBuilder {
    let notes = Arc::clone(notes);
    ProfileBuilder::new(name).picker("best", Best::declare).recorder("note", |_: &mut Declare<'_>| Note(notes, false))
}

#[test]
fn each_step_that_is_taken_is_recorded_once_the_plan_stands() {
    let notes = Notes::default();
    let workflow = WorkflowBuilder::new()
        .step(StepBuilder::new("decode", noting("decode", &notes)))
        .step(StepBuilder::new("encode", noting("encode", &notes)).when("never", |_| Never))
        .step(StepBuilder::new("prefill", noting("prefill", &notes)))
        .executed_in(&["encode", "prefill", "decode"])
        .build()
        .expect("it fits");
    let (_index, fleet) = fleet::<DEFAULT_POD_WORDS>(3);
    let plan = decide(&workflow, &request(), &fleet).expect("pods are there");
    let first = |step: &str| common::pods(&plan, step)[0];
    let expected = [("decode".to_owned(), first("decode")), ("prefill".to_owned(), first("prefill"))];
    assert_eq!(*notes.lock().expect("no panic"), expected);
}

#[test]
fn a_decision_that_fails_is_not_recorded() {
    let notes = Notes::default();
    let nobody = ProfileBuilder::new("prefill").filter("nobody", OnEmpty::Fail, |_| Nobody);
    let workflow = WorkflowBuilder::new()
        .step(StepBuilder::new("decode", noting("decode", &notes)))
        .step(StepBuilder::new("prefill", nobody.picker("best", Best::declare)))
        .build()
        .expect("it fits");
    let (_index, fleet) = fleet::<DEFAULT_POD_WORDS>(3);
    assert!(decide(&workflow, &request(), &fleet).is_err());
    assert!(notes.lock().expect("no panic").is_empty());
}

#[test]
fn a_recorder_that_fails_ends_the_decision() {
    let failing = ProfileBuilder::new("serve").picker("best", Best::declare);
    let workflow = failing.recorder("note", |_| Note(Notes::default(), true)).build().expect("it fits");
    let (_index, fleet) = fleet::<DEFAULT_POD_WORDS>(3);
    let failed = DecideError::Plugin { plugin: plugin("serve", "note"), source: PluginError::failed("no room") };
    assert_eq!(decide(&workflow.into(), &request(), &fleet), Err(failed));
}
