//! Prefers candidates where the first token comes soonest.

use routing_core::{Context, Declare, PluginError, Read, Scorer, Scores};

use super::normalize;
use super::prefill_curve::PrefillCurve;
use super::prompt::PromptReads;
use crate::load::PodLoad;
use crate::parameters::{Amount, Positive};
use crate::prepare::Loads;

/// What [`FirstTokenScorer`] takes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct FirstTokenParameters {
    /// How long prefills take; measured, unless given.
    pub prefill: PrefillCurve,
    /// How much of what is queued before the request counts; 1, unless given: all of it. Less where engines are known to be
    /// ahead of what was heard from them.
    pub queue: Amount,
    /// Seconds by which a step is longer for each token of context that it decodes beside the prefill; 3.3e-7, unless given.
    /// With 0, decoding costs nothing.
    pub decode: Amount,
    /// Tokens that an engine prefills in one step; 2,048, unless given.
    pub step_tokens: Positive,
    /// How much the wait counts that the request's own prefill means for each request on the pod; 0, unless given: the
    /// request's own wait alone counts. With 1, all waits count alike.
    pub others: Amount,
}

impl Default for FirstTokenParameters {
    fn default() -> Self {
        Self {
            prefill: PrefillCurve::default(),
            queue: Amount::ONE,
            decode: const { Amount::constant(3.3e-7) },
            step_tokens: const { Positive::new(2_048.0).expect("above 0") },
            others: Amount::ZERO,
        }
    }
}

/// Scores by the expected seconds to the first token: 1 for the soonest, 0 for the latest, all 1 when equal.
///
/// The cost, in seconds, is `queue · Q + P + S · D + others · requests · P`:
///
/// - `P` is the prompt's own prefill by the [curve](PrefillCurve), from what the pod holds of it.
/// - `Q` is the time to work off what is queued: the curve without its fixed part (steps are shared) over the uncached
///   tokens in flight. How far into their prompts those are is told by averages: each of the `prefilling` requests has as
///   many uncached tokens as another, and a prompt as long as that of any request in flight.
/// - `S · D` is what decoding takes meanwhile. Engines prefill in steps, and each step decodes too, which makes it longer
///   by `D` = [`decode`](FirstTokenParameters::decode) times the tokens in the contexts of requests that are past their first
///   token. `S` = 1 + (queued + own tokens) /
///   [`step_tokens`](FirstTokenParameters::step_tokens): there is always the step under way.
/// - The last part is what the request does to others: as long as its prefill runs, they wait.
///
/// With `decode` and `others` at 0 this is the estimate that Mooncake's conductor goes by. It sees only its own request, and
/// so does not mind filling one pod with decoding requests while another has none; the other parts are for that. A held
/// prompt is worth what its prefill takes, no more: a busy pod that holds it loses to an idle one that computes it sooner.
///
/// Tokens in flight count until the first token comes, so the prefill under way is taken to have just begun. The default of
/// `decode` is from the same measurement as the curve: 9 decode steps of 1 to 128 sequences with 1,024 to 8,192 tokens each,
/// by least squares of the relative error, 6% off on average.
#[derive(Debug)]
pub struct FirstTokenScorer<const W: usize = 4> {
    parameters: FirstTokenParameters,
    loads: Read<Loads>,
    prompt: PromptReads<W>,
}

impl<const W: usize> FirstTokenScorer<W> {
    /// Declares that it reads loads and who holds the prompt.
    pub fn declare(declare: &mut Declare<'_>, parameters: FirstTokenParameters) -> Self {
        Self { parameters, loads: declare.reads(), prompt: PromptReads::declare(declare) }
    }
}

