//! Expected wait scorer: queued and running tokens by throughput, with a KV barrier.

use kv_index::DEFAULT_POD_WORDS;
use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use super::normalize;
use super::prompt::PromptReads;
use crate::parameters::{Amount, Positive, parameters};
use crate::prepare::Loads;

parameters! {
    /// What [`ExpectedWaitScorer`] takes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ExpectedWaitParameters {
        /// Tokens that a pod works off in a second; 10,000, unless given.
        pub tokens_per_second: Positive = const { Positive::constant(10_000.0) },
        /// Tokens that a request has left which was not sent from here; 512, unless given.
        pub foreign_request_tokens: Amount = const { Amount::constant(512.0) },
        /// What a KV cache that is half full counts, in seconds; 0.1, unless given.
        pub kv_seconds: Amount = const { Amount::constant(0.1) },
    }
}

/// Scores by the expected wait: 1 for the shortest, 0 for the longest, all 1 when equal.
///
/// The wait, in seconds, is `(queued + running + foreign) / rate + kv · k / (1 − k)`. `queued` are the tokens that have to be
/// computed before this request's first: uncached ones in flight from here, and its own. `running` are the tokens that
/// requests from here are yet to generate. `foreign` are the other requests that the pod has, each with
/// [`foreign_request_tokens`](ExpectedWaitParameters::foreign_request_tokens). What was sent since an engine's last report is in
/// all of them, so that a burst does not go to one pod. The last term is a barrier: `k` is the used share of the KV cache,
/// and a pod whose cache runs full will preempt. `k` counts up to 0.99.
#[derive(Debug)]
pub struct ExpectedWaitScorer<const W: usize = DEFAULT_POD_WORDS> {
    parameters: ExpectedWaitParameters,
    loads: Read<Loads>,
    prompt: PromptReads<W>,
}

impl<const W: usize> ExpectedWaitScorer<W> {
    /// Declares that it reads loads and who holds the prompt.
    pub fn declare(declare: &mut Declare<'_>, parameters: ExpectedWaitParameters) -> Self {
        Self { parameters, loads: declare.reads(), prompt: PromptReads::declare(declare) }
    }
}

impl<const W: usize> Scorer<W> for ExpectedWaitScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let (loads, prompt) = (context.read(self.loads)?, self.prompt.read(context)?);
        let ExpectedWaitParameters { tokens_per_second, foreign_request_tokens, kv_seconds } = self.parameters;
        normalize::by_cost_and_depth(scores, prompt.held, |pod, depth| {
            let load = loads.of(pod);
            let queued = load.in_flight.uncached_tokens as f64 + prompt.uncached(depth) as f64;
            let foreign = f64::from(load.requests.saturating_sub(load.in_flight.requests));
            let tokens = queued + load.in_flight.output_tokens as f64 + foreign * foreign_request_tokens.get();
            let used = normalize::kv_used(load.kv_used).min(MOST_USED);
            (tokens / tokens_per_second.get() + kv_seconds.get() * used / (1.0 - used)).min(f64::MAX)
        });
        Ok(())
    }
}

/// How full a KV cache counts at most: the barrier stays finite, and full pods can be told apart by their work.
const MOST_USED: f64 = 0.99;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::PodLoad;
    use crate::score::testing::{BLOCK, Scene, any_load};

    fn scores(scene: &Scene, parameters: ExpectedWaitParameters) -> Vec<f32> {
        scene.scores(move |d| ExpectedWaitScorer::declare(d, parameters))
    }

    #[test]
    fn the_wait_is_all_work_by_the_rate_and_the_barrier() {
        let scene = Scene::new(4).prompt(10 * BLOCK, &[10, 5]).loads(|at| {
            let mut load =
                PodLoad { requests: [0, 3, 0, 0][at], kv_used: [0.0, 0.0, 0.0, 0.5][at], ..PodLoad::default() };
            load.in_flight.uncached_tokens = [100, 0, 0, 0][at];
            load.in_flight.output_tokens = [40, 0, 0, 0][at];
            load.in_flight.requests = [0, 1, 0, 0][at];
            load
        });
        let parameters = ExpectedWaitParameters {
            tokens_per_second: Positive::new(100.0).unwrap(),
            foreign_request_tokens: Amount::new(40.0).unwrap(),
            kv_seconds: Amount::new(2.0).unwrap(),
        };
        // 100 + 40 + 0; 80 + 2 · 40; 160; 160 and the barrier: 1.4, 1.6, 1.6 and 3.6 seconds.
        let expected = [1.0, 2.0 / 2.2, 2.0 / 2.2, 0.0];
        let scores = scores(&scene, parameters);
        assert!(scores.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{scores:?}");
    }

    #[test]
    fn a_full_cache_still_leaves_work_to_count() {
        let scene = Scene::new(3).prompt(BLOCK, &[]).loads(|at| {
            let mut load = PodLoad { kv_used: [1.0, 1.0, f32::NAN][at], ..PodLoad::default() };
            load.in_flight.uncached_tokens = [0, 50, 100][at];
            load
        });
        assert_eq!(scores(&scene, ExpectedWaitParameters::default()), [1.0, 0.5, 0.0]);
    }

    proptest! {
        /// Whatever the loads and amounts, scores lie in 0..=1.
        #[test]
        fn scores_are_in_range(
            loads in prop::collection::vec(any_load(), 1..8),
            (rate, amount) in (prop_oneof![1.0..1e6, Just(f64::MIN_POSITIVE)], prop_oneof![0.0..1e6, Just(f64::MAX)]),
        ) {
            let amount = Amount::new(amount).unwrap();
            let parameters = ExpectedWaitParameters {
                tokens_per_second: Positive::new(rate).unwrap(),
                foreign_request_tokens: amount,
                kv_seconds: amount,
            };
            let scene = Scene::new(loads.len()).prompt(10 * BLOCK, &[3]).loads(|at| loads[at]);
            let scores = scores(&scene, parameters);
            prop_assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
            prop_assert!(scores.contains(&1.0));
        }
    }
}
