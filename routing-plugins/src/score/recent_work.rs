//! Recent work scorer (Preble's E2): work of a sliding window, evictions and own prefill.

use kv_index::DEFAULT_POD_WORDS;
use std::sync::Arc;

use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use super::normalize;
use super::prompt::PromptReads;
use super::work_window::RecentWork;
use crate::cost_model::CostModel;
use crate::memories::RecentWorkKept;
use crate::parameters::{Amount, parameters};
use crate::prepare::Loads;

parameters! {
    /// What [`RecentWorkScorer`] takes. How long work counts as recent is said of [`RecentWork`].
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct RecentWorkParameters {
        /// How long prefills take; measured, unless given. Give a recorder of the same work the same.
        pub cost_model: CostModel = CostModel::default(),
        /// Seconds that a request on the pod counts for its answer; 1.35, unless given: 45 tokens of 30 milliseconds.
        pub request: Amount = const { Amount::constant(1.35) },
        /// Seconds that a token of the requests on the pod counts, of prompts and answers alike; 0, unless given. Where some
        /// contexts are many times as long as others, requests do not tell how long decoding takes, and tokens do.
        pub token: Amount = Amount::ZERO,
        /// How much it counts to compute again what the prompt would push out of a full cache; 1, unless given.
        pub eviction: Amount = Amount::ONE,
    }
}

/// Scores by the work of a window of time: 1 for the candidate with the least, 0 for the most, all 1 when equal.
///
/// The cost, in seconds, is `L + M + P`, the load cost of Preble's E2:
///
/// - `L` = the prefills sent to the pod within the window ([`RecentWork`]) + `request` · requests on it now + `token` · their tokens.
/// - `M` = `eviction` · KV use · `per_token` · new tokens: what the prompt brings evicts as much where the cache is full, and
///   some of that where it is partly so. Which prompts go, and whether anybody asks for them again, is not known here.
/// - `P` = the prompt's own prefill by the [cost model](CostModel), from what the pod holds of it.
///
/// Among pods that hold as much of the prompt, as a
/// [`LongestMatchFilter`](crate::filter::LongestMatchFilter) leaves them, it is `L` that decides.
#[derive(Debug)]
pub struct RecentWorkScorer<const W: usize = DEFAULT_POD_WORDS> {
    parameters: RecentWorkParameters,
    recent: Arc<RecentWork<W>>,
    loads: Read<Loads>,
    prompt: PromptReads<W>,
}

impl<const W: usize> RecentWorkScorer<W> {
    /// Declares that it reads loads and who holds the prompt.
    pub fn declare(declare: &mut Declare<'_>, parameters: RecentWorkParameters, recent: Arc<RecentWork<W>>) -> Self {
        declare.recalls::<RecentWorkKept>((Arc::as_ptr(&recent) as usize, parameters.cost_model.into()));
        Self { parameters, recent, loads: declare.reads(), prompt: PromptReads::declare(declare) }
    }
}