impl FirstTokenParameters {
    /// Seconds, on a pod with this load, for a request with so many new tokens whose own prefill takes so long.
    #[inline]
    fn cost(&self, load: &PodLoad, new: f64, own: f64) -> f64 {
        let Self { prefill, queue, decode, step_tokens, others } = self;
        let requests = f64::from(load.requests);
        let queued = load.in_flight.uncached_tokens as f64;
        let waiting = if queued > 0.0 { prefill.work(queued, before(load, queued)) } else { 0.0 };
        let steps = 1.0 + (queued + new) / step_tokens.get();
        let cost =
            queue.get() * waiting + own + steps * (decode.get() * decoding(load)) + others.get() * (requests * own);
        // Amounts are finite, and may still multiply to more than there are numbers.
        cost.min(f64::MAX)
    }
}

/// How many tokens come before a queued one, on average: the mean prompt less half of what is new of it, and at least
/// that half.
#[inline]
fn before(load: &PodLoad, queued: f64) -> f64 {
    let each = queued / f64::from(load.in_flight.prefilling.max(1));
    let prompt = load.in_flight.prompt_tokens as f64 / f64::from(load.in_flight.requests.max(1));
    (prompt - each * 0.5).max(each * 0.5)
}

/// Tokens in the contexts of requests that are past their first token: a share of all, by the count of requests.
#[inline]
fn decoding(load: &PodLoad) -> f64 {
    match load.requests.checked_sub(load.in_flight.prefilling) {
        None | Some(0) => 0.0,
        Some(decoding) => load.tokens as f64 * (f64::from(decoding) / f64::from(load.requests)),
    }
}

