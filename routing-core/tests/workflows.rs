//! Several steps over one context: conditions, picks of earlier steps, orders of execution, cache hints, versions.

mod common;

use std::sync::{Arc, Mutex};

use common::{Best, By, Number, PrefixMiss, Put, decide, fleet, pods, request};
use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed, Event, EventSemantics, Index, Parent, PodSet, Stored};
use proptest::prelude::*;
use routing_core::{
    CacheHint, Condition, DEFAULT_POD_WORDS, DecideError, Declare, FailurePolicy, Filter, Fleet, FleetCell, OnEmpty,
    PluginError, PodInfo, PrefixMatches, PrepareContext, Preparer, ProfileBuilder, Read, ReadPick, Role,
    RoutingContext, RoutingInput, RoutingPlan, Scorer, Scores, StepBuilder, Trace, TryReadPick, Workflow,
    WorkflowBuilder, WorkflowCell, Write,
};

fn profile() -> ProfileBuilder {
    ProfileBuilder::new("").picker("best", Best::declare)
}

/// Keeps the pods that do a step's work.
struct Serves(Role);

impl Filter for Serves {
    fn filter(&self, context: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
        Ok(candidates & context.fleet().serving(self.0))
    }
}

fn serving(role: Role) -> ProfileBuilder {
    profile().filter("role", OnEmpty::Fail, move |_: &mut Declare<'_>| Serves(role))
}

/// Keeps away from an earlier step's pod.
struct Apart(ReadPick);

impl Filter for Apart {
    fn filter(&self, context: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
        let taken: PodSet = [context.pick(self.0)?].into_iter().collect();
        Ok(candidates - taken)
    }
}

/// Notes what an earlier step picked, if it was taken.
struct Notes(TryReadPick, Arc<Mutex<Vec<Option<usize>>>>);

impl Scorer for Notes {
    fn score(&self, context: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        self.1.lock().expect("nobody panicked").push(context.try_pick(self.0)?.map(|pod| pod.index()));
        Ok(())
    }
}

/// Holds for odd seeds.
struct Odd;

impl Condition for Odd {
    fn holds(&self, context: &RoutingContext<'_>) -> Result<bool, PluginError> {
        Ok(context.request().seed % 2 == 1)
    }
}

#[test]
fn a_step_that_is_skipped_is_not_in_the_plan_and_has_no_pick() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(1);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let second = profile().scorer("notes", 1.0, |declare: &mut Declare<'_>| Notes(declare.tries_pick("first"), log));
    let workflow = WorkflowBuilder::new()
        .step(StepBuilder::new("first", profile()).when("odd", |_: &mut Declare<'_>| Odd))
        .step(StepBuilder::new("second", second))
        .build()
        .unwrap();
    let names = |plan: &RoutingPlan| plan.steps().iter().map(|step| step.name.to_string()).collect::<Vec<_>>();
    let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
    for (seed, steps) in [(1, vec!["first", "second"]), (2, vec!["second"])] {
        workflow.decide(&mut workspace, RoutingInput::new(&request().seed(seed), &fleet), &mut plan).unwrap();
        assert_eq!(names(&plan), steps);
    }
    assert!(plan.step("first").is_none());
    assert_eq!(*seen.lock().unwrap(), [Some(0), None]);
    let mut trace = Trace::default();
    workflow.decide(&mut workspace, RoutingInput::new(&request(), &fleet).traced(&mut trace), &mut plan).unwrap();
    assert_eq!(trace.steps.iter().map(|step| step.taken).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_step_that_can_be_done_without_is_left_out_where_no_pod_is_left_for_it() {
    let (_index, fleet) = fleet::<DEFAULT_POD_WORDS>(2);
    let workflow = |prefill: FailurePolicy, decode: FailurePolicy| {
        let nobody = || profile().filter("nobody", OnEmpty::Fail, |_: &mut Declare<'_>| Nobody);
        WorkflowBuilder::new()
            .step(StepBuilder::new("prefill", nobody()).on_failure(prefill))
            .step(StepBuilder::new("decode", profile()).on_failure(decode))
            .build()
            .expect("they fit")
    };
    let plan = decide(&workflow(FailurePolicy::Skip, FailurePolicy::Fail), &request(), &fleet).expect("decode is left");
    assert_eq!(plan.steps().iter().map(|step| &*step.name).collect::<Vec<_>>(), ["decode"]);
    let failed = decide(&workflow(FailurePolicy::NextCandidate, FailurePolicy::Skip), &request(), &fleet);
    assert!(matches!(failed, Err(DecideError::AllFiltered { .. })), "it was not to be left out");
    let last = <WorkflowBuilder>::new().step(StepBuilder::new("prefill", profile())).step(
        StepBuilder::new("decode", profile().filter("nobody", OnEmpty::Fail, |_: &mut Declare<'_>| Nobody))
            .on_failure(FailurePolicy::Skip),
    );
    let failed = decide(&last.build().expect("they fit"), &request(), &fleet);
    assert!(matches!(failed, Err(DecideError::AllFiltered { .. })), "without the last step there is no answer");
}

#[test]
fn the_pick_of_a_step_that_may_be_left_out_is_read_optionally() {
    let build = |on_failure| {
        <WorkflowBuilder>::new()
            .step(StepBuilder::new("prefill", profile()).on_failure(on_failure))
            .step(StepBuilder::new(
                "decode",
                profile().scorer("near", 1.0, |d: &mut Declare<'_>| {
                    d.reads_pick("prefill");
                    Indifferent
                }),
            ))
            .build()
    };
    assert!(build(FailurePolicy::NextCandidate).is_ok());
    assert!(build(FailurePolicy::Skip).is_err_and(|error| error.to_string().contains("read it optionally")));
}

struct Nobody;

impl Filter for Nobody {
    fn filter(&self, _: &RoutingContext<'_>, _: PodSet) -> Result<PodSet, PluginError> {
        Ok(PodSet::EMPTY)
    }
}

struct Indifferent;

impl Scorer for Indifferent {
    fn score(&self, _: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

#[test]
fn three_steps_share_one_context_and_are_executed_in_an_order_of_their_own() {
    let index: Index = Index::new(kv_index::Config::default());
    let info = |name: &str, role| PodInfo::new(index.join(name).unwrap(), name).role(role);
    let roles = [Role::Encode, Role::Prefill, Role::Prefill, Role::Both, Role::Decode];
    let fleet: Fleet = Fleet::new(3, roles.into_iter().enumerate().map(|(at, role)| info(&format!("p{at}"), role)));
    let by_number = |_: &mut Declare<'_>| By(|pod| pod as f32 / 10.0);
    let preprocess = serving(Role::Encode).preparer("put", |declare: &mut Declare<'_>| Put(declare.writes(), 1));
    let decode = serving(Role::Decode)
        .filter("apart", OnEmpty::Fail, |declare: &mut Declare<'_>| Apart(declare.reads_pick("prefill")));
    let workflow = |order: &[&str]| {
        let prefill = serving(Role::Prefill).scorer("peek", 1.0, |d: &mut Declare<'_>| Peek(d.reads()));
        WorkflowBuilder::new()
            .step(StepBuilder::new("preprocess", preprocess).role(Role::Encode).independent())
            .step(StepBuilder::new("prefill", prefill.scorer("by", 1.0, by_number)).role(Role::Prefill))
            .step(StepBuilder::new("decode", decode.scorer("by", 1.0, by_number)).role(Role::Decode).ranked(1))
            .executed_in(order)
            .build()
            .unwrap()
    };
    let plan = decide(&workflow(&["prefill", "preprocess", "decode"]), &request(), &fleet).unwrap();
    let steps: Vec<_> = plan.steps().iter().map(|step| (&*step.name, step.role, step.independent)).collect();
    let expected =
        [("prefill", Role::Prefill, false), ("preprocess", Role::Encode, true), ("decode", Role::Decode, false)];
    assert_eq!(steps, expected);
    assert_eq!((pods(&plan, "preprocess"), pods(&plan, "prefill")), (vec![0], vec![3, 2, 1]));
    assert_eq!(pods(&plan, "decode"), [4], "ranked no more than one");
    assert_eq!(plan.fleet(), 3);
}

#[test]
fn a_pod_that_only_encodes_is_offered_to_encode_steps_alone() {
    let index: Index = Index::new(kv_index::Config::default());
    let info = |name: &str, role| PodInfo::new(index.join(name).unwrap(), name).role(role);
    let fleet: Fleet = Fleet::new(1, [info("e", Role::Encode), info("b", Role::Both)]);
    let build = |role| {
        // No filter by role: warned of, and no reason to send an encoder a prompt.
        let step =
            StepBuilder::new("serve", profile().scorer("by", 1.0, |_: &mut Declare<'_>| By(|pod| 1.0 - pod as f32)));
        <WorkflowBuilder>::new().step(step.role(role)).build().unwrap()
    };
    for role in [Role::Both, Role::Prefill, Role::Decode] {
        let workflow = build(role);
        assert_eq!(workflow.roles().collect::<Vec<_>>(), [("serve", role)]);
        assert_eq!(pods(&decide(&workflow, &request(), &fleet).unwrap(), "serve"), [1], "{role:?}");
    }
    assert_eq!(pods(&decide(&build(Role::Encode), &request(), &fleet).unwrap(), "serve")[0], 0);
    let encoders: Fleet = Fleet::new(2, [info("f", Role::Encode)]);
    let none = decide(&build(Role::Both), &request(), &encoders);
    assert!(matches!(none, Err(DecideError::NoneOffered { .. })), "{none:?}");
}

struct Peek(Read<Number>);

impl Scorer for Peek {
    fn score(&self, context: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        assert_eq!(*context.read(self.0)?, 1);
        Ok(())
    }
}

/// Searches the index for the request's tokens.
struct Search {
    index: Arc<Index>,
    held: Write<PrefixMatches>,
}

impl Preparer for Search {
    fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        let tokens = context.request().tokens.unwrap_or_default();
        let (_, held) = context.write(self.held)?;
        self.index.search(&chain(tokens), held);
        Ok(())
    }
}

/// Scores the share of the prompt that a pod holds.
struct HeldShare(Read<PrefixMatches>);

impl Scorer for HeldShare {
    fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        let held = context.read(self.0)?;
        for group in held.groups() {
            scores.set_all(group.pods, group.depth as f32 / held.blocks() as f32);
        }
        Ok(())
    }
}

fn chain(tokens: &[u32]) -> Vec<BlockHash> {
    ChainHasher::new(ChainSeed::new("m"), BlockSize::new(4).expect("not 0")).hash(tokens)
}

/// Decode first, then prefill unless the decode pod lacks fewer than three blocks.
fn decode_then_prefill(index: &Arc<Index>) -> Workflow {
    let index = Arc::clone(index);
    let decode = profile()
        .preparer("search", |declare: &mut Declare<'_>| Search { index, held: declare.writes() })
        .scorer("held", 1.0, |declare: &mut Declare<'_>| HeldShare(declare.reads()));
    let prefill = profile().filter("apart", OnEmpty::Fail, |d: &mut Declare<'_>| Apart(d.reads_pick("decode")));
    WorkflowBuilder::new()
        .step(StepBuilder::new("decode", decode).role(Role::Decode))
        .step(
            StepBuilder::new("prefill", prefill)
                .role(Role::Prefill)
                .when("worth it", |declare: &mut Declare<'_>| PrefixMiss::declare(declare, "decode", 3)),
        )
        .executed_in(&["prefill", "decode"])
        .build()
        .expect("it fits together")
}

#[test]
fn prefill_is_left_out_where_the_decode_pod_holds_enough() {
    let (index, fleet) = fleet::<DEFAULT_POD_WORDS>(3);
    let index = Arc::new(index);
    let tokens: Vec<u32> = (0..32).collect();
    let workflow = decode_then_prefill(&index);
    let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
    let pod = index.pod("pod-1").unwrap();
    for held in 0..=8 {
        let blocks = chain(&tokens);
        let stored = Stored::new(Parent::Root, &blocks[..held]);
        index.apply(pod, EventSemantics::Membership, &Event::Stored(stored)).unwrap();
        workflow.decide(&mut workspace, RoutingInput::new(&request().tokens(&tokens), &fleet), &mut plan).unwrap();
        let names: Vec<_> = plan.steps().iter().map(|step| &*step.name).collect();
        let decode = plan.step("decode").unwrap();
        if held > 0 {
            assert_eq!(decode.candidates[0].pod, pod);
        }
        let CacheHint { held: known, blocks, .. } = decode.cache.expect("the index was searched");
        assert_eq!((known, blocks), (held, 8));
        if held <= 5 {
            assert_eq!(names, ["prefill", "decode"], "{held} of 8 blocks held");
            let prefill = plan.step("prefill").unwrap();
            assert_ne!(prefill.candidates[0].pod, decode.candidates[0].pod);
            let CacheHint { held: known, blocks, .. } = prefill.cache.expect("of its own pod");
            assert_eq!((known, blocks), (0, 8));
        } else {
            assert_eq!(names, ["decode"], "{held} of 8 blocks held");
        }
    }
}

#[test]
fn a_plan_has_no_cache_hint_where_nothing_searches() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(1);
    let plan = decide(&profile().build().unwrap().into(), &request(), &fleet).unwrap();
    assert_eq!(plan.steps()[0].cache, None);
}

/// Publishes another version in the middle of a decision.
struct Publishes(Arc<FleetCell>);

impl Preparer for Publishes {
    fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        self.0.publish(Fleet::new(context.fleet().version() + 1, []));
        Ok(())
    }
}

#[test]
fn a_decision_sees_one_version_of_the_fleet() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(3);
    let cell = Arc::new(FleetCell::new(fleet));
    let publisher = Arc::clone(&cell);
    let workflow = WorkflowBuilder::new()
        .step(StepBuilder::new("one", profile().preparer("publish", |_: &mut Declare<'_>| Publishes(publisher))))
        .step(StepBuilder::new("two", profile()))
        .build()
        .unwrap();
    let plan = cell.with(|fleet| decide(&workflow, &request(), fleet)).unwrap();
    assert_eq!(plan.fleet(), 1);
    assert_eq!((pods(&plan, "one").len(), pods(&plan, "two").len()), (3, 3));
    assert_eq!((cell.load().version(), cell.load().pods().len()), (2, 0), "the next one sees the new version");
}

#[test]
fn a_workflow_is_replaced_whole() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(3);
    let best = |pod: usize| {
        let by = move |_: &mut Declare<'_>| By(move |other| if other == pod { 1.0 } else { 0.0 });
        profile().scorer("by", 1.0, by).build().unwrap()
    };
    let cell = WorkflowCell::new(best(0));
    let (old, mut plan) = (cell.load(), RoutingPlan::default());
    let mut workspace = old.workspace();
    cell.replace(best(2));
    old.decide(&mut workspace, RoutingInput::new(&request(), &fleet), &mut plan).unwrap();
    assert_eq!(plan.steps()[0].candidates[0].pod.id().index(), 0, "what began on the old one ends on it");
    assert_eq!(pods(&decide(&cell.load(), &request(), &fleet).unwrap(), "")[0], 2);
}

proptest! {
    /// Same inputs, same plan: in a warm workspace as in a new one, after other requests as before, traced or not.
    #[test]
    fn the_same_inputs_give_the_same_plan(
        held in prop::collection::vec(0_usize..9, 1..20),
        requests in prop::collection::vec((0_u32..40, any::<u64>()), 1..8),
    ) {
        let (index, fleet) = fleet::<DEFAULT_POD_WORDS>(held.len() + 1);
        let index = Arc::new(index);
        let blocks = chain(&(0..32).collect::<Vec<_>>());
        for (at, held) in held.iter().enumerate() {
            let pod = index.pod(&format!("pod-{at}")).unwrap();
            let stored = Stored::new(Parent::Root, &blocks[..*held]);
            index.apply(pod, EventSemantics::Membership, &Event::Stored(stored)).unwrap();
        }
        let workflow = decode_then_prefill(&index);
        let (mut workspace, mut warm, mut trace) = (workflow.workspace(), RoutingPlan::default(), Trace::default());
        for (tokens, seed) in requests {
            let tokens: Vec<u32> = (0..tokens).collect();
            let request = request().tokens(&tokens).seed(seed);
            let cold = decide(&workflow, &request, &fleet).unwrap();
            workflow.decide(&mut workspace, RoutingInput::new(&request, &fleet), &mut warm).unwrap();
            prop_assert_eq!(&warm, &cold);
            workflow.decide(&mut workspace, RoutingInput::new(&request, &fleet).traced(&mut trace), &mut warm).unwrap();
            prop_assert_eq!(&warm, &cold);
            let again = decide(&decode_then_prefill(&index), &request, &fleet).unwrap();
            prop_assert_eq!(&again, &cold, "another build of the same profile");
        }
    }
}
