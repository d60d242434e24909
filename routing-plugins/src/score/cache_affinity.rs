//! Prefix cache affinity scorer: the share of the prompt that a pod holds.

use std::num::NonZeroU32;

use kv_index::{DEFAULT_POD_WORDS, Matches};
use routing_core::{Declare, PluginError, PrefixMatches, Read, RoutingContext, Scorer, Scores};

use super::normalize;
use crate::extra::{HeldTiers, TierWeights};
use crate::parameters::{Fraction, parameters};
use crate::prepare::PromptChain;

parameters! {
    /// What [`CacheAffinityScorer`] takes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct CacheAffinityParameters {
        /// How much the held length counts against the held share; 0, unless given: only the share counts.
        pub length_weight: Fraction = Fraction::ZERO,
        /// The held length, in tokens, from which on more is no better; 8192, unless given.
        pub length_scale: NonZeroU32 = const { NonZeroU32::new(8192).expect("not 0") },
        /// What a block counts by the fastest tier it lies in; without them, as much in every tier. They take a
        /// [`TierMatchPreparer`](crate::extra::TierMatchPreparer).
        pub tiers: Option<TierWeights> = None,
    }
}

/// Scores what a candidate holds of the prompt: 0 for none of it, 1 for all.
///
/// `w · min(1, held · block / scale)² + (1 − w) · held / blocks`, with `held` the leading blocks that the candidate holds,
/// `blocks` those of the prompt, `block` the tokens in one, `w` the
/// [`length_weight`](CacheAffinityParameters::length_weight) and `scale` the
/// [`length_scale`](CacheAffinityParameters::length_scale). With `w` above 0, half of a long prompt is worth more than half
/// of a short one. With [`tiers`](CacheAffinityParameters::tiers), `held` is the sum of the blocks' weights instead.
///
/// A prompt shorter than one block leaves every score at 0, so that other scorers decide.
#[derive(Debug)]
pub struct CacheAffinityScorer<const W: usize = DEFAULT_POD_WORDS> {
    parameters: CacheAffinityParameters,
    held: Read<PrefixMatches<W>>,
    /// Read only if lengths count.
    chain: Option<Read<PromptChain>>,
    /// Read only if tiers count.
    tiers: Option<(TierWeights, Read<HeldTiers>)>,
}

impl<const W: usize> CacheAffinityScorer<W> {
    /// Declares that it reads who holds the prompt, and where if that counts.
    pub fn declare(declare: &mut Declare<'_>, parameters: CacheAffinityParameters) -> Self {
        let held = declare.reads();
        let chain = (parameters.length_weight > Fraction::ZERO).then(|| declare.reads());
        let tiers = parameters.tiers.map(|weights| (weights, declare.reads()));
        Self { parameters, held, chain, tiers }
    }

    fn formula(
        &self,
        context: &RoutingContext<'_, W>,
        held: &Matches<W>,
    ) -> Result<impl Fn(f64) -> f32 + use<W>, PluginError> {
        let block = self.chain.map(|chain| context.read(chain)).transpose()?.map_or(0, |chain| chain.block_tokens());
        let length_weight = f64::from(self.parameters.length_weight.get());
        let per_block = block as f64 / f64::from(self.parameters.length_scale.get());
        let blocks = held.blocks() as f64;
        Ok(move |held: f64| {
            let length = (held * per_block).min(1.0);
            (length_weight * length * length + (1.0 - length_weight) * held / blocks) as f32
        })
    }
}

impl<const W: usize> Scorer<W> for CacheAffinityScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let held = context.read(self.held)?;
        let formula = self.formula(context, held)?;
        let Some((weights, tiers)) = self.tiers else {
            held.groups().iter().for_each(|group| scores.set_all(group.pods, formula(group.depth as f64)));
            return Ok(());
        };
        let tiers = context.read(tiers)?;
        normalize::by_depth(Some(held), scores.candidates(), |pods, depth| {
            if depth > 0 {
                pods.iter().for_each(|pod| scores.set(pod, formula(weights.sum(&tiers.of(pod)))));
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kv_index::Tier;
    use proptest::prelude::*;

    use super::*;
    use crate::score::testing::{BLOCK, Scene};

    fn scores(scene: &Scene, parameters: CacheAffinityParameters) -> Vec<f32> {
        scene.scores(move |d| CacheAffinityScorer::declare(d, parameters))
    }

    fn by_length(weight: f32, scale: u32) -> CacheAffinityParameters {
        CacheAffinityParameters {
            length_weight: Fraction::new(weight).unwrap(),
            length_scale: NonZeroU32::new(scale).unwrap(),
            tiers: None,
        }
    }

    #[test]
    fn the_share_counts_from_0_to_1() {
        let scene = Scene::new(4).prompt(10 * BLOCK + 3, &[10, 5, 1]);
        assert_eq!(scores(&scene, CacheAffinityParameters::default()), [1.0, 0.5, 0.1, 0.0]);
    }

    #[test]
    fn length_counts_by_its_square_up_to_the_scale() {
        let scene = Scene::new(3).prompt(10 * BLOCK, &[10, 5, 1]);
        // 160, 80 and 16 tokens of 100.
        assert_eq!(scores(&scene, by_length(1.0, 100)), [1.0, 0.64, 0.0256]);
        assert_eq!(scores(&scene, by_length(0.5, 100)), [1.0, 0.57, 0.0628]);
    }

    #[test]
    fn a_prompt_without_a_whole_block_leaves_all_at_0() {
        for parameters in [CacheAffinityParameters::default(), by_length(0.5, 100)] {
            assert_eq!(scores(&Scene::new(2).prompt(BLOCK - 1, &[]), parameters), [0.0, 0.0]);
        }
    }

    #[test]
    fn blocks_count_by_the_fastest_tier_they_lie_in() {
        let scene = Scene::new(3).prompt(4 * BLOCK, &[4, 2]);
        scene.store(0, 0..4, Tier::Disk);
        scene.store(1, 1..4, Tier::Host);
        scene.store(2, 0..4, Tier::Remote);
        let tiers = Some(TierWeights::default());
        let parameters = CacheAffinityParameters { tiers, ..CacheAffinityParameters::default() };
        assert_eq!(scores(&scene, parameters), [1.0, 0.9, 0.25]);
    }

    proptest! {
        /// Scores lie in 0..=1, and who holds more never scores less.
        #[test]
        fn more_is_never_worse(
            held in prop::collection::vec(0..20usize, 1..8),
            weight in 0.0..=1.0f32,
            scale in 1..1_000u32,
        ) {
            let scores = scores(&Scene::new(held.len()).prompt(20 * BLOCK, &held), by_length(weight, scale));
            for (a, score) in scores.iter().enumerate() {
                prop_assert!((0.0..=1.0).contains(score));
                prop_assert!((0..held.len()).all(|b| held[a] < held[b] || *score >= scores[b]));
            }
        }
    }
}
