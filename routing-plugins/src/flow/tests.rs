use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::{BlockSize, Config, Index, Pod};
use proptest::prelude::*;
use routing_core::flow::{FlowConfig, FlowControl, SaturationDetector};
use routing_core::{Fleet, Load, PodInfo, Role};

use super::*;
use crate::load::{LoadGuard, Work, start};
use crate::parameters::{Fraction, Positive};
use crate::{CostModel, ExpectedPrefill, Hashing, PluginState};

struct Scene {
    state: PluginState,
    fleet: Fleet,
    pods: Vec<Pod>,
    now: Instant,
    guards: Vec<LoadGuard>,
}

impl Scene {
    fn new(roles: &[Role]) -> Self {
        let index = Arc::new(<Index>::new(Config::default()));
        let pods: Vec<_> = (0..roles.len()).map(|at| index.join(&format!("pod-{at}")).unwrap()).collect();
        let infos = pods.iter().zip(roles).map(|(&pod, &role)| PodInfo::new(pod, &format!("{pod:?}")).role(role));
        let fleet = Fleet::new(1, infos);
        let state = PluginState::new(index, Hashing::Given(BlockSize::new(16).unwrap()));
        Self { state, fleet, pods, now: start(), guards: Vec::new() }
    }

    fn begin(&mut self, pod: usize, tokens: u64) {
        self.guards.push(self.state.load.begin(self.pods[pod], Work::of(tokens).output(100)));
    }

    fn room(&self, detector: &dyn SaturationDetector, ceiling: f32) -> Vec<bool> {
        self.pods.iter().map(|&pod| detector.has_room(&self.fleet, pod, ceiling, self.now)).collect()
    }
}

fn requests(most: u32) -> NonZeroU32 {
    NonZeroU32::new(most).unwrap()
}

#[test]
fn a_pod_takes_so_many_and_a_lower_band_fewer() {
    let mut scene = Scene::new(&[Role::Both, Role::Both]);
    let limits = ConcurrencyLimits::default().requests(requests(4));
    let detector = ConcurrencyDetector::new(limits, &scene.state);
    (0..2).for_each(|_| scene.begin(0, 10));
    assert_eq!(scene.room(&detector, 1.0), [true, true]);
    assert_eq!(scene.room(&detector, 0.5), [false, true]);
    assert_eq!(scene.room(&detector, 0.01), [false, true], "an idle pod has room for anybody");
    (0..2).for_each(|_| scene.begin(0, 10));
    assert_eq!(scene.room(&detector, 1.0), [false, true]);
    let tokens = ConcurrencyDetector::new(limits.tokens(NonZeroU64::new(500)), &scene.state);
    scene.begin(1, 399);
    assert_eq!(scene.room(&tokens, 1.0), [false, true]);
    assert!(scene.state.load.report(scene.pods[1], Load { running: 9, ..Load::default() }, scene.now));
    assert_eq!(scene.room(&detector, 1.0), [false, false], "requests of other gateways count");
}

#[test]
fn a_pool_is_full_as_a_whole() {
    let mut scene = Scene::new(&[Role::Prefill, Role::Decode, Role::Decode]);
    let detector = PoolDetector::new(PoolLimits::default().requests(Some(requests(2))), &scene.state);
    (0..2).for_each(|_| scene.begin(1, 10));
    assert_eq!(scene.room(&detector, 1.0), [true, false, false]);
    scene.guards.pop();
    assert_eq!(scene.room(&detector, 1.0), [true, true, true]);
    assert_eq!(scene.room(&detector, 0.5), [true, false, false]);
}

#[test]
fn what_engines_report_counts_until_it_is_old() {
    let mut scene = Scene::new(&[Role::Both, Role::Both, Role::Both]);
    let limits = UtilizationLimits::default().kv_used(Fraction::new(0.9).unwrap());
    let detector = UtilizationDetector::new(limits, &scene.state);
    let report = |pod: usize, load| assert!(scene.state.load.report(scene.pods[pod], load, scene.now));
    report(0, Load { waiting: 5, ..Load::default() });
    report(1, Load { kv_used: 0.91, running: 1, ..Load::default() });
    assert_eq!(scene.room(&detector, 1.0), [false, false, true]);
    report(0, Load { waiting: 4, ..Load::default() });
    report(1, Load { kv_used: 0.5, running: 1, ..Load::default() });
    assert_eq!(scene.room(&detector, 1.0), [true, true, true]);
    assert_eq!(scene.room(&detector, 0.5), [false, false, true]);
    report(0, Load { waiting: 50, ..Load::default() });
    scene.now += STALE_AFTER + Duration::from_millis(1);
    assert_eq!(scene.room(&detector, 1.0), [true, true, true]);
}

