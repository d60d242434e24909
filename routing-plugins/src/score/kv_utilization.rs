//! KV cache utilization scorer.

use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use crate::prepare::Loads;

/// Scores the free share of the KV cache as the engine reported it: 0 for a full cache, 1 for an empty one.
///
/// `1 − used`. What is not a number counts as full; a pod of which nothing was ever reported counts as empty. It takes no
/// parameters.
#[derive(Debug)]
pub struct KvUtilizationScorer {
    loads: Read<Loads>,
}

impl KvUtilizationScorer {
    /// Declares that it reads loads.
    pub fn declare(declare: &mut Declare<'_>) -> Self {
        Self { loads: declare.reads_parts(Loads::FIGURES) }
    }
}

impl<const W: usize> Scorer<W> for KvUtilizationScorer {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let figures = context.read(self.loads)?.figures();
        scores.fill_from(figures, |figures| 1.0 - figures.kv_used);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::PodLoad;
    use crate::score::testing::Scene;

    #[test]
    fn the_free_share_counts_from_0_to_1() {
        let used = [0.0, 0.25, 1.0, 1.5, -0.5, f32::NAN];
        let scene = Scene::new(6).loads(|at| PodLoad { kv_used: used[at], ..PodLoad::default() });
        assert_eq!(scene.scores(KvUtilizationScorer::declare), [1.0, 0.75, 0.0, 0.0, 1.0, 0.0]);
    }
}
