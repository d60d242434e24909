//! Max-score picker (argmax): the highest total, ties by seed or by prompt.

use std::num::NonZeroUsize;

use kv_index::PodId;
use routing_core::{Declare, Picker, PluginError, Ranking, Read, RoutingContext, Totals};

use super::chance::draw;
use super::least::{ordered, rank_least};
use crate::parameters::parameters;
use crate::prepare::HashedPrefix;

parameters! {
    /// What [`MaxScorePicker`] takes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MaxScoreParameters {
        /// How many candidates are ranked; 3 unless given.
        pub most: NonZeroUsize = super::MOST,
        /// Who goes first among equals; by the request's seed unless given.
        pub ties: Ties = Ties::BySeed,
    }
}

/// Who goes first among candidates of the same total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Ties {
    /// Drawn from the request's seed: equal pods share the load over many requests.
    #[default]
    BySeed,
    /// Drawn from the prompt: requests of one prompt go to the same of equal pods, also those that are decided at once and
    /// cannot know of each other.
    ///
    /// What counts is the last block that the index was searched for: the prompt's first few blocks, and where those are
    /// held somewhere, what comes after them. A prompt without a full block is drawn from the seed.
    ByPrompt,
}

/// Ranks candidates by their totals, highest first.
///
/// Ties are drawn from the request's seed or from its prompt ([`Ties`]); one request replayed goes where it went.
#[derive(Debug)]
pub struct MaxScorePicker {
    most: NonZeroUsize,
    prompt: Option<Read<HashedPrefix>>,
}

impl MaxScorePicker {
    /// Declares that it reads the prompt's hashes, if they decide ties; else totals are all it looks at.
    pub fn declare(declare: &mut Declare<'_>, parameters: MaxScoreParameters) -> Self {
        let prompt = (parameters.ties == Ties::ByPrompt).then(|| declare.reads());
        Self { most: parameters.most, prompt }
    }
}

impl<const W: usize> Picker<W> for MaxScorePicker {
    fn pick(
        &self,
        context: &RoutingContext<'_, W>,
        totals: &Totals<'_, W>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError> {
        let prompt = match self.prompt {
            Some(prompt) => context.read(prompt)?.hashes().last(),
            None => None,
        };
        match prompt {
            Some(hash) => {
                // The total above, the lowest last, and a draw below. Made of 32 bits, a total leaves 29 of its 64 at 0.
                let key = |pod: PodId| {
                    let total = !ordered(f64::from(totals.of(pod))) >> DRAWN << DRAWN;
                    total | draw(hash.get(), pod.index() as u64) >> (64 - DRAWN)
                };
                rank_least(totals.candidates(), self.most.get(), ranking, key);
            }
            None => totals.rank(self.most.get(), ranking),
        }
        Ok(())
    }
}

/// Bits of a key that are drawn: those of the mantissa that a number has more in 64 bits than in 32.
const DRAWN: u32 = 29;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use kv_index::{BlockSize, Config, Index};
    use routing_core::{Fleet, PodInfo, ProfileBuilder, Workflow};

    use super::*;
    use crate::pick::testing::{build, fleet, numbers, profile, request};
    use crate::plugin_state::Hashing;
    use crate::prepare::{BlockHashParameters, BlockHashPreparer, GivenTokensPreparer, PrefixMatchPreparer};

    fn picker(most: usize) -> impl FnOnce(&mut Declare<'_>) -> MaxScorePicker {
        let most = NonZeroUsize::new(most).unwrap();
        move |declare: &mut Declare<'_>| {
            MaxScorePicker::declare(declare, MaxScoreParameters { most, ..Default::default() })
        }
    }

    #[test]
    fn the_highest_totals_come_first_and_no_more_than_asked_for() {
        let workflow = build(profile(|pod| pod as f32 / 10.0, picker(3)));
        assert_eq!(numbers(&workflow, &request(0), &fleet(10)), [9, 8, 7]);
        assert_eq!(numbers(&workflow, &request(0), &fleet(2)), [1, 0]);
    }

    #[test]
    fn ties_are_shared_and_replay() {
        let workflow = build(profile(|pod| if pod < 4 { 0.5 } else { 0.2 }, picker(1)));
        let (fleet, mut counts) = (fleet(8), [0; 8]);
        for seed in 0..4_000 {
            let picked = numbers(&workflow, &request(seed), &fleet);
            assert_eq!(picked, numbers(&workflow, &request(seed), &fleet));
            counts[picked[0]] += 1;
        }
        assert!(counts[..4].iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        assert_eq!(counts[4..], [0; 4]);
    }

    /// Ties by the prompt, in blocks of 4 tokens that nobody holds.
    fn by_prompt(profile: ProfileBuilder) -> Workflow {
        let (index, size): (Arc<Index>, _) = (Arc::new(Index::new(Config::default())), BlockSize::new(4).unwrap());
        build(
            profile
                .preparer("tokens", GivenTokensPreparer::declare)
                .preparer("hash", move |d: &mut Declare<'_>| {
                    BlockHashPreparer::declare(d, BlockHashParameters::default(), Hashing::Native(size))
                })
                .preparer("held", |d: &mut Declare<'_>| PrefixMatchPreparer::declare(d, index)),
        )
    }

    fn ties(declare: &mut Declare<'_>) -> MaxScorePicker {
        MaxScorePicker::declare(declare, MaxScoreParameters { ties: Ties::ByPrompt, ..Default::default() })
    }

    #[test]
    fn ties_by_the_prompt_do_not_depend_on_the_seed_and_prompts_share_the_pods() {
        let workflow = by_prompt(profile(|pod| if pod < 4 { 0.5 } else { 0.2 }, ties));
        let (fleet, mut counts) = (fleet(8), [0; 8]);
        for prompt in 0..4_000 {
            let tokens = [prompt; 8];
            let picked = numbers(&workflow, &request(1).tokens(&tokens), &fleet);
            assert_eq!(picked, numbers(&workflow, &request(2).tokens(&tokens), &fleet));
            counts[picked[0]] += 1;
        }
        assert!(counts[..4].iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        assert_eq!(counts[4..], [0; 4]);
        let short: BTreeSet<_> =
            (0..50).map(|seed| numbers(&workflow, &request(seed).tokens(&[1]), &fleet)[0]).collect();
        assert_eq!(short.len(), 4, "of a prompt without a full block the seed decides");
    }

    #[test]
    fn totals_that_differ_in_their_last_bit_are_no_ties() {
        let low = 0.7f32;
        let high = f32::from_bits(low.to_bits() + 1);
        let workflow = by_prompt(profile(move |pod| [high, low, 0.0, 1.0][pod], ties));
        let infos: Vec<PodInfo> = crate::pick::testing::pods(4).1;
        let fleet = Fleet::new(1, infos);
        for prompt in 0..100 {
            assert_eq!(numbers(&workflow, &request(0).tokens(&[prompt; 4]), &fleet), [3, 0, 1]);
        }
    }
}
