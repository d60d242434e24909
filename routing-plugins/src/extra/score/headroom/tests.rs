use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::extra::Prediction;
use crate::load::PodLoad;
use crate::score::testing::{BLOCK, Given, Scene, any_load};

fn ms(number: f64) -> Option<Positive> {
    Positive::new(number)
}

/// 100 ms to the first token and 10 for each further one.
fn both() -> HeadroomParameters {
    HeadroomParameters { ttft_target_ms: ms(100.0), tpot_target_ms: ms(10.0), ..HeadroomParameters::default() }
}

fn predicted(ttft: u64, tpot: u64) -> Option<Prediction> {
    Some(Prediction { ttft: Some(Duration::from_millis(ttft)), tpot: Some(Duration::from_millis(tpot)) })
}

fn scores_of(
    scene: &Scene,
    request: &Request<'_>,
    parameters: HeadroomParameters,
    predictions: Vec<Option<Prediction>>,
) -> Vec<f32> {
    let make = move || {
        let mut table = PredictionTable::default();
        for (at, prediction) in predictions.iter().enumerate() {
            if let Some(prediction) = prediction {
                table.set(PodId::new(at as u16), *prediction);
            }
        }
        table
    };
    let profile = scene
        .profile()
        .preparer("predict", move |d: &mut Declare<'_>| Given::<Predictions, _>::declare(d, make))
        .scorer("headroom", 1.0, move |d: &mut Declare<'_>| HeadroomScorer::declare(d, parameters));
    scene.scores_of(request, profile)
}

/// Scores on pods that all have something in flight.
fn scores(parameters: HeadroomParameters, predictions: &[Option<Prediction>]) -> Vec<f32> {
    let scene = busy(predictions.len(), &[]);
    scores_of(&scene, &scene.request(), parameters, predictions.to_vec())
}

fn busy(pods: usize, idle: &[usize]) -> Scene {
    Scene::new(pods).loads(|at| {
        let mut load = PodLoad::default();
        load.in_flight.requests = u32::from(!idle.contains(&at));
        load
    })
}

#[test]
fn of_those_that_meet_targets_the_preferred_come_first_and_others_get_0() {
    let predictions = [predicted(90, 8), predicted(50, 0), predicted(70, 4), predicted(101, 0)];
    // Headrooms 10, 50 and 30, and 2, 10 and 6.
    assert_eq!(scores(both(), &predictions), [1.0, 0.01, 0.51, 0.0]);
    let most = HeadroomParameters { prefer: PreferredHeadroom::Most, ..both() };
    assert_eq!(scores(most, &predictions), [0.01, 1.0, 0.51, 0.0]);
}

#[test]
fn weights_count_in_proportion_and_an_axis_without_a_difference_not_at_all() {
    // Normalised 0 and 1 on the one, 1 and 0 on the other axis.
    let crossed = [predicted(90, 0), predicted(50, 8)];
    // 100 · (1 − 0.8) is a little less than 20, and rounded down.
    assert_eq!(scores(both(), &crossed), [0.81, 0.2]);
    let none = HeadroomParameters { ttft_weight: Amount::ZERO, tpot_weight: Amount::ZERO, ..both() };
    assert_eq!(scores(none, &crossed), [1.0, 0.01]);
    assert_eq!(scores(both(), &[predicted(90, 3), predicted(50, 3)]), [1.0, 0.01]);
    assert_eq!(scores(both(), &[predicted(50, 1), predicted(50, 3)]), [0.01, 1.0]);
    assert_eq!(scores(both(), &[predicted(50, 3), predicted(50, 3)]), [0.51, 0.51]);
}

#[test]
fn a_pod_without_a_prediction_counts_as_meeting_its_targets() {
    assert_eq!(scores(both(), &[None, predicted(101, 0)]), [0.51, 0.0]);
    assert_eq!(scores(both(), &[None, predicted(50, 0)]), [1.0, 0.01]);
}

#[test]
fn of_those_that_miss_targets_idle_ones_come_first() {
    let predictions = vec![predicted(150, 20), predicted(500, 90), predicted(120, 5)];
    let scene = busy(3, &[1]);
    assert_eq!(scores_of(&scene, &scene.request(), both(), predictions), [0.0, 0.51, 0.0]);
}

#[test]
fn missing_fewer_targets_is_better_and_a_late_first_token_worse() {
    let (further, first, all) = (predicted(50, 20), predicted(150, 5), predicted(150, 20));
    assert_eq!(scores(both(), &[all, first, further]), [0.0, 0.0, 0.51]);
    assert_eq!(scores(both(), &[all, first]), [0.0, 0.51]);
    // Among equals, whoever misses them least, also where most headroom is preferred.
    let most = HeadroomParameters { prefer: PreferredHeadroom::Most, ..both() };
    assert_eq!(scores(most, &[all, predicted(200, 30)]), [1.0, 0.01]);
}

#[test]
fn without_targets_the_fastest_is_best() {
    let predictions = [predicted(300, 30), predicted(100, 10), predicted(200, 20)];
    assert_eq!(scores(HeadroomParameters::default(), &predictions), [0.01, 1.0, 0.51]);
}

#[test]
fn a_target_alone_leaves_the_other_axis_out() {
    let parameters = HeadroomParameters { ttft_target_ms: ms(100.0), ..HeadroomParameters::default() };
    assert_eq!(scores(parameters, &[predicted(90, 99_999), predicted(101, 0)]), [0.51, 0.0]);
}

#[test]
fn a_deadline_that_is_sooner_is_the_target() {
    let scene = busy(2, &[]);
    let predictions = vec![predicted(90, 0), predicted(50, 0)];
    let soon = scene.request().deadline(scene.now + Duration::from_millis(60));
    assert_eq!(scores_of(&scene, &soon, both(), predictions.clone()), [0.0, 0.51]);
    let late = scene.request().deadline(scene.now + Duration::from_secs(60));
    assert_eq!(scores_of(&scene, &late, both(), predictions), [1.0, 0.01]);
}

#[test]
fn where_nothing_is_predicted_load_and_cache_count() {
    let scene = Scene::new(2).prompt(10 * BLOCK, &[0, 5]).loads(|at| PodLoad {
        kv_used: [0.2, 0.8][at],
        waiting: [0, 5][at],
        ..PodLoad::default()
    });
    // (0.8 + 1 + 0) / 3 and (0.2 + 0 + 0.5) / 3.
    assert_eq!(scores_of(&scene, &scene.request(), both(), vec![None, None]), [0.6, 0.23]);
    assert_eq!(scene.scores(|d| HeadroomScorer::declare(d, both())), [0.6, 0.23], "nobody predicts");
    let (kv_weight, queue_weight, held_weight) = (Amount::ZERO, Amount::ZERO, Amount::ZERO);
    let none = HeadroomParameters { kv_weight, queue_weight, held_weight, ..both() };
    assert_eq!(scene.scores(move |d| HeadroomScorer::declare(d, none)), [0.8, 0.2]);
    assert_eq!(Scene::new(1).scores(|d| HeadroomScorer::declare(d, both())), [0.67], "an idle queue counts 1");
}

proptest! {
    /// Whatever is predicted and reported, scores lie in 0..=1 and somebody is preferred where anything is predicted.
    #[test]
    fn scores_are_in_range(
        pods in prop::collection::vec((any_load(), prop::option::of(any::<[Option<Duration>; 2]>())), 1..8),
        weights in prop::array::uniform5(prop_oneof![Just(0.0), 0.0..10.0, Just(f64::MAX)]),
        prefer in prop::sample::select(vec![PreferredHeadroom::Least, PreferredHeadroom::Most]),
        (ttft, tpot) in (prop::option::of(0.1..1e6), prop::option::of(0.1..1e6)),
    ) {
        let [ttft_weight, tpot_weight, kv_weight, queue_weight, held_weight] =
            weights.map(|weight| Amount::new(weight).unwrap());
        let (ttft_target_ms, tpot_target_ms) = (ttft.and_then(Positive::new), tpot.and_then(Positive::new));
        let parameters = HeadroomParameters {
            ttft_target_ms, tpot_target_ms, ttft_weight, tpot_weight, prefer, kv_weight, queue_weight, held_weight,
        };
        let scene = Scene::new(pods.len()).prompt(4 * BLOCK, &[2]).loads(|at| pods[at].0);
        let predictions: Vec<_> = pods.iter().map(|pod| pod.1.map(|[ttft, tpot]| Prediction { ttft, tpot })).collect();
        let any = predictions.iter().any(Option::is_some);
        let scores = scores_of(&scene, &scene.request(), parameters, predictions);
        prop_assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
        prop_assert!(!any || scores.iter().any(|score| *score > 0.0));
    }
}
