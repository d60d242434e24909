//! A warm decision allocates nothing: one step or two, conditions, slots, and the fleet replaced in between.

mod common;

use common::{Best, By, Keep, Number, Put, fleet, request};
use kv_index::PodSet;
use pointsman_test_support::alloc::{CountingAllocator, allocations};
use routing_core::{
    Condition, DEFAULT_POD_WORDS, Declare, FleetCell, OnEmpty, PluginError, ProfileBuilder, Read, RoutingContext,
    RoutingInput, RoutingPlan, StepBuilder, Trace, Workflow, WorkflowBuilder,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// Holds for odd numbers.
struct Odd(Read<Number>);

impl Condition for Odd {
    fn holds(&self, context: &RoutingContext<'_>) -> Result<bool, PluginError> {
        Ok(context.read(self.0)? % 2 == 1)
    }
}

fn profile() -> ProfileBuilder {
    ProfileBuilder::new("s")
        .filter("even", OnEmpty::Fail, |_: &mut Declare<'_>| {
            Keep(|pods: PodSet| pods.iter().filter(|pod| pod.index() % 2 == 0).collect())
        })
        .scorer("up", 2.0, |_: &mut Declare<'_>| By(|pod| pod as f32 / 256.0))
        .scorer("down", 1.0, |_: &mut Declare<'_>| By(|pod| 1.0 - pod as f32 / 256.0))
        .scorer("same", 1.0, |_: &mut Declare<'_>| By(|_| 0.5))
        .picker("best", Best::declare)
}

fn two_steps() -> Workflow {
    let first = profile().preparer("put", |declare: &mut Declare<'_>| Put(declare.writes(), 1));
    WorkflowBuilder::new()
        .step(StepBuilder::new("decode", first))
        .step(StepBuilder::new("prefill", profile()).when("odd", |declare: &mut Declare<'_>| Odd(declare.reads())))
        .executed_in(&["prefill", "decode"])
        .build()
        .expect("it fits together")
}

#[test]
fn a_warm_decision_allocates_nothing() {
    let workflows = [("one step", profile().build().expect("it fits together").into()), ("two steps", two_steps())];
    for (name, workflow) in workflows {
        let cell = FleetCell::new(fleet::<DEFAULT_POD_WORDS>(64).1);
        let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
        let mut decide = |seed| {
            cell.with(|fleet| {
                workflow.decide(&mut workspace, RoutingInput::new(&request().seed(seed), fleet), &mut plan)
            })
            .unwrap();
        };
        (0..3).for_each(&mut decide);
        assert_eq!(allocations(|| (3..100).for_each(&mut decide)), 0, "{name}");
        cell.publish(fleet::<DEFAULT_POD_WORDS>(256).1);
        assert_eq!(allocations(|| decide(100)), 0, "{name}, the first on a new version");
        assert_eq!(allocations(|| (101..200).for_each(&mut decide)), 0, "{name}, on a new version");
        assert!(plan.steps().iter().all(|step| step.candidates.len() == 3), "it did something");
    }
}

#[test]
fn the_counter_counts() {
    let (workflow, (_, fleet)) = (two_steps(), fleet::<DEFAULT_POD_WORDS>(64));
    let (mut workspace, mut plan, mut trace) = (workflow.workspace(), RoutingPlan::default(), Trace::default());
    let mut traced = || {
        workflow.decide(&mut workspace, RoutingInput::new(&request(), &fleet).traced(&mut trace), &mut plan).unwrap()
    };
    assert_ne!(allocations(&mut traced), 0, "cold");
    assert_ne!(allocations(&mut traced), 0, "a trace is made anew");
}
