//! The cost formula as the docs have it, pod by pod, and the fast one held against it.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::load::{Backlog, PodLoad};
use crate::pace::{ExpectedPrefill, PrefillShare};
use crate::score::testing::{BLOCK, Scene, any_load};

/// A pod: its backlog, pace, and what its queue is expected to take.
struct LiteralPod {
    backlog: Backlog,
    pace: f64,
    decoding_pace: f64,
    queue: Option<f64>,
    share: PrefillShare,
}

impl LiteralPod {
    /// All requests that wait for their first token.
    fn waiting(&self) -> f64 {
        f64::from(self.backlog.prefilling) + self.backlog.waiting
    }

    /// What a prompt of so many tokens costs here of which so many are new, where on average so many wait on a pod.
    fn cost(
        &self,
        parameters: &TotalLatencyParameters,
        (total, new): (f64, f64),
        crowd: f64,
        (fleet, parting): (&Pace, Option<f64>),
    ) -> f64 {
        let (Self { backlog, pace, decoding_pace, queue, share }, model) = (self, &parameters.cost_model);
        let typical = fleet.prefill;
        let (sequences, beside) = (f64::from(backlog.sequences), model.decode_share(backlog));
        let steps = new / model.step_tokens.get();
        let own = model.prefill_seconds(new, total - new);
        let work = (own - model.fixed.get()).max(0.0) + steps * beside;
        let others = pace * model.waiting_prefill(backlog, parameters.waiting_tokens.get());
        let first = others + model.expected_wait(backlog, *pace, *queue) + pace * (own + steps * beside);
        let whole = model.prefill_seconds(total, 0.0);
        let alone = parameters.answer_tokens.get() * model.decode_products(1.0).0;
        let second = parameters.answer_second.get() + parameters.decode.get() * whole / alone;
        let others = parameters.other_second.map_or(if parting.is_some() { 0.3 } else { 0.08 }, Amount::get);
        let token = parameters.decode.get() * model.per_token.get() / alone;
        let begun = token * backlog.decoding + others * sequences;
        let answer = parameters.answer_tokens.get();
        let context = total + answer / 2.0;
        let (products, one_more) = model.decode_products(sequences + self.waiting() + 1.0);
        let step = products + model.per_context.get() * (backlog.decoding + (self.waiting() + 1.0) * context);
        let longer = one_more + model.per_context.get() * context;
        // In a second a pod takes so many steps, of prompts and others; none of them is shorter than one that only decodes.
        let alone = decoding_pace * step;
        let steps = |share: PrefillShare| (share.busy / alone).min(share.steps) + (1.0 - share.busy) / alone;
        // Against what the fleet takes, or one that computes none.
        let against = match parting {
            Some(parting) => (1.0 - parting) * steps(fleet.shares.seen) + parting / alone,
            None => steps(fleet.shares.likely),
        };
        let stretch = against / steps(*share);
        first * (1.0 + first / (parameters.patience.get() * typical * whole))
            + pace * work * (self.waiting() + begun)
            + typical * work * (parameters.eviction.get() + crowd)
            + decoding_pace * answer * (second * step * stretch + (begun + second * self.waiting()) / 2.0 * longer)
    }
}

