use proptest::prelude::*;

use super::*;
use crate::load::{InFlight, PodLoad};
use crate::parameters::Positive;
use crate::score::testing::{BLOCK, Scene, any_load, best};

fn amount(number: f64) -> Amount {
    Amount::new(number).unwrap()
}

/// Seconds that are easy to add: 1 a prefill, 1 for ten tokens, 1 for a thousand pairs.
fn plain() -> FirstTokenParameters {
    decoding(0.0)
}

fn decoding(decode: f64) -> FirstTokenParameters {
    let cost_model = CostModel {
        fixed: Amount::ONE,
        per_token: amount(0.1),
        per_pair: amount(0.001),
        per_context: amount(decode),
        step_tokens: Positive::new(100.0).unwrap(),
        ..CostModel::UNFUSED
    };
    FirstTokenParameters { cost_model, ..FirstTokenParameters::default() }
}

fn scores(scene: &Scene, parameters: FirstTokenParameters, queues: &Arc<PrefillQueues>) -> Vec<f32> {
    let queues = Arc::clone(queues);
    scene.scores(move |d| FirstTokenScorer::declare(d, parameters, queues))
}

fn expect_queued(scene: &Scene, parameters: FirstTokenParameters, queues: &Arc<PrefillQueues>, costs: &[f64]) {
    let (least, most) = costs.iter().fold((f64::MAX, 0.0_f64), |(l, m), cost| (l.min(*cost), m.max(*cost)));
    let scores = scores(scene, parameters, queues);
    for (score, cost) in scores.iter().zip(costs) {
        assert!((f64::from(*score) - (most - cost) / (most - least)).abs() < 1e-6, "{scores:?} of {costs:?}");
    }
}

fn expect(scene: &Scene, parameters: FirstTokenParameters, costs: &[f64]) {
    expect_queued(scene, parameters, &Arc::default(), costs);
}

fn scene() -> Scene {
    // Of 160 tokens, pod 0 holds 80. Pod 1 has two prompts of 100 to compute, half of each; pod 2 decodes three.
    Scene::new(3).prompt(10 * BLOCK, &[5]).loads(|at| {
        let in_flight = [
            InFlight::default(),
            InFlight { requests: 2, prefilling: 2, prompt_tokens: 200, uncached_tokens: 100, output_tokens: 0 },
            InFlight { requests: 3, prefilling: 0, prompt_tokens: 300, uncached_tokens: 0, output_tokens: 100 },
        ];
        let tokens = [0, 200, 400][at];
        PodLoad { in_flight: in_flight[at], requests: [0, 2, 3][at], tokens, ..PodLoad::default() }
    })
}

// 1 + 8 + 80 · 120 / 1000 and 1 + 16 + 160 · 80 / 1000; the queue is 10 + 100 · 75 / 1000.
const WARM: f64 = 18.6;
const COLD: f64 = 29.8;
const QUEUE: f64 = 17.5;

#[test]
fn the_queue_and_the_own_prefill_add_up() {
    expect(&scene(), plain(), &[WARM, COLD + QUEUE, COLD]);
}

#[test]
fn decoding_makes_every_step_longer() {
    // 1 + 160 / 100 steps beside 400 tokens; nobody decodes on the others.
    expect(&scene(), decoding(0.01), &[WARM, COLD + QUEUE, COLD + 2.6 * 4.0]);
}

#[test]
fn a_queue_that_is_kept_counts_if_it_is_shorter() {
    let scene = scene();
    for (kept, counted) in [(3.0, 3.0), (100.0, QUEUE), (0.0, QUEUE / 2.0)] {
        let queues = Arc::new(PrefillQueues::default());
        // Pod 2 has nobody who waits for a first token: whatever was expected is done.
        [1, 2].iter().for_each(|&at| queues.add(scene.pod(at), kept, scene.now));
        expect_queued(&scene, plain(), &queues, &[WARM, COLD + counted, COLD]);
    }
}

#[test]
fn what_others_sent_and_waits_comes_first() {
    let scene = || {
        Scene::new(3).prompt(10 * BLOCK, &[5]).loads(|at| PodLoad {
            requests: [6, 3, 0][at],
            waiting_elsewhere: [4, 1, 0][at],
            tokens: [300, 300, 0][at],
            ..PodLoad::default()
        })
    };
    // Of 20 tokens each: 2 s and 20 · 10 pairs.
    let heeding = |decode| decoding(decode).waiting_tokens(amount(20.0));
    expect(&scene(), heeding(0.0), &[WARM + 4.0 * 2.2, COLD + 2.2, COLD]);
    // Two of six, and two of three, decode: 100 and 200 tokens.
    let beside = |steps: f64, tokens: f64| steps * tokens * 0.01;
    let waits = [4.0 * 2.2 + beside(0.8, 100.0), 2.2 + beside(0.2, 200.0)];
    let costs = [WARM + waits[0] + beside(1.8, 100.0), COLD + waits[1] + beside(2.6, 200.0), COLD];
    expect(&scene(), heeding(0.01), &costs);
    // What was sent from here stands behind it.
    let queues = Arc::new(PrefillQueues::default());
    let both = scene().loads(|at| PodLoad {
        in_flight: InFlight { requests: 1, prefilling: 1, prompt_tokens: 100, uncached_tokens: 50, output_tokens: 0 },
        requests: [5, 1, 1][at],
        waiting_elsewhere: [4, 0, 0][at],
        ..PodLoad::default()
    });
    (0..3).for_each(|at| queues.add(both.pod(at), 3.0, both.now));
    expect_queued(&both, heeding(0.0), &queues, &[WARM + 3.0 + 4.0 * 2.2, COLD + 3.0, COLD + 3.0]);
    // Unless told, they do not count.
    expect(&scene(), plain(), &[WARM, COLD, COLD]);
}

