//! Cold prompt spreading: prompts that no pod holds go to the least recently used pod.

use std::sync::Arc;

use kv_index::DEFAULT_POD_WORDS;
use routing_core::{Declare, PluginError, PrefixMatches, Read, RoutingContext, Scorer, Scores};

use crate::memories::ColdPrompts;

use super::lru_order::LruOrder;

/// Scores by how long ago a candidate was given a prompt that nobody held: 1 for the one longest ago, 0 for the last one.
///
/// If a candidate holds anything of the prompt, all get 0.5, so that other scorers decide. If none does, candidates are
/// ranked: those never given a cold prompt first, then by the time they were, ties in order of pod number. Of n candidates
/// the one at rank r gets `1 − r / (n − 1)`; a lone one gets 1. It takes no parameters.
#[derive(Debug)]
pub struct NoHitSpreadScorer<const W: usize = DEFAULT_POD_WORDS> {
    cold: Arc<LruOrder<W>>,
    held: Read<PrefixMatches<W>>,
}

impl<const W: usize> NoHitSpreadScorer<W> {
    /// Declares that it reads who holds the prompt.
    pub fn declare(declare: &mut Declare<'_>, cold: Arc<LruOrder<W>>) -> Self {
        declare.recalls::<ColdPrompts>(Arc::as_ptr(&cold) as usize);
        Self { cold, held: declare.reads() }
    }
}

impl<const W: usize> Scorer<W> for NoHitSpreadScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let candidates = scores.candidates();
        let groups = context.read(self.held)?.groups();
        if groups.iter().any(|group| !(group.pods & candidates).is_empty()) {
            scores.set_all(candidates, 0.5);
        } else {
            self.cold.score(context.fleet(), scores);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::testing::Scene;

    fn scores(scene: &Scene, cold: &Arc<LruOrder>) -> Vec<f32> {
        let cold = Arc::clone(cold);
        scene.scores(move |d| NoHitSpreadScorer::declare(d, cold))
    }

    #[test]
    fn those_never_given_any_come_first_and_the_last_one_last() {
        let (scene, cold) = (Scene::new(4).prompt(64, &[]), Arc::new(LruOrder::new()));
        assert_eq!(scores(&scene, &cold), [1.0, 1.0 - 1.0 / 3.0, 1.0 - 2.0 / 3.0, 0.0]);
        cold.stamp(scene.pod(2));
        cold.stamp(scene.pod(0));
        assert_eq!(scores(&scene, &cold), [0.0, 1.0, 1.0 - 2.0 / 3.0, 1.0 - 1.0 / 3.0]);
        cold.stamp(scene.pod(2));
        assert_eq!(scores(&scene, &cold), [1.0 - 2.0 / 3.0, 1.0, 0.0, 1.0 - 1.0 / 3.0]);
    }

    #[test]
    fn a_prompt_that_a_candidate_holds_is_left_to_others() {
        let scene = Scene::new(3).prompt(64, &[0, 1]);
        assert_eq!(scores(&scene, &Arc::new(LruOrder::new())), [0.5; 3]);
    }

    #[test]
    fn a_lone_candidate_gets_1() {
        let (scene, cold) = (Scene::new(1).prompt(64, &[]), Arc::new(LruOrder::new()));
        cold.stamp(scene.pod(0));
        assert_eq!(scores(&scene, &cold), [1.0]);
    }

    #[test]
    fn a_new_pod_of_an_old_id_was_never_given_any() {
        let (mut scene, cold) = (Scene::new(2).prompt(64, &[]), Arc::new(LruOrder::new()));
        cold.stamp(scene.pod(1));
        cold.stamp(scene.pod(0));
        assert_eq!(scores(&scene, &cold), [0.0, 1.0]);
        scene.replace(0);
        assert_eq!(scores(&scene, &cold), [1.0, 0.0]);
    }
}
