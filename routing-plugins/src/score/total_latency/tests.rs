use std::time::Duration;

use proptest::prelude::*;

use routing_core::Request;

use super::*;
use crate::load::{InFlight, PodLoad};
use crate::pace::ExpectedPrefill;
use crate::score::testing::{BLOCK, Scene, any_load, best};

/// Seconds that are easy to add: 1 a prefill, 1 for ten tokens, 2 a decode step, 1 for a sequence in it, and one for a hundred tokens.
fn plain() -> TotalLatencyParameters {
    let amount = |number| Amount::new(number).unwrap();
    let cost_model = CostModel {
        fixed: Amount::ONE,
        per_token: amount(0.1),
        per_pair: Amount::ZERO,
        decode_step: amount(2.0),
        per_sequence: Amount::ONE,
        per_context: amount(0.01),
        step_tokens: Positive::new(100.0).unwrap(),
        ..CostModel::UNFUSED
    };
    TotalLatencyParameters {
        cost_model,
        answer_tokens: Positive::new(40.0).unwrap(),
        patience: Positive::new(0.5).unwrap(),
        decode: amount(12.0),
        answer_second: amount(0.3),
        other_second: Some(amount(0.2)),
        ..TotalLatencyParameters::default()
    }
}

fn scores(scene: &Scene, parameters: TotalLatencyParameters) -> Vec<f32> {
    learned(scene, parameters, &scene.state())
}

fn learned(scene: &Scene, parameters: TotalLatencyParameters, state: &PluginState) -> Vec<f32> {
    let state = state.clone();
    scene.scores(move |d| TotalLatencyScorer::declare(d, parameters, &state))
}

fn expect(scene: &Scene, parameters: TotalLatencyParameters, costs: &[f64]) {
    let (least, most) = costs.iter().fold((f64::MAX, 0.0_f64), |(l, m), cost| (l.min(*cost), m.max(*cost)));
    let scores = scores(scene, parameters);
    for (score, cost) in scores.iter().zip(costs) {
        assert!((f64::from(*score) - (most - cost) / (most - least)).abs() < 1e-6, "{scores:?} of {costs:?}");
    }
}

/// `requests` in all, of which so many wait with 50 tokens to compute each; 100 tokens a request.
fn load(requests: u32, waiting: u32) -> PodLoad {
    let (prompt_tokens, uncached_tokens) = (u64::from(requests) * 100, u64::from(waiting) * 50);
    let in_flight = InFlight { requests, prefilling: waiting, prompt_tokens, uncached_tokens, output_tokens: 0 };
    PodLoad { in_flight, requests, tokens: prompt_tokens, ..PodLoad::default() }
}

#[test]
fn the_cost_is_its_own_time_and_that_of_others() {
    // Of 160 tokens pod 0 holds 80. Three decode on pod 2, and on pod 1 two of three wait.
    let scene = Scene::new(3).prompt(10 * BLOCK, &[5]).loads(|at| [load(0, 0), load(3, 2), load(3, 0)][at]);
    // The whole prompt takes 17 s, so a first token of `t` seconds counts t + t² / 8.5. An answer of 40 tokens takes 120 s alone: a
    // second of it counts 0.3 + 12 · 17 / 120, and of others' 0.2 + 12 · 0.1 / 120 for each token. A context has 160 + 20 tokens.
    let late = |first: f64| first + first * first / 8.5;
    let (second, decoding) = (2.0, |requests: f64| requests * (0.2 + 100.0 * 0.01));
    let answer = |beside: f64, tokens: f64, others: f64| {
        40.0 * (second * (2.0 + (beside + 1.0) + (tokens + 180.0) * 0.01) + others * 0.5 * 2.8)
    };
    // On three pods two wait. A second of every prefill is no work: it is that of a step.
    let later = 2.0 + 2.0 / 3.0;
    let warm = late(9.0) + 8.0 * later + answer(0.0, 0.0, 0.0);
    // 1.6 steps beside 100 tokens, and 100 tokens queued in one such step.
    let (own, wait) = (17.0 + 1.6, 10.0 + 1.0);
    let others = decoding(1.0) + second * 2.0;
    let queued =
        late(wait + own) + (own - 1.0) * (later + 2.0 + decoding(1.0)) + answer(3.0, 100.0 + 2.0 * 180.0, others);
    let own = 17.0 + 1.6 * 3.0;
    let beside = late(own) + (own - 1.0) * (later + decoding(3.0)) + answer(3.0, 300.0, decoding(3.0));
    expect(&scene, plain(), &[warm, queued, beside]);
}

#[test]
fn an_answer_is_as_long_as_the_request_allows() {
    // Of eight pods one holds the prompt, and is alone at work.
    let scene = Scene::new(8).prompt(250 * BLOCK, &[250]).loads(|at| load(if at == 0 { 300 } else { 0 }, 0));
    let state = scene.state();
    let wins = |request: &Request<'_>| {
        let state = state.clone();
        let scores = scene.scores_of(
            request,
            scene.profile().scorer("total", 1.0, move |d: &mut Declare<'_>| {
                TotalLatencyScorer::declare(d, TotalLatencyParameters::default(), &state)
            }),
        );
        usize::from(scores[1] > scores[0])
    };
    let most = |most: u32| wins(&scene.request().most_output(most));
    assert_eq!([1, 100_000].map(most), [0, 1], "a word where it is held, a book where nobody else writes one");
    // And as long as such answers were: a classifier's are a word.
    let classifier = scene.request().tenant("classifier");
    assert_eq!(wins(&classifier), 1);
    for _ in 0..100 {
        state.answer_lengths.learn(AnswerKey::of(&classifier, 250 * BLOCK as u64), 1);
    }
    assert_eq!([wins(&classifier), most(1)], [0, 0]);
}