impl<const W: usize> Scorer<W> for FirstTokenScorer<W> {
    fn score(&self, context: &Context<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let (loads, prompt) = (context.read(self.loads)?, self.prompt.read(context)?);
        let total = prompt.tokens as f64;
        normalize::by_cost_and_depth(scores, prompt.held, |pod, depth| {
            let new = prompt.uncached(depth) as f64;
            self.parameters.cost(&loads.of(pod), new, self.parameters.prefill.seconds(new, total - new))
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::InFlight;
    use crate::score::testing::{BLOCK, Scene, any_load, best};

    fn amount(number: f64) -> Amount {
        Amount::new(number).unwrap()
    }

    /// Seconds that are easy to add: 1 a prefill, 1 for ten tokens, 1 for a thousand pairs.
    fn plain() -> FirstTokenParameters {
        FirstTokenParameters {
            prefill: PrefillCurve { fixed: Amount::ONE, per_token: amount(0.1), per_pair: amount(0.001) },
            queue: Amount::ONE,
            decode: Amount::ZERO,
            step_tokens: Positive::new(100.0).unwrap(),
            others: Amount::ZERO,
        }
    }

    fn scores(scene: &Scene, parameters: FirstTokenParameters) -> Vec<f32> {
        scene.scores(move |d| FirstTokenScorer::declare(d, parameters))
    }

    fn expect(scene: &Scene, parameters: FirstTokenParameters, costs: &[f64]) {
        let (least, most) = costs.iter().fold((f64::MAX, 0.0_f64), |(l, m), cost| (l.min(*cost), m.max(*cost)));
        let scores = scores(scene, parameters);
        for (score, cost) in scores.iter().zip(costs) {
            assert!((f64::from(*score) - (most - cost) / (most - least)).abs() < 1e-6, "{scores:?} of {costs:?}");
        }
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

    #[test]
    fn the_queue_and_the_own_prefill_add_up() {
        // 1 + 8 + 80 · 120 / 1000 and twice 1 + 16 + 160 · 80 / 1000; the queue is 10 + 100 · 75 / 1000.
        let (warm, cold) = (18.6, 29.8);
        expect(&scene(), plain(), &[warm, cold + 17.5, cold]);
        expect(&scene(), FirstTokenParameters { queue: amount(0.5), ..plain() }, &[warm, cold + 8.75, cold]);
    }

    #[test]
    fn decoding_makes_every_step_longer() {
        // 1 + 160 / 100 steps beside 400 tokens; nobody decodes on the others.
        let decode = amount(0.01);
        expect(&scene(), FirstTokenParameters { decode, ..plain() }, &[18.6, 47.3, 29.8 + 2.6 * 4.0]);
        // A prompt that is held whole still waits for the step under way.
        let held = scene().prompt(5 * BLOCK, &[5, 5, 5]);
        expect(&held, FirstTokenParameters { decode, queue: Amount::ZERO, ..plain() }, &[1.0, 1.0, 1.0 + 4.0]);
    }

    #[test]
    fn others_wait_for_the_own_prefill() {
        let others = amount(0.5);
        expect(&scene(), FirstTokenParameters { others, ..plain() }, &[18.6, 47.3 + 29.8, 29.8 + 1.5 * 29.8]);
    }

    #[test]
    fn a_busy_holder_loses_to_an_idle_pod_when_computing_is_sooner() {
        for (queued, winner) in [(8_000, 0), (30_000, 1)] {
            let scene = Scene::new(2).prompt(10_000 / BLOCK * BLOCK, &[10_000 / BLOCK]).loads(|at| {
                let mut load = PodLoad { requests: u32::from(at == 0), ..PodLoad::default() };
                (load.in_flight.requests, load.in_flight.prefilling) = (load.requests, load.requests);
                load.in_flight.uncached_tokens = if at == 0 { queued } else { 0 };
                load.in_flight.prompt_tokens = load.in_flight.uncached_tokens;
                load
            });
            assert_eq!(best(&scores(&scene, FirstTokenParameters::default())), winner, "{queued}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_are_read_by_name() {
        let read = |text| serde_json::from_str::<FirstTokenParameters>(text);
        let given = read(r#"{"prefill": {"per_token": 0.5}, "decode": 0, "others": 2}"#).unwrap();
        let prefill = PrefillCurve { per_token: amount(0.5), ..PrefillCurve::default() };
        let expected =
            FirstTokenParameters { prefill, decode: Amount::ZERO, others: amount(2.0), ..Default::default() };
        assert_eq!(given, expected);
        assert!(read(r#"{"step_tokens": 0}"#).is_err() && read(r#"{"prefill": {"fixed": -1}}"#).is_err());
    }

    proptest! {
        /// Whatever the loads and amounts, scores lie in 0..=1.
        #[test]
        fn scores_are_in_range(
            loads in prop::collection::vec(any_load(), 1..8),
            numbers in prop::array::uniform6(prop_oneof![0.0..10.0, Just(f64::MAX)]),
        ) {
            let [fixed, per_token, per_pair, queue, decode, others] = numbers.map(amount);
            let prefill = PrefillCurve { fixed, per_token, per_pair };
            let parameters = FirstTokenParameters { prefill, queue, decode, others, ..plain() };
            let scene = Scene::new(loads.len()).prompt(10 * BLOCK, &[3]).loads(|at| loads[at]);
            let scores = scores(&scene, parameters);
            prop_assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
            prop_assert!(scores.contains(&1.0));
        }

        /// Who holds more is never worse off, all else equal; nor is who has less queued.
        #[test]
        fn holding_more_and_having_less_to_do_never_hurts(
            held in prop::array::uniform2(0..10usize),
            queued in prop::array::uniform2(0..100_000u64),
        ) {
            let scores = |held: [usize; 2], queued: [u64; 2]| {
                let scene = Scene::new(2).prompt(10 * BLOCK, &held).loads(|at| {
                    let mut load = PodLoad { requests: 3, tokens: 3_000, ..PodLoad::default() };
                    (load.in_flight.requests, load.in_flight.prefilling) = (3, 1);
                    (load.in_flight.uncached_tokens, load.in_flight.prompt_tokens) = (queued[at], 300_000);
                    load
                });
                scores(&scene, FirstTokenParameters { others: Amount::ONE, ..FirstTokenParameters::default() })
            };
            let by_held = scores(held, [7, 7]);
            prop_assert!(held[0] < held[1] || by_held[0] >= by_held[1]);
            let by_queue = scores([4, 4], queued);
            prop_assert!(queued[0] > queued[1] || by_queue[0] >= by_queue[1]);
        }
    }
}