/// Loads with numbers as they are.
fn usual_load() -> impl Strategy<Value = PodLoad> {
    (0..40u32, 0..4u32, 0..6u32, 0..60_000u64).prop_map(|(requests, prefilling, waiting, tokens)| {
        let mut load =
            PodLoad { requests: requests + waiting, waiting_elsewhere: waiting, tokens, ..PodLoad::default() };
        (load.in_flight.requests, load.in_flight.prefilling) = (requests, prefilling.min(requests));
        (load.in_flight.prompt_tokens, load.in_flight.uncached_tokens) = (tokens, tokens / 3);
        load
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// On more pods than stand in a block, with queues and paces of any kind.
    #[test]
    fn the_fast_formula_is_the_literal_one(
        loads in prop::collection::vec(prop_oneof![9 => usual_load(), 1 => any_load()], 1..40),
        held in prop::collection::vec(0..9usize, 0..12),
        queues in prop::collection::vec(prop_oneof![2 => Just(None), 1 => Just(Some(0.0)), 3 => (0.0..4.0f64).prop_map(Some)], 40),
        slow in prop::collection::vec(0.2..6.0f64, 0..40),
        more in prop::collection::vec(prop_oneof![2 => Just(0), 1 => 0..60u32], 40),
        rest in 1..BLOCK,
        learns: bool,
        parting in prop::option::of(0.0..=1.0f32),
        by_peer in prop::collection::vec(prop_oneof![2 => Just(0), 1 => 0..6_000_000u64], 40),
    ) {
        let scene = Scene::new(loads.len()).prompt(8 * BLOCK + rest, &held[..held.len().min(loads.len())]).loads(|at| loads[at]);
        let state = scene.state();
        let then = scene.now.checked_sub(Duration::from_secs(1)).unwrap_or(scene.now);
        for (at, slow) in slow.iter().take(loads.len()).enumerate() {
            let pod = scene.pod(at);
            state.paces.expect(pod, ExpectedPrefill::new(CostModel::FUSED, 1.0), then);
            state.paces.first_token(state.paces.sample(pod, then).unwrap(), Duration::from_secs_f64(*slow), then);
            // Some are sent much more than others.
            for _ in 0..more[at] {
                state.paces.expect(pod, ExpectedPrefill::new(CostModel::FUSED, 0.1 * slow), then + Duration::from_millis(200));
            }
        }
        // And some by a peer.
        for (at, micros) in by_peer.iter().take(loads.len()).enumerate() {
            state.paces.sent_by_peer(scene.pod(at), *micros, scene.now);
        }
        state.paces.expect(scene.pod(0), ExpectedPrefill::new(CostModel::FUSED, 0.1), scene.now);
        state.paces.tick(scene.now + Duration::from_secs(1));
        for (at, seconds) in queues.iter().take(loads.len()).enumerate() {
            seconds.iter().for_each(|seconds| state.prefill_queues.add(scene.pod(at), *seconds, scene.now));
        }
        let parameters = TotalLatencyParameters { learns, ..TotalLatencyParameters::default() };
        let table = state.paces.table();
        let fleet = if learns { table.typical } else { Pace::ONE };
        let pods: Vec<LiteralPod> = loads.iter().enumerate().map(|(at, load)| {
            let (pod, backlog) = (scene.pod(at), load.backlog());
            let (pace, decoding_pace) =
                if learns { (state.paces.of(pod.id()), state.paces.decoding(pod.id())) } else { (1.0, 1.0) };
            let shares = if learns { table.of(pod.id()).shares } else { fleet.shares };
            let share = if parting.is_some() { shares.seen } else { shares.likely };
            LiteralPod { backlog, pace, decoding_pace, share, queue: state.prefill_queues.of(pod, scene.now) }
        }).collect();
        let crowd = pods.iter().map(LiteralPod::waiting).sum::<f64>() / pods.len() as f64;
        let costs: Vec<f64> = pods.iter().enumerate().map(|(at, pod)| {
            let total = 8 * BLOCK + rest;
            let new = total - held.get(at).map_or(0, |held| held.min(&8) * BLOCK);
            pod.cost(&parameters, (total as f64, new as f64), crowd, (&fleet, parting.map(f64::from)))
        }).collect();
        let given = state.clone();
        let scores = scene.scores(move |d| {
            let scorer = TotalLatency::declare(d, parameters, &given);
            TotalLatencyScorer(match parting {
                Some(parting) => scorer.parting(Fraction::new(parting).unwrap()),
                None => scorer,
            })
        });
        let (least, most) = costs.iter().fold((f64::MAX, 0.0_f64), |(l, m), cost| (l.min(*cost), m.max(*cost)));
        // What differs by less than numbers can tell is the same, or not.
        if most - least > most * 1e-9 {
            for (score, cost) in scores.iter().zip(&costs) {
                let literal = (most - cost) / (most - least);
                prop_assert!((f64::from(*score) - literal).abs() < 1e-5, "{} {}", score, literal);
            }
        }
    }
}
