//! Prefers candidates whose blocks lie near their GPU.

use kv_index::Tier;
use routing_core::{Context, Declare, PluginError, Read, Scorer, Scores};

use crate::parameters::Fraction;
use crate::prepare::{HeldTiers, TierCounts};

/// What a block counts by the tier it lies in.
///
/// Blocks of which no tier is known count as those in GPU memory: most of them are about to be there.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct TierWeights {
    /// In GPU memory; 1, unless given.
    pub gpu: Fraction,
    /// In host memory; 0.8, unless given.
    pub host: Fraction,
    /// On a local disk; 0.5, unless given.
    pub disk: Fraction,
    /// In a store that is shared; 0.25, unless given.
    pub remote: Fraction,
}

impl Default for TierWeights {
    fn default() -> Self {
        const {
            Self {
                gpu: Fraction::ONE,
                host: Fraction::new(0.8).expect("a fraction"),
                disk: Fraction::new(0.5).expect("a fraction"),
                remote: Fraction::new(0.25).expect("a fraction"),
            }
        }
    }
}

impl TierWeights {
    /// The weights of a pod's blocks, added up.
    #[inline]
    pub(super) fn sum(&self, counts: &TierCounts) -> f64 {
        let weight = |weight: Fraction, blocks: u32| f64::from(weight.get()) * f64::from(blocks);
        weight(self.gpu, counts.best(Tier::Gpu).saturating_add(counts.unlocated))
            + weight(self.host, counts.best(Tier::Host))
            + weight(self.disk, counts.best(Tier::Disk))
            + weight(self.remote, counts.best(Tier::Remote))
    }
}

/// Scores how near what a candidate holds is to its GPU: the mean weight of the leading blocks that it holds, each by the
/// fastest tier it lies in.
///
/// 1 if all of them are in GPU memory, less the farther they are, and 0 if it holds none, whatever the weights. How many
/// it holds does not count: weigh it against a [`CacheAffinityScorer`](super::CacheAffinityScorer), or give that one tiers.
#[derive(Debug)]
pub struct TierScorer {
    weights: TierWeights,
    tiers: Read<HeldTiers>,
}

impl TierScorer {
    /// Declares that it reads in which tiers pods hold the prompt.
    pub fn declare(declare: &mut Declare<'_>, weights: TierWeights) -> Self {
        Self { weights, tiers: declare.reads() }
    }
}

impl<const W: usize> Scorer<W> for TierScorer {
    fn score(&self, context: &Context<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let tiers = context.read(self.tiers)?;
        scores.fill(|pod| {
            let counts = tiers.of(pod);
            // Nothing of nothing, instead of a division by 0.
            (self.weights.sum(&counts) / f64::from(counts.held().max(1))) as f32
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::testing::{BLOCK, Scene};

    #[test]
    fn the_mean_weight_of_what_is_held_counts() {
        let scene = Scene::new(4).prompt(6 * BLOCK, &[1, 2]);
        scene.store(1, 2..4, Tier::Host);
        scene.store(2, 0..2, Tier::Disk);
        scene.store(2, 2..4, Tier::Remote);
        let scores = scene.scores(|d| TierScorer::declare(d, TierWeights::default()));
        assert_eq!(scores, [1.0, 0.9, 0.375, 0.0]);
    }

    #[test]
    fn blocks_of_no_known_tier_count_as_in_the_gpu() {
        let scene = Scene::new(2).prompt(6 * BLOCK, &[]).most_pods(0);
        scene.store(1, 0..4, Tier::Remote);
        assert_eq!(scene.scores(|d| TierScorer::declare(d, TierWeights::default())), [0.0, 1.0]);
    }
}
