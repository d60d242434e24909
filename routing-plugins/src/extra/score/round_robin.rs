//! Round-robin scorer: the least recently served pod first.

use kv_index::DEFAULT_POD_WORDS;
use std::sync::Arc;

use routing_core::{Declare, PluginError, RoutingContext, Scorer, Scores};

use super::lru_order::LruOrder;

/// Scores by whose turn it is: 1 for the next, falling in equal steps to 0 for the one just served.
///
/// The next is the candidate whose last turn is longest ago, and with every decision it has had its turn, whoever is picked
/// in the end. A counter over candidates would skip some and serve others twice when pods come and go, and could starve a
/// pod when requests of two kinds with different candidates alternate; here every pod waits for those before it and for no
/// other. A pod that is new, or new under its id, had no turn yet and is next; of several, the lowest number. Pods that
/// are filtered out keep their place. Decisions at the same time get different pods, as far as there are as many. It takes
/// no parameters.
#[derive(Debug)]
pub struct RoundRobinScorer<const W: usize = DEFAULT_POD_WORDS> {
    turns: Arc<LruOrder<W>>,
}

impl<const W: usize> RoundRobinScorer<W> {
    /// Takes turns by the host's memory of them. Declares nothing: it reads no slot.
    pub fn declare(_declare: &mut Declare<'_>, turns: Arc<LruOrder<W>>) -> Self {
        Self { turns }
    }
}

impl<const W: usize> Scorer<W> for RoundRobinScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        self.turns.score_and_stamp(context.fleet(), scores);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::score::testing::{Scene, best};

    fn scores(scene: &Scene, turns: &Arc<LruOrder>) -> Vec<f32> {
        let turns = Arc::clone(turns);
        scene.scores(move |d| RoundRobinScorer::declare(d, turns))
    }

    #[test]
    fn turns_go_round_and_scores_fall_to_the_one_just_served() {
        let (scene, turns) = (Scene::new(3), Arc::new(LruOrder::new()));
        assert_eq!(scores(&scene, &turns), [1.0, 0.5, 0.0]);
        assert_eq!(scores(&scene, &turns), [0.0, 1.0, 0.5]);
        assert_eq!(scores(&scene, &turns), [0.5, 0.0, 1.0]);
        assert_eq!(scores(&scene, &turns), [1.0, 0.5, 0.0]);
        assert_eq!(scores(&Scene::new(1), &turns), [1.0]);
    }

    #[test]
    fn a_replaced_pod_is_next() {
        let (mut scene, turns) = (Scene::new(3), Arc::new(LruOrder::new()));
        (0..3).for_each(|_| drop(scores(&scene, &turns)));
        scene.replace(2);
        assert_eq!(best(&scores(&scene, &turns)), 2);
        assert_eq!(best(&scores(&scene, &turns)), 0);
    }

    #[test]
    fn threads_share_the_turns() {
        let (scene, turns) = (Scene::new(4), Arc::new(LruOrder::new()));
        let mut served = [0; 4];
        #[expect(clippy::disallowed_methods, reason = "a test of what threads do")]
        std::thread::scope(|scope| {
            let work = || (0..100).map(|_| best(&scores(&scene, &turns))).collect::<Vec<_>>();
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).for_each(|pod| served[pod] += 1);
        });
        assert_eq!(served, [50; 4]);
    }

    proptest! {
        /// Whoever is a candidate when, nobody is passed over by a pod that was served after it.
        #[test]
        fn nobody_is_served_twice_while_another_candidate_waits(
            offered in prop::collection::vec(prop::collection::btree_set(0..6usize, 1..6), 1..60),
        ) {
            let (mut scene, turns) = (Scene::new(6), Arc::new(LruOrder::new()));
            let mut last = [0; 6];
            for (at, offered) in offered.iter().enumerate() {
                scene.offer(offered);
                let served = best(&scores(&scene, &turns));
                prop_assert!(offered.contains(&served));
                prop_assert!(offered.iter().all(|pod| last[*pod] >= last[served]), "{served} of {offered:?}: {last:?}");
                last[served] = at + 1;
            }
        }
    }
}
