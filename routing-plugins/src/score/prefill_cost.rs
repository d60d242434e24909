//! Prefill cost scorer (LMetric): new prefill tokens times batch size.

use kv_index::DEFAULT_POD_WORDS;
use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use super::normalize;
use super::prompt::PromptReads;
use crate::prepare::Loads;

/// Scores by prefill tokens times batch: 1 for the cheapest candidate, 0 for the dearest, all 1 when equal.
///
/// The cost is `(uncached in flight + uncached of this request) × (requests + 1)`. The first factor are the tokens that the
/// pod has to compute before this request's first token: those of requests in flight from here, and those of the prompt
/// that it does not hold. The second is the batch that the request would be part of, counted with it.
///
/// This is LMetric's product of new prefill tokens and batch size. Tokens in flight are counted in the first factor: two
/// requests sent in a row would otherwise see the same queue. It takes no parameters, and so nothing to tune: a pod's cost
/// grows with what it would take to start, and with how slow it is meanwhile.
#[derive(Debug)]
pub struct PrefillCostScorer<const W: usize = DEFAULT_POD_WORDS> {
    loads: Read<Loads>,
    prompt: PromptReads<W>,
}

impl<const W: usize> PrefillCostScorer<W> {
    /// Declares that it reads loads and who holds the prompt.
    pub fn declare(declare: &mut Declare<'_>) -> Self {
        Self { loads: declare.reads(), prompt: PromptReads::declare(declare) }
    }
}

impl<const W: usize> Scorer<W> for PrefillCostScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let (loads, prompt) = (context.read(self.loads)?, self.prompt.read(context)?);
        normalize::by_cost_and_depth(scores, prompt.held, |pod, depth| {
            let load = loads.of(pod);
            let tokens = load.in_flight.uncached_tokens as f64 + prompt.uncached(depth) as f64;
            tokens * (f64::from(load.requests) + 1.0)
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::PodLoad;
    use crate::score::testing::{BLOCK, Scene, any_load};

    #[test]
    fn tokens_times_batch_is_the_cost() {
        let scene = Scene::new(4).prompt(10 * BLOCK, &[5]).loads(|at| {
            let mut load = PodLoad { requests: [1, 0, 1, 3][at], ..PodLoad::default() };
            load.in_flight.uncached_tokens = [0, 0, 40, 40][at];
            load
        });
        // 80 × 2, 160 × 1, 200 × 2 and 200 × 4.
        assert_eq!(scene.scores(PrefillCostScorer::declare), [1.0, 1.0, 0.625, 0.0]);
    }

    #[test]
    fn equal_costs_all_get_1() {
        assert_eq!(Scene::new(3).prompt(5, &[]).scores(PrefillCostScorer::declare), [1.0; 3]);
        // A prompt that is held whole costs nothing, whatever the batch.
        let scene = Scene::new(2).prompt(2 * BLOCK, &[2, 2]);
        assert_eq!(
            scene.loads(|at| PodLoad { requests: at as u32, ..PodLoad::default() }).scores(PrefillCostScorer::declare),
            [1.0; 2]
        );
    }

    proptest! {
        /// Whatever the loads, scores lie in 0..=1 and keep the order of the costs.
        #[test]
        fn order_is_kept(loads in prop::collection::vec(any_load(), 1..8), held in prop::collection::vec(0..10usize, 8)) {
            let scene = Scene::new(loads.len()).prompt(10 * BLOCK, &held[..loads.len()]).loads(|at| loads[at]);
            let scores = scene.scores(PrefillCostScorer::declare);
            let cost = |at: usize| {
                let tokens = loads[at].in_flight.uncached_tokens as f64 + ((10 - held[at]) * BLOCK) as f64;
                tokens * (f64::from(loads[at].requests) + 1.0)
            };
            for a in 0..loads.len() {
                prop_assert!((0.0..=1.0).contains(&scores[a]));
                prop_assert!((0..loads.len()).all(|b| cost(a) > cost(b) || scores[a] >= scores[b]));
            }
        }
    }
}