#[test]
fn a_pod_that_would_begin_soon_has_room() {
    let mut scene = Scene::new(&[Role::Both, Role::Both]);
    let parameters = PredictedWaitParameters::default();
    let detector = PredictedWaitDetector::new(parameters, &scene.state);
    scene.begin(0, 1_000);
    assert_eq!(scene.room(&detector, 1.0), [true, true], "a thousand tokens take some 20 ms");
    scene.begin(0, 60_000);
    assert_eq!(scene.room(&detector, 1.0), [false, true]);
    scene.guards.iter_mut().for_each(LoadGuard::first_token);
    assert_eq!(scene.room(&detector, 1.0), [true, true]);
    let short = PredictedWaitDetector::new(parameters.step(Positive::new(0.006)), &scene.state);
    (0..200).for_each(|_| scene.begin(0, 2_000));
    scene.guards.iter_mut().for_each(LoadGuard::first_token);
    assert_eq!(scene.room(&short, 1.0), [false, true], "steps would take longer than 6 ms");
    assert_eq!(scene.room(&detector, 1.0), [true, true]);
}

/// A pod that turned out to take three times as long has room for a third.
#[test]
fn a_slow_pod_has_less_room() {
    let mut scene = Scene::new(&[Role::Both, Role::Both]);
    let detector = PredictedWaitDetector::new(PredictedWaitParameters::default(), &scene.state);
    (0..2).for_each(|pod| scene.begin(pod, 8_000));
    assert_eq!(scene.room(&detector, 1.0), [true, true]);
    let (mut at, expected) = (scene.now, ExpectedPrefill::new(CostModel::FUSED, 1.0));
    for _ in 0..200 {
        for (pod, took) in [(0, 1.0), (1, 3.0)] {
            scene.state.paces.expect(scene.pods[pod], expected, at);
            let sample = scene.state.paces.sample(scene.pods[pod], at).unwrap();
            scene.state.paces.first_token(sample, Duration::from_secs_f64(took), at);
        }
        at += Duration::from_secs(1);
    }
    assert_eq!(scene.room(&detector, 1.0), [true, false]);
}

proptest! {
    /// Of what is counted, more never makes room. A lower ceiling never does, of what is predicted neither.
    #[test]
    fn more_load_never_makes_room(tokens in prop::collection::vec(1..40_000_u64, 0..40), low in 0.01..1.0_f32) {
        let mut scene = Scene::new(&[Role::Both]);
        let control = FlowControl::new(FlowConfig::default())
            .detector(ConcurrencyDetector::new(ConcurrencyLimits::default().requests(requests(20)), &scene.state))
            .detector(PoolDetector::new(PoolLimits::default().tokens(NonZeroU64::new(500_000)), &scene.state));
        let predicted = PredictedWaitDetector::new(PredictedWaitParameters::default(), &scene.state);
        let mut had = true;
        for tokens in tokens {
            scene.begin(0, tokens);
            let [high, lower] = [1.0, low].map(|ceiling| control.has_room(&scene.fleet, scene.pods[0], ceiling, scene.now));
            prop_assert!(had || !high);
            prop_assert!(high || !lower);
            prop_assert!(scene.room(&predicted, 1.0)[0] || !scene.room(&predicted, low)[0]);
            had = high;
        }
    }
}

#[cfg(feature = "serde")]
#[test]
fn a_document_is_checked_as_a_whole() {
    let read = |text: &str| serde_yaml_ng::from_str::<FlowDocument>(text);
    let state = Scene::new(&[]).state;
    let document = read("bands: [{name: a, min_share: 0.7}, {name: a, min_share: 0.7, ceiling: 2}]").unwrap();
    assert_eq!(document.build(&state).unwrap_err().faults.len(), 4);
    let wrong = read("bands: [{name: a, order: {attained_service: {first_level: 0, aging: 0s}}}]").unwrap();
    assert!(wrong.build(&state).unwrap_err().to_string().contains("band `a`: attained service takes"));
    let detectors = read("{}").unwrap().build(&state).unwrap().detectors;
    assert_eq!(detectors.len(), 2, "predicted wait and engines' reports");
    for (text, told) in [
        ("bands: [{name: a, time_to_live: 10}]", "write `10s`"),
        ("bands: [{name: a, order: arival}]", "unknown order `arival` (did you mean `arrival`?)"),
        ("band: []", "unknown field `band`"),
        ("saturation: {predicted_wait: {within: 0}}", "not above 0"),
        ("saturation: {guess: {}}", "unknown field `guess`"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
}