#[test]
fn a_long_prompt_is_patient_and_a_short_one_is_not() {
    // The holder has some milliseconds of others' prompts to compute.
    let waits = |tokens: usize, queued: u64| {
        let in_flight =
            InFlight { requests: 1, prefilling: 1, prompt_tokens: queued, uncached_tokens: queued, output_tokens: 1 };
        let busy = PodLoad { in_flight, requests: 1, tokens: queued, ..PodLoad::default() };
        let scene = Scene::new(2).prompt(tokens, &[tokens / BLOCK]).loads(|at| [busy, PodLoad::default()][at]);
        best(&scores(&scene, TotalLatencyParameters::default())) == 0
    };
    // Some 200 ms, which a long prompt takes six times over by itself, and a short one half.
    assert!(waits(32_000, 8_000) && !waits(4_096, 8_000));
    assert!(waits(4_096, 2_000), "nor does it leave for nothing");
    assert!(!waits(32_000, 200_000), "and patience has an end");
}

#[test]
fn a_pod_known_to_be_slow_is_left_for_one_that_has_more_to_do() {
    let scene = Scene::new(2).prompt(100 * BLOCK, &[]).loads(|at| [load(0, 0), load(3, 1)][at]);
    let state = scene.state();
    let winner = |learns: bool| {
        let parameters = TotalLatencyParameters { learns, ..TotalLatencyParameters::default() };
        best(&learned(&scene, parameters, &state))
    };
    assert_eq!(winner(true), 0, "nothing is known of either");
    for at in 0..50 {
        let now = scene.now + Duration::from_secs(at);
        state.paces.expect(scene.pod(0), ExpectedPrefill::new(CostModel::FUSED, 0.5), now);
        state.paces.first_token(state.paces.sample(scene.pod(0), now).unwrap(), Duration::from_secs(4), now);
    }
    assert_eq!((winner(true), winner(false)), (1, 0));
}

#[test]
fn an_answer_goes_where_decoding_is_fast() {
    let scene = Scene::new(2).prompt(2 * BLOCK, &[]).loads(|_| load(2, 0));
    let state = scene.state();
    let begun = load(2, 0);
    for at in 0..50 {
        let now = scene.now + Duration::from_secs(at);
        state.paces.expect(scene.pod(0), ExpectedPrefill::new(CostModel::FUSED, 0.1), now);
        let sample = state.paces.sample(scene.pod(0), now).unwrap();
        state.paces.first_token(sample, Duration::from_millis(100), now);
        let load = state.paces.decode_sample(sample, &begun);
        state.paces.decoded(load, load, 100, Duration::from_secs(3), now);
    }
    assert!((state.paces.of(scene.pod(0).id()) - 1.0).abs() < 0.1);
    let scores = learned(&scene, TotalLatencyParameters::default(), &state);
    assert_eq!(best(&scores), 1, "as fast for prompts, and six times as slow for answers: {scores:?}");
}

#[test]
fn an_answer_goes_where_few_prompts_are_computed() {
    let scene = Scene::new(4).prompt(2 * BLOCK, &[]).loads(|_| load(2, 0));
    let state = scene.state();
    for at in 0..100 {
        let now = scene.now + Duration::from_millis(at * 50);
        state.paces.expect(scene.pod(1), ExpectedPrefill::new(CostModel::FUSED, 0.04), now);
        if at % 10 == 0 {
            for pod in [0, 2, 3] {
                state.paces.expect(scene.pod(pod), ExpectedPrefill::new(CostModel::FUSED, 0.04), now);
            }
        }
    }
    state.paces.tick(scene.now + Duration::from_secs(5));
    let scores = learned(&scene, TotalLatencyParameters::default(), &state);
    assert!(scores[1] < 0.1 && [0, 2, 3].iter().all(|pod| scores[*pod] > 0.9), "{scores:?}");
}

proptest! {
    /// Whatever loads say, scores are numbers, and nobody is better off with more to do.
    #[test]
    fn more_to_do_is_never_better(loads in prop::collection::vec(any_load(), 2..6), blocks in 0..8usize) {
        let count = loads.len();
        let scene = Scene::new(count).prompt(8 * BLOCK, &[blocks]).loads(|at| loads[at]);
        let before = scores(&scene, TotalLatencyParameters::default());
        prop_assert!(before.iter().all(|score| (0.0..=1.0).contains(score)), "{before:?}");
        let same = Scene::new(2).prompt(8 * BLOCK, &[]).loads(|at| {
            let more = PodLoad { requests: loads[0].requests.saturating_add(5), ..loads[0] };
            [loads[0], more][at]
        });
        let both = scores(&same, TotalLatencyParameters::default());
        prop_assert!(both[0] >= both[1], "{both:?}");
    }
}