impl<const W: usize> Scorer<W> for RecentWorkScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let (loads, prompt) = (context.read(self.loads)?, self.prompt.read(context)?);
        let RecentWorkParameters { cost_model, request, token, eviction } = self.parameters;
        let (fleet, total) = (context.fleet(), prompt.tokens as f64);
        let slice = self.recent.number(context.request().now);
        normalize::by_cost_and_depth(scores, prompt.held, |pod, depth| {
            let load = loads.of(pod);
            let new = prompt.uncached(depth) as f64;
            let recent = fleet.handle(pod).map_or(0.0, |pod| self.recent.within(pod, slice));
            let evicted = eviction.get() * normalize::kv_used(load.kv_used) * (cost_model.per_token.get() * new);
            let now = request.get() * f64::from(load.requests) + token.get() * load.tokens as f64;
            (recent + now + evicted + cost_model.prefill_seconds(new, total - new)).min(f64::MAX)
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::load::PodLoad;
    use crate::score::testing::{BLOCK, Scene, any_load};

    fn plain() -> RecentWorkParameters {
        let amount = |number| Amount::new(number).unwrap();
        let (fixed, per_token, per_pair) = (Amount::ZERO, amount(0.1), Amount::ZERO);
        let cost_model = CostModel { fixed, per_token, per_pair, ..CostModel::UNFUSED };
        RecentWorkParameters { cost_model, request: amount(2.0), token: Amount::ZERO, eviction: Amount::ONE }
    }

    fn scores(scene: &Scene, parameters: RecentWorkParameters, recent: &Arc<RecentWork>) -> Vec<f32> {
        let recent = Arc::clone(recent);
        scene.scores(move |d| RecentWorkScorer::declare(d, parameters, recent))
    }

    #[test]
    fn recent_work_requests_evictions_and_the_prefill_add_up() {
        let scene = Scene::new(5).prompt(10 * BLOCK, &[5]).loads(|at| PodLoad {
            requests: [0, 0, 3, 0, 0][at],
            kv_used: [0.0, 0.0, 0.0, 0.5, 0.0][at],
            ..PodLoad::default()
        });
        let recent = Arc::new(RecentWork::new(Duration::from_secs(60)));
        recent.add(scene.pod(1), 10.0, scene.now);
        // 8; 16 + 10; 16 + 6; 16 + 8; 16.
        assert_eq!(scores(&scene, plain(), &recent), [1.0, 0.0, 4.0 / 18.0, 2.0 / 18.0, 10.0 / 18.0]);
        let free = RecentWorkParameters { request: Amount::ZERO, eviction: Amount::ZERO, ..plain() };
        assert_eq!(scores(&scene, free, &recent), [1.0, 0.0, 10.0 / 18.0, 10.0 / 18.0, 10.0 / 18.0]);
    }

    #[test]
    fn long_contexts_count_for_more_where_tokens_count() {
        let loads = |at: usize| PodLoad { requests: [5, 1, 0][at], tokens: [50, 100, 0][at], ..PodLoad::default() };
        let scene = Scene::new(3).prompt(BLOCK, &[]).loads(loads);
        let recent = Arc::new(RecentWork::default());
        let by_tokens = RecentWorkParameters { request: Amount::ZERO, token: Amount::new(0.5).unwrap(), ..plain() };
        assert_eq!(scores(&scene, plain(), &recent), [0.0, 0.8, 1.0]);
        assert_eq!(scores(&scene, by_tokens, &recent), [0.5, 0.0, 1.0]);
    }

    #[test]
    fn what_was_long_ago_does_not_count() {
        let mut scene = Scene::new(2).prompt(BLOCK, &[]);
        let recent = Arc::new(RecentWork::new(Duration::from_secs(60)));
        recent.add(scene.pod(0), 10.0, scene.now);
        assert_eq!(scores(&scene, plain(), &recent), [0.0, 1.0]);
        scene.now += Duration::from_secs(61);
        assert_eq!(scores(&scene, plain(), &recent), [1.0, 1.0]);
    }

    proptest! {
        /// Whatever the loads, amounts and recent work, scores lie in 0..=1.
        #[test]
        fn scores_are_in_range(
            loads in prop::collection::vec((any_load(), 0.0..1e9f64), 1..8),
            numbers in prop::array::uniform4(prop_oneof![0.0..10.0, Just(f64::MAX)]),
        ) {
            let [per_token, request, token, eviction] = numbers.map(|number| Amount::new(number).unwrap());
            let cost_model = CostModel { per_token, ..CostModel::UNFUSED };
            let scene = Scene::new(loads.len()).prompt(10 * BLOCK, &[3]).loads(|at| loads[at].0);
            let recent = Arc::new(RecentWork::default());
            (0..loads.len()).for_each(|at| recent.add(scene.pod(at), loads[at].1, scene.now));
            let scores = scores(&scene, RecentWorkParameters { cost_model, request, token, eviction }, &recent);
            prop_assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
            prop_assert!(scores.contains(&1.0));
        }
    }
}
