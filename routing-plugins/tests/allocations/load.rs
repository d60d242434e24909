//! A warm decision with loads allocates nothing, and neither do guards and reports.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::{Config, Index};
use pointsman_test_support::alloc::allocations;
use routing_core::{
    Declare, Fleet, Load, Picker, PluginError, PodInfo, ProfileBuilder, Ranking, Request, RoutingContext, RoutingInput,
    RoutingPlan, Totals,
};
use routing_plugins::load::{LoadTracker, Work};
use routing_plugins::prepare::{LoadParameters, LoadPreparer};

struct First;

impl Picker for First {
    fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        totals.rank(1, ranking);
        Ok(())
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "some instant to count from; which one does not matter")]
fn a_warm_decision_allocates_nothing() {
    let tracker = Arc::new(LoadTracker::default());
    let counting = Arc::clone(&tracker);
    let workflow = <ProfileBuilder>::new("serve")
        .preparer("loads", move |declare: &mut Declare<'_>| {
            LoadPreparer::declare(declare, LoadParameters::default(), Arc::clone(&counting))
        })
        .picker("first", |_: &mut Declare<'_>| First)
        .build()
        .expect("it fits together");
    let index: Index = Index::new(Config::default());
    let pods: Vec<_> = (0..256).map(|at| index.join(&format!("pod-{at}")).expect("room")).collect();
    let fleet = |size: usize| Fleet::new(size as u64, pods[..size].iter().map(|&pod| PodInfo::new(pod, "pod")));
    let (small, large) = (fleet(64), fleet(256));
    let start = Instant::now();
    let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
    let mut decide = |fleet: &Fleet, seed: u64| {
        let now = start + Duration::from_millis(seed);
        let request = Request::new("m", now).seed(seed);
        workflow.decide(&mut workspace, RoutingInput::new(&request, fleet), &mut plan).expect("a plan");
        let mut guard = tracker.begin(plan.steps()[0].candidates[0].pod, Work::of(seed));
        tracker.report(guard.pod(), Load { running: 2, ..Load::default() }, now);
        guard.generated(seed);
    };
    assert_ne!(allocations(|| decide(&small, 0)), 0, "cold");
    assert_eq!(allocations(|| (1..100).for_each(|seed| decide(&small, seed))), 0);
    assert_eq!(allocations(|| decide(&large, 100)), 0, "the first on a larger fleet");
    assert_eq!(allocations(|| (101..200).for_each(|seed| decide(&large, seed))), 0);
}
