//! One step's decision: who is filtered, how scores count, who is picked, and which errors name whom.

mod catching;
#[path = "../common/mod.rs"]
mod common;
mod handles;
mod ranking;

use std::sync::{Arc, Mutex};

use common::{Best, By, Keep, Number, decide, fleet, plugin, pods, request};
use kv_index::{PodId, PodSet};
use routing_core::{
    DEFAULT_POD_WORDS, DecideError, Declare, Filter, OnEmpty, Picker, PluginError, PrepareContext, Preparer,
    ProfileBuilder, Ranking, Read, RoutingContext, RoutingInput, RoutingPlan, Scorer, Scores, Slot, StepBuilder,
    Totals, Trace, Workflow, WorkflowBuilder, Write,
};

fn profile<const W: usize>() -> ProfileBuilder<W> {
    ProfileBuilder::new("s").picker("best", Best::declare)
}

fn only<const W: usize>(pods: &[u16]) -> PodSet<W> {
    pods.iter().map(|pod| PodId::new(*pod)).collect()
}

/// The first three by a scorer.
fn scored(score: impl Fn(usize) -> f32 + Send + Sync + 'static) -> Workflow {
    profile().scorer("by", 1.0, |_: &mut Declare<'_>| By(score)).build().expect("it fits together").into()
}

#[test]
fn the_filter_that_removed_the_last_is_named() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(5);
    let workflow = profile()
        .filter("some", OnEmpty::Fail, |_: &mut Declare<'_>| Keep(|_| only(&[1, 2])))
        .filter("rest", OnEmpty::Fail, |_: &mut Declare<'_>| Keep(|_| only(&[3])))
        .filter("late", OnEmpty::Fail, |_: &mut Declare<'_>| Keep(|_| PodSet::EMPTY))
        .build();
    let error = decide::<DEFAULT_POD_WORDS>(&workflow.unwrap().into(), &request(), &fleet).unwrap_err();
    assert_eq!(error, DecideError::AllFiltered { offered: 5, filter: plugin("s", "rest") });
    assert_eq!(error.to_string(), "none of 5 pods is left for step `s`: filter `rest` removed the last");
}

#[test]
fn a_filter_whose_wish_cannot_be_had_is_passed_over() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(5);
    let workflow = profile()
        .filter("some", OnEmpty::Fail, |_: &mut Declare<'_>| Keep(|_| only(&[1, 2])))
        .filter("wish", OnEmpty::KeepPrevious, |_: &mut Declare<'_>| Keep(|_| only(&[3])))
        .scorer("by", 1.0, |_: &mut Declare<'_>| By(|pod| pod as f32 / 10.0));
    let plan = decide(&workflow.build().unwrap().into(), &request(), &fleet).unwrap();
    assert_eq!(pods(&plan, "s"), [2, 1]);
}

/// Wants nobody gone, and some tried last.
struct Last(&'static [u16]);

impl Filter for Last {
    fn filter(&self, _: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
        Ok(candidates)
    }

    fn last_resort(&self, _: &RoutingContext<'_>, _: PodSet) -> Option<PodSet> {
        Some(only(self.0))
    }
}

#[test]
fn what_is_a_last_resort_is_ranked_behind_all_others_and_picked_where_there_are_none() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(4);
    // Three are picked at most.
    for (last, expected) in
        [(&[1, 3][..], &[2, 0, 3, 1][..]), (&[3, 200], &[2, 1, 0, 3]), (&[0, 1, 2, 3], &[3, 2, 1]), (&[], &[3, 2, 1])]
    {
        let profile = profile()
            .filter("last", OnEmpty::Fail, move |_: &mut Declare<'_>| Last(last))
            .filter("none", OnEmpty::Fail, |_: &mut Declare<'_>| Last(&[]))
            .scorer("by", 1.0, |_: &mut Declare<'_>| By(|pod| pod as f32 / 10.0));
        let workflow = WorkflowBuilder::new().step(StepBuilder::new("s", profile).ranked(5)).build().unwrap();
        assert_eq!(pods(&decide(&workflow, &request(), &fleet).unwrap(), "s"), expected, "{last:?}");
    }
}

/// A later filter that narrows to one pod does not choose one that is tried last, unless nobody else would do.
#[test]
fn what_is_tried_last_is_narrowed_by_itself() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(4);
    for (on_empty, keeps, expected) in [
        (OnEmpty::KeepPrevious, &[1][..], &[3, 2, 0, 1][..]),
        (OnEmpty::KeepPrevious, &[0, 1], &[0, 1]),
        (OnEmpty::KeepPrevious, &[0], &[0, 1]),
        (OnEmpty::Fail, &[1], &[1]),
        (OnEmpty::Fail, &[0, 1], &[0, 1]),
        (OnEmpty::Fail, &[0], &[0]),
    ] {
        let profile = profile()
            // Boxed, as plugins of documents are.
            .filter("last", OnEmpty::Fail, |_: &mut Declare<'_>| Box::new(Last(&[1])) as Box<dyn Filter>)
            .filter("narrow", on_empty, move |_: &mut Declare<'_>| Keep(move |_| only(keeps)))
            .scorer("by", 1.0, |_: &mut Declare<'_>| By(|pod| pod as f32 / 10.0));
        let workflow = WorkflowBuilder::new().step(StepBuilder::new("s", profile).ranked(5)).build().unwrap();
        assert_eq!(pods(&decide(&workflow, &request(), &fleet).unwrap(), "s"), expected, "{on_empty:?} {keeps:?}");
    }
}

#[test]
fn filters_cannot_add_pods() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(5);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let workflow = profile()
        .filter("two", OnEmpty::Fail, |_: &mut Declare<'_>| Keep(|_| only(&[0, 2, 200])))
        .filter("all", OnEmpty::Fail, move |_: &mut Declare<'_>| {
            Keep(move |candidates| {
                log.lock().unwrap().push(candidates);
                PodSet::from_words([u64::MAX; DEFAULT_POD_WORDS])
            })
        })
        .build();
    let mut plan = pods(&decide(&workflow.unwrap().into(), &request(), &fleet).unwrap(), "s");
    plan.sort_unstable();
    assert_eq!(plan, [0, 2]);
    assert_eq!(*seen.lock().unwrap(), [only::<DEFAULT_POD_WORDS>(&[0, 2])]);
}

#[test]
fn no_pod_is_offered_by_an_empty_fleet_or_where_all_are_excluded() {
    let (workflow, (_, empty), (_, fleet)) =
        (scored(|_| 0.0), fleet::<DEFAULT_POD_WORDS>(0), fleet::<DEFAULT_POD_WORDS>(2));
    let none = DecideError::NoneOffered { step: "s".into() };
    assert_eq!(decide(&workflow, &request(), &empty).unwrap_err(), none);
    let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
    let excluded =
        workflow.decide(&mut workspace, RoutingInput::new(&request(), &fleet).excluding(fleet.pods()), &mut plan);
    assert_eq!(excluded, Err(none));
}

#[test]
fn excluded_pods_are_not_in_the_plan() {
    let (workflow, (_, fleet)) = (scored(|pod| pod as f32 / 10.0), fleet::<DEFAULT_POD_WORDS>(5));
    let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
    workflow.decide(&mut workspace, RoutingInput::new(&request(), &fleet).excluding(only(&[4, 2])), &mut plan).unwrap();
    assert_eq!(pods(&plan, "s"), [3, 1, 0]);
}

#[test]
fn a_selector_decides_alone_as_it_does_as_a_workflow() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(5);
    let scored = || profile().scorer("by", 1.0, |_: &mut Declare<'_>| By(|pod| pod as f32 / 10.0)).build().unwrap();
    let (selector, request) = (scored(), request());
    let mut plan = RoutingPlan::default();
    selector.decide(&mut selector.workspace(), RoutingInput::new(&request, &fleet), &mut plan).unwrap();
    let workflow = Workflow::from(scored());
    assert_eq!(plan, decide(&workflow, &request, &fleet).unwrap());
    assert_eq!((selector.name(), selector.warnings()), ("s", workflow.warnings()));
    assert!(workflow.steps().eq(["s"]));
    let foreign = selector.decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet), &mut plan);
    assert_eq!(foreign, Err(DecideError::ForeignWorkspace));
}

#[test]
fn a_traced_decision_honours_exclusions() {
    let (workflow, (_, fleet)) = (scored(|pod| pod as f32 / 10.0), fleet::<DEFAULT_POD_WORDS>(5));
    let (excluded, request) = (only(&[4, 2]), request());
    let (mut trace, mut traced, mut plain) = (Trace::default(), RoutingPlan::default(), RoutingPlan::default());
    let input = || RoutingInput::new(&request, &fleet);
    let mut workspace = workflow.workspace();
    workflow.decide(&mut workspace, input().excluding(excluded), &mut plain).unwrap();
    workflow.decide(&mut workspace, input().traced(&mut trace).excluding(excluded), &mut traced).unwrap();
    assert_eq!((pods(&traced, "s"), &traced), (vec![3, 1, 0], &plain));
    assert_eq!(trace.steps[0].offered, fleet.pods() - excluded);
}

#[test]
fn scores_are_brought_into_zero_to_one() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(4);
    let workflow = scored(|pod| [-7.0, 0.5, 40.0, f32::NEG_INFINITY][pod]);
    let plan = decide(&workflow, &request(), &fleet).unwrap();
    let step = plan.step("s").unwrap();
    assert_eq!(step.candidates.iter().map(|candidate| candidate.score).collect::<Vec<_>>(), [1.0, 0.5, 0.0]);
    assert_eq!(pods(&plan, "s")[..2], [2, 1]);
}

#[test]
fn what_is_not_a_number_names_scorer_and_pod() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(4);
    let workflow = scored(|pod| if pod == 2 { f32::NAN } else { 1.0 });
    let error = decide(&workflow, &request(), &fleet).unwrap_err();
    assert_eq!(error, DecideError::NotANumber { scorer: plugin("s", "by"), pod: PodId::new(2) });
    assert_eq!(error.to_string(), "scorer `s/by` gave pod 2 a score that is not a number");
}

/// Scores every pod there could be, candidate or not.
struct Everyone(f32);

impl Scorer for Everyone {
    fn score(&self, _: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        (0..300).for_each(|pod| scores.set(PodId::new(pod), self.0));
        scores.fill(|pod| pod.index() as f32 / 10.0);
        Ok(())
    }
}

#[test]
fn pods_that_are_no_candidates_may_be_given_anything() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(4);
    for odd in [f32::NAN, f32::INFINITY] {
        let workflow = profile().scorer("all", 1.0, move |_: &mut Declare<'_>| Everyone(odd)).build().unwrap();
        assert_eq!(pods(&decide(&workflow.into(), &request(), &fleet).unwrap(), "s"), [3, 2, 1]);
    }
}

#[test]
fn weights_count_by_their_share() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(2);
    for weights in [[3.0, 1.0], [3e38, 1e38], [3e-46, 1e-46], [3e-320, 1e-320]] {
        let workflow = profile()
            .scorer("zero", weights[0], |_: &mut Declare<'_>| By(|pod| [1.0, 0.0][pod]))
            .scorer("one", weights[1], |_: &mut Declare<'_>| By(|pod| [0.0, 1.0][pod]))
            .build()
            .unwrap();
        let plan = decide(&workflow.into(), &request(), &fleet).unwrap();
        let scores: Vec<_> = plan.steps()[0].candidates.iter().map(|candidate| candidate.score).collect();
        assert!((scores[0] - 0.75).abs() < 1e-3 && (scores[1] - 0.25).abs() < 1e-3, "{weights:?}: {scores:?}");
        assert_eq!(pods(&plan, "s"), [0, 1], "{weights:?}");
    }
}

#[test]
fn ties_are_spread_over_seeds_and_each_seed_decides_alike() {
    let (workflow, (_, fleet)) = (scored(|_| 0.5), fleet::<DEFAULT_POD_WORDS>(8));
    let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
    let mut first = |seed| {
        workflow.decide(&mut workspace, RoutingInput::new(&request().seed(seed), &fleet), &mut plan).unwrap();
        pods(&plan, "s")[0]
    };
    let mut counts = [0_u32; 8];
    for seed in 0..8_000 {
        let pod = first(seed);
        assert_eq!(pod, first(seed), "seed {seed}");
        counts[pod] += 1;
    }
    // Chi-square with seven degrees of freedom: 24.3 is passed by chance once in a thousand.
    let chi: f64 = counts.iter().map(|count| (f64::from(*count) - 1_000.0).powi(2) / 1_000.0).sum();
    assert!(chi < 24.3, "{counts:?}");
}

/// Pushes what a function says, then lets the totals rank.
struct Push(&'static [u16], usize);

impl Picker for Push {
    fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        for pod in self.0 {
            ranking.push(PodId::new(*pod));
        }
        totals.rank(self.1, ranking);
        Ok(())
    }
}

#[test]
fn pods_that_are_no_candidates_are_not_picked() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(3);
    let pick = |picks, most| {
        let profile = ProfileBuilder::new("s").picker("odd", move |_: &mut Declare<'_>| Push(picks, most));
        let profile = profile.scorer("by", 1.0, |_: &mut Declare<'_>| By(|pod| pod as f32 / 10.0));
        decide(&profile.build().unwrap().into(), &request(), &fleet).map(|plan| pods(&plan, "s"))
    };
    assert_eq!(pick(&[9, 1, 1, 999, 0], 0).unwrap(), [1, 0]);
    let none = DecideError::NothingPicked { picker: plugin("s", "odd"), candidates: 3 };
    assert_eq!(pick(&[9, 999], 0), Err(none.clone()));
    assert_eq!(none.to_string(), "picker `s/odd` picked none of 3 candidates");
    assert_eq!(pick(&[1], 3).unwrap(), [1, 2, 0], "nobody is ranked twice");
}

/// Declares to write, and does not.
struct Forgets;

impl Preparer for Forgets {
    fn prepare(&self, _: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

#[test]
fn a_declared_write_that_did_not_happen_is_named() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(1);
    let forgets = |declare: &mut Declare<'_>| {
        declare.writes::<Number>();
        Forgets
    };
    let workflow = profile().preparer("forgets", forgets).build().unwrap();
    let error = decide(&workflow.into(), &request(), &fleet).unwrap_err();
    assert_eq!(error, DecideError::Unwritten { plugin: plugin("s", "forgets"), slot: "number" });
    assert_eq!(error.to_string(), "plugin `s/forgets` declared to write slot `number` and did not");
}

#[test]
fn a_workspace_of_another_workflow_is_refused() {
    let (one, two, (_, fleet)) = (scored(|_| 0.0), scored(|_| 0.0), fleet::<DEFAULT_POD_WORDS>(1));
    let decided = one.decide(&mut two.workspace(), RoutingInput::new(&request(), &fleet), &mut RoutingPlan::default());
    assert_eq!(decided, Err(DecideError::ForeignWorkspace));
}

/// The same on fleets of every width.
fn widest<const W: usize>() {
    let (_, fleet) = fleet::<W>(W * 64);
    let last = W * 64 - 1;
    let workflow = profile::<W>()
        .filter("odd", OnEmpty::Fail, |_: &mut Declare<'_>| {
            Keep(|pods: PodSet<W>| pods.iter().filter(|pod| pod.index() % 2 == 1).collect())
        })
        .scorer("by", 1.0, move |_: &mut Declare<'_>| By(move |pod| pod as f32 / last as f32));
    let plan = decide(&workflow.build().expect("it fits together").into(), &request(), &fleet).expect("a plan");
    assert_eq!(pods(&plan, "s"), [last, last - 2, last - 4]);
}

#[test]
fn fleets_of_64_256_and_1024_pods_are_decided_alike() {
    widest::<1>();
    widest::<4>();
    widest::<16>();
}

/// A preparer that writes nothing where it should leaves nothing of the last request.
#[test]
fn nothing_of_an_earlier_request_shows() {
    struct Tenant;
    impl Slot for Tenant {
        type Value = String;
        const NAME: &'static str = "tenant";
        fn clear(value: &mut String) {
            value.clear();
        }
    }
    struct Note(Write<Tenant>);
    impl Preparer for Note {
        fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
            let tenant = context.request().tenant;
            let (_, slot) = context.write(self.0)?;
            tenant.into_iter().for_each(|tenant| slot.push_str(tenant));
            Ok(())
        }
    }
    struct Refuse(Read<Tenant>);
    impl Filter for Refuse {
        fn filter(&self, context: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
            Ok(if context.read(self.0)?.is_empty() { candidates } else { PodSet::EMPTY })
        }
    }
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(2);
    let workflow = ProfileBuilder::new("s")
        .preparer("note", |d: &mut Declare<'_>| Note(d.writes()))
        .filter("refuse", OnEmpty::Fail, |d: &mut Declare<'_>| Refuse(d.reads()))
        .picker("push", |_: &mut Declare<'_>| Push(&[], 2))
        .build()
        .expect("it fits together");
    let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
    assert!(workflow.decide(&mut workspace, RoutingInput::new(&request().tenant("acme"), &fleet), &mut plan).is_err());
    assert!(plan.steps().is_empty(), "half a plan is none");
    assert_eq!(workflow.decide(&mut workspace, RoutingInput::new(&request(), &fleet), &mut plan), Ok(()));
}
