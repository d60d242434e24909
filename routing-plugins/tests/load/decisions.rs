//! What plugins make of loads: old reports, bursts between two snapshots, odd figures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::{BlockSize, Config, Index};
use routing_core::{
    Declare, Fleet, Load, OnEmpty, PodInfo, ProfileBuilder, Request, RoutingInput, RoutingPlan, Selector, Trace,
};
use routing_plugins::extra::{UtilizationFilter, UtilizationParameters};
use routing_plugins::filter::Unreported;
use routing_plugins::load::Work;
use routing_plugins::pick::MaxScorePicker;
use routing_plugins::prepare::{LoadParameters, LoadPreparer};
use routing_plugins::score::{KvUtilizationScorer, LeastLoadParameters, LeastLoadScorer, LoadFigure};
use routing_plugins::{Hashing, PluginState, profiles};

const BUSY: Load = Load { running: 50, waiting: 100, tokens: 1_000_000, kv_used: 0.99 };
const CALM: Load = Load { running: 1, waiting: 0, tokens: 100, kv_used: 0.1 };

fn state() -> PluginState {
    let size = BlockSize::new(16).expect("not zero");
    PluginState::new(Arc::new(Index::new(Config::default())), Hashing::Native(size))
}

fn fleet(state: &PluginState, loads: &[Load]) -> Fleet {
    let pod = |(at, load): (usize, &Load)| {
        let name = format!("pod-{at}");
        PodInfo::new(state.index.join(&name).expect("room"), &name).load(*load)
    };
    Fleet::new(1, loads.iter().enumerate().map(pod).collect::<Vec<_>>())
}

#[expect(clippy::disallowed_methods, reason = "some instant to count from; which one does not matter")]
fn start() -> Instant {
    Instant::now()
}

/// Pod 0 told this 11 seconds ago and fell silent; pod 1 says now that it is calm.
fn silent(told: Load) -> (PluginState, Fleet, Instant) {
    let state = state();
    let fleet = fleet(&state, &[Load::default(); 2]);
    let pods: Vec<_> = fleet.pods().iter().map(|id| fleet.pod(id).expect("a pod").pod).collect();
    let then = start();
    let now = then + Duration::from_secs(11);
    assert!(state.load.report(pods[0], told, then) && state.load.report(pods[1], CALM, now));
    (state, fleet, now)
}

fn profile(state: &PluginState) -> ProfileBuilder {
    let load = Arc::clone(&state.load);
    ProfileBuilder::new("serve")
        .preparer("loads", |d: &mut Declare<'_>| LoadPreparer::declare(d, LoadParameters::default(), load))
        .picker("best", |d: &mut Declare<'_>| MaxScorePicker::declare(d, Default::default()))
}

/// The pods in the order of their ranks, and what the first scorer gave, by pod.
fn decide(selector: &Selector, fleet: &Fleet, now: Instant, seed: u64) -> (Vec<usize>, Vec<f32>) {
    let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
    let request = Request::new("m", now).seed(seed);
    selector
        .decide(&mut selector.workspace(), RoutingInput::new(&request, fleet).traced(&mut trace), &mut plan)
        .expect("a plan");
    let ranked = plan.steps()[0].candidates.iter().map(|candidate| candidate.pod.id().index()).collect();
    let scores = trace.steps[0].scorers.first().map(|scorer| scorer.scores.iter().map(|(_, score)| *score).collect());
    (ranked, scores.unwrap_or_default())
}

#[test]
fn a_pod_whose_report_is_too_old_goes_where_reports_are_asked_for() {
    let (state, fleet, now) = silent(CALM);
    let parameters = UtilizationParameters::default().unreported(Unreported::Remove);
    let full = move |d: &mut Declare<'_>| UtilizationFilter::declare(d, parameters);
    let selector = profile(&state).filter("full", OnEmpty::Fail, full).build().expect("a selector");
    assert_eq!(decide(&selector, &fleet, now, 0).0, [1]);
}

#[test]
fn a_pod_whose_report_is_too_old_gets_0_where_reports_are_asked_for() {
    let (state, fleet, now) = silent(CALM);
    let parameters = LeastLoadParameters::default().by(LoadFigure::Waiting).only_reported(true);
    let load = move |d: &mut Declare<'_>| <LeastLoadScorer>::declare(d, parameters);
    let selector = profile(&state).scorer("load", 1.0, load).build().expect("a selector");
    assert_eq!(decide(&selector, &fleet, now, 0).1, [0.0, 1.0]);
}

#[test]
fn a_busy_pod_that_fell_silent_is_not_flocked_to() {
    let (state, fleet, now) = silent(BUSY);
    let selector = profiles::least_load(&state).build().expect("a selector");
    assert_eq!(decide(&selector, &fleet, now, 0).0, [1, 0]);
    let selector = profile(&state).scorer("kv", 1.0, KvUtilizationScorer::declare).build().expect("a selector");
    assert_eq!(decide(&selector, &fleet, now, 0).0, [1, 0]);
}

#[test]
fn a_burst_between_two_snapshots_of_a_fleet_is_spread() {
    let state = state();
    let selector = profiles::least_load(&state).build().expect("a selector");
    let running = |running| Load { running, ..Load::default() };
    let fleet = fleet(&state, &[running(50), running(51)]);
    let (mut sent, mut guards) = ([0; 2], Vec::new());
    for seed in 0..41 {
        let first = decide(&selector, &fleet, start(), seed).0[0];
        sent[first] += 1;
        let pod = fleet.pods().iter().nth(first).and_then(|id| fleet.pod(id)).expect("a pod").pod;
        guards.push(state.load.begin(pod, Work::of(10)));
    }
    assert_eq!(sent, [21, 20], "as many as make 71 on both");
}

#[test]
fn a_kv_use_that_is_not_a_number_counts_as_full() {
    let state = state();
    let fleet = fleet(&state, &[Load { kv_used: f32::NAN, ..CALM }, CALM]);
    let selector = profile(&state).scorer("kv", 1.0, KvUtilizationScorer::declare).build().expect("a selector");
    assert_eq!(decide(&selector, &fleet, start(), 0).1, [0.0, 0.9]);
}
