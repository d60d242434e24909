//! Cache tier scorer: held blocks weighted by tier.

use kv_index::Tier;
use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use crate::extra::{HeldTiers, TierCounts};
use crate::parameters::{Fraction, parameters};

parameters! {
    /// What a block counts by the tier it lies in.
    ///
    /// Blocks of a pod that was not looked at count by the lowest of these weights: a pod must not win because nobody looked.
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[cfg_attr(feature = "serde", serde(try_from = "Raw"))]
    pub struct TierWeights {
        /// In GPU memory; 1, unless given.
        pub gpu: Fraction = Fraction::ONE,
        /// In host memory; 0.8, unless given.
        pub host: Fraction = const { Fraction::constant(0.8) },
        /// On a local disk; 0.5, unless given.
        pub disk: Fraction = const { Fraction::constant(0.5) },
        /// In a store that is shared; 0.25, unless given.
        pub remote: Fraction = const { Fraction::constant(0.25) },
        /// Speculated, and so in no tier yet; as in GPU memory, unless given: that is where it is about to be.
        pub speculated: Option<Fraction> = None,
    }
}

/// Weights as documents give them.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    gpu: Option<Fraction>,
    host: Option<Fraction>,
    disk: Option<Fraction>,
    remote: Option<Fraction>,
    speculated: Option<Fraction>,
}

#[cfg(feature = "serde")]
impl TryFrom<Raw> for TierWeights {
    type Error = &'static str;

    fn try_from(raw: Raw) -> Result<Self, &'static str> {
        let default = Self::default();
        let weights = Self {
            gpu: raw.gpu.unwrap_or(default.gpu),
            host: raw.host.unwrap_or(default.host),
            disk: raw.disk.unwrap_or(default.disk),
            remote: raw.remote.unwrap_or(default.remote),
            speculated: raw.speculated,
        };
        let Self { gpu, host, disk, remote, .. } = weights;
        if [gpu, host, disk, remote] == [Fraction::ZERO; 4] { Err("no tier counts anything") } else { Ok(weights) }
    }
}

impl TierWeights {
    /// The weights of a pod's blocks, added up.
    #[inline]
    pub(crate) fn sum(&self, counts: &TierCounts) -> f64 {
        let weight = |weight: Fraction, blocks: u32| f64::from(weight.get()) * f64::from(blocks);
        let least = [self.host, self.disk, self.remote].into_iter().fold(self.gpu, |a, b| if b < a { b } else { a });
        weight(self.gpu, counts.best(Tier::Gpu))
            + weight(self.speculated.unwrap_or(self.gpu), counts.speculated)
            + weight(least, counts.unseen)
            + weight(self.host, counts.best(Tier::Host))
            + weight(self.disk, counts.best(Tier::Disk))
            + weight(self.remote, counts.best(Tier::Remote))
    }
}

/// Scores how near what a candidate holds is to its GPU: the mean weight of the leading blocks that it holds, each by the
/// fastest tier it lies in.
///
/// 1 if all of them are in GPU memory, less the farther they are, and 0 if it holds none, whatever the weights. How many
/// it holds does not count: weigh it against a [`CacheAffinityScorer`](crate::score::CacheAffinityScorer), or give that one tiers.
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
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
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
    use std::time::Duration;

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
    fn speculated_blocks_count_as_in_the_gpu_or_as_given() {
        let scene = Scene::new(2).prompt(6 * BLOCK, &[]);
        scene.index.speculate(scene.pod(1), &scene.hashes()[..4], scene.now + Duration::from_secs(9)).unwrap();
        let scores = |weights| scene.scores(move |d| TierScorer::declare(d, weights));
        assert_eq!(scores(TierWeights::default()), [0.0, 1.0]);
        assert_eq!(scores(TierWeights { gpu: Fraction::new(0.75).unwrap(), ..TierWeights::default() }), [0.0, 0.75]);
        assert_eq!(scores(TierWeights { speculated: Fraction::new(0.5), ..TierWeights::default() }), [0.0, 0.5]);
    }

    #[test]
    fn a_pod_that_was_not_looked_at_is_no_better() {
        let scene = Scene::new(3).prompt(6 * BLOCK, &[]).most_pods(2);
        (0..3).for_each(|pod| scene.store(pod, 0..4, Tier::Disk));
        assert_eq!(scene.scores(|d| TierScorer::declare(d, TierWeights::default())), [0.5, 0.5, 0.25]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn weights_that_say_nothing_are_refused() {
        let read = |text| serde_json::from_str::<TierWeights>(text);
        assert!(read(r#"{"gpu": 0, "host": 0, "disk": 0, "remote": 0}"#).is_err());
        assert!(read(r#"{"gpu": 0, "host": 0, "disk": 0}"#).is_ok() && read(r#"{"cpu": 1}"#).is_err());
    }
}
