//! Ranking: a sort by totals, ties by the seed.

use pointsman_test_support::splitmix64;
use proptest::prelude::*;
use routing_core::{
    DEFAULT_POD_WORDS, Declare, ProfileBuilder, RoutingInput, RoutingPlan, StepBuilder, Trace, WorkflowBuilder,
};

use crate::Push;
use crate::common::{By, fleet, pods, request};

/// Ranks the best of a row, in a workflow whose one scorer gives that row.
fn ranked(row: &[f32], most: usize, seed: u64, traced: bool) -> RoutingPlan {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(row.len());
    let row = row.to_vec();
    let profile = ProfileBuilder::new("s")
        .scorer("row", 1.0, |_: &mut Declare<'_>| By(move |pod| row[pod]))
        .picker("rank", move |_: &mut Declare<'_>| Push(&[], most));
    let workflow = WorkflowBuilder::new()
        .step(StepBuilder::new("s", profile).ranked(usize::MAX))
        .build()
        .expect("it fits together");
    let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
    let request = request().seed(seed);
    let decided = if traced {
        workflow.decide(&mut workspace, RoutingInput::new(&request, &fleet).traced(&mut Trace::default()), &mut plan)
    } else {
        workflow.decide(&mut workspace, RoutingInput::new(&request, &fleet), &mut plan)
    };
    decided.expect("a plan");
    plan
}

/// What breaks ties in a workflow's first step, written out.
fn tie(seed: u64, pod: usize) -> u64 {
    splitmix64(splitmix64(seed) ^ (pod as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

proptest! {
    /// The ranking is a literal sort, cut off; once more, or traced, it comes out the same.
    #[test]
    fn ranking_is_a_sort(
        row in prop::collection::vec(prop_oneof![Just(0.0_f32), Just(0.5), Just(1.0), 0.0_f32..1.0], 1..100),
        most in 1_usize..120,
        seed: u64,
    ) {
        let plan = ranked(&row, most, seed, false);
        let mut sorted: Vec<usize> = (0..row.len()).collect();
        sorted.sort_by(|a, b| (row[*b], tie(seed, *b)).partial_cmp(&(row[*a], tie(seed, *a))).unwrap());
        sorted.truncate(most);
        prop_assert_eq!(pods(&plan, "s"), sorted);
        prop_assert_eq!(&ranked(&row, most, seed, false), &plan);
        prop_assert_eq!(&ranked(&row, most, seed, true), &plan);
    }
}

/// Ranking after what was pushed, as many as there are.
#[test]
fn a_picker_may_ask_for_all_of_them_and_what_it_pushes_has_its_total() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(5);
    let profile = ProfileBuilder::new("s")
        .scorer("row", 1.0, |_: &mut Declare<'_>| By(|pod| pod as f32 / 10.0))
        .picker("push", |_: &mut Declare<'_>| Push(&[2], usize::MAX));
    let step = StepBuilder::new("s", profile).ranked(usize::MAX);
    let workflow = <WorkflowBuilder>::new().step(step).build().expect("it fits together");
    let mut plan = RoutingPlan::default();
    workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request(), &fleet), &mut plan).expect("a plan");
    assert_eq!(pods(&plan, "s"), [2, 4, 3, 1, 0]);
    assert_eq!(plan.steps()[0].candidates[0].score, 0.2);
}

/// Equal shares that do not add up to 1 in singles.
#[test]
fn totals_never_exceed_1() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(2);
    for scorers in 1..40 {
        let mut profile = ProfileBuilder::new("s").picker("push", |_: &mut Declare<'_>| Push(&[], 2));
        for at in 0..scorers {
            profile = profile.scorer(&format!("one-{at}"), 1.0, |_: &mut Declare<'_>| By(|_| 1.0));
        }
        let workflow = profile.build().expect("it fits together");
        let mut plan = RoutingPlan::default();
        workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request(), &fleet), &mut plan).expect("a plan");
        let total = plan.steps()[0].candidates[0].score;
        assert!(total <= 1.0 && total > 0.9999, "{total} of {scorers}");
    }
}