#[test]
fn the_credit_forgives_queues_and_nothing_else() {
    let patient = |factor, above, most| FirstTokenParameters {
        wait_credit: WaitCredit { factor: amount(factor), above: amount(above), most: amount(most) },
        ..decoding(0.01)
    };
    // All hold half: 11.2 seconds are saved. Pod 1 waits 17.5 seconds; pod 2 decodes 400 tokens, for 1.8 steps.
    let scene = scene().prompt(10 * BLOCK, &[5, 5, 5]);
    let decodes = WARM + 1.8 * 4.0;
    expect(&scene, patient(1.0, 0.0, 100.0), &[WARM, WARM + QUEUE - 11.2, decodes]);
    expect(&scene, patient(1.0, 1.2, 100.0), &[WARM, WARM + QUEUE - 10.0, decodes]);
    expect(&scene, patient(1.0, 0.0, 3.0), &[WARM, WARM + QUEUE - 3.0, decodes]);
    expect(&scene, patient(9.0, 0.0, 100.0), &[WARM, WARM, decodes]);
    expect(&scene, patient(9.0, 12.0, 100.0), &[WARM, WARM + QUEUE, decodes]);
}

#[test]
fn a_busy_holder_loses_to_an_idle_pod_when_computing_is_sooner_and_the_credit_is_used_up() {
    let patient = FirstTokenParameters { wait_credit: WaitCredit::MEASURED, ..FirstTokenParameters::default() };
    let impatient = FirstTokenParameters::default();
    for (queued, parameters, winner) in
        [(8_000, impatient, 0), (30_000, impatient, 1), (30_000, patient, 0), (200_000, patient, 1)]
    {
        let scene = Scene::new(2).prompt(20_000 / BLOCK * BLOCK, &[20_000 / BLOCK]).loads(|at| {
            let mut load = PodLoad { requests: u32::from(at == 0), ..PodLoad::default() };
            (load.in_flight.requests, load.in_flight.prefilling) = (load.requests, load.requests);
            load.in_flight.uncached_tokens = if at == 0 { queued } else { 0 };
            load.in_flight.prompt_tokens = load.in_flight.uncached_tokens;
            load
        });
        assert_eq!(best(&scores(&scene, parameters, &Arc::default())), winner, "{queued}");
    }
}

#[cfg(feature = "serde")]
#[test]
fn parameters_are_read_by_name() {
    let read = |text| serde_json::from_str::<FirstTokenParameters>(text);
    let given = read(r#"{"cost_model": {"per_token": 0.5, "per_context": 0}, "wait_credit": {"factor": 2}}"#).unwrap();
    let cost_model = CostModel { per_token: amount(0.5), per_context: Amount::ZERO, ..CostModel::default() };
    let wait_credit = WaitCredit { factor: amount(2.0), ..WaitCredit::default() };
    assert_eq!(given, FirstTokenParameters { cost_model, wait_credit, waiting_tokens: Amount::ZERO });
    assert_eq!(read(r#"{"waiting_tokens": 9}"#).unwrap().waiting_tokens, amount(9.0));
    assert!(
        read(r#"{"cost_model": {"step_tokens": 0}}"#).is_err() && read(r#"{"wait_credit": {"most": -1}}"#).is_err()
    );
    assert!(read(r#"{"cost_model": {"per_tokn": 1}}"#).is_err(), "a name that there is not");
}

proptest! {
    /// Whatever the loads and amounts, scores lie in 0..=1.
    #[test]
    fn scores_are_in_range(
        loads in prop::collection::vec(any_load(), 1..8),
        numbers in prop::array::uniform8(prop_oneof![0.0..10.0, Just(f64::MAX)]),
    ) {
        let [fixed, per_token, per_pair, per_context, factor, above, most, waiting_tokens] = numbers.map(amount);
        let cost_model = CostModel { fixed, per_token, per_pair, per_context, ..CostModel::UNFUSED };
        let wait_credit = WaitCredit { factor, above, most };
        let parameters = FirstTokenParameters { cost_model, wait_credit, waiting_tokens };
        let scene = Scene::new(loads.len()).prompt(10 * BLOCK, &[3]).loads(|at| loads[at]);
        let scores = scores(&scene, parameters, &Arc::default());
        prop_assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
        prop_assert!(scores.contains(&1.0));
    }

    /// Who holds more is never worse off, all else equal; nor is who has less queued.
    #[test]
    fn holding_more_and_having_less_to_do_never_hurts(
        held in prop::array::uniform2(0..10usize),
        queued in prop::array::uniform2(0..100_000u64),
        wait_credit in prop::sample::select(vec![WaitCredit::default(), WaitCredit::MEASURED]),
    ) {
        let scores = |held: [usize; 2], queued: [u64; 2]| {
            let scene = Scene::new(2).prompt(10 * BLOCK, &held).loads(|at| {
                let mut load = PodLoad { requests: 3, tokens: 3_000, ..PodLoad::default() };
                (load.in_flight.requests, load.in_flight.prefilling) = (3, 1);
                (load.in_flight.uncached_tokens, load.in_flight.prompt_tokens) = (queued[at], 300_000);
                load
            });
            scores(&scene, FirstTokenParameters { wait_credit, ..FirstTokenParameters::default() }, &Arc::default())
        };
        let by_held = scores(held, [7, 7]);
        prop_assert!(held[0] < held[1] || by_held[0] >= by_held[1]);
        let by_queue = scores([4, 4], queued);
        prop_assert!(queued[0] > queued[1] || by_queue[0] >= by_queue[1]);
    }
}
