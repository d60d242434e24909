//! Longest prefix match: the pods that hold most of the prompt, if that is enough.

use kv_index::{DEFAULT_POD_WORDS, PodSet};
use routing_core::{Declare, Filter, PluginError, RoutingContext};

#[cfg(feature = "serde")]
use super::checks;
use crate::parameters::{Fraction, parameters};
use crate::score::PromptReads;

parameters! {
    /// What [`LongestMatchFilter`] takes.
    #[derive(Clone, Copy, Debug)]
    pub struct LongestMatchParameters {
        /// The share of the prompt's tokens that must be exceeded, below 1; 0.5 unless given: more is held than missing.
        /// With 0, any whole block is enough.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "checks::part"))]
        pub share: Fraction = const { Fraction::constant(0.5) },
    }
}

/// Keeps the candidates with the longest match, all that have as long a one, if it is more than a share of the prompt.
///
/// If it is not, nobody stays. However busy they are: where that matters, it is a matter of a filter before it or of
/// [`AffinityFilter`](super::AffinityFilter), which keeps all that hold enough and has a limit on how long they may keep a
/// request waiting.
///
/// `OnEmpty::KeepPrevious` is sensible, and almost always meant: for a prompt that nobody holds, anybody is as good.
#[derive(Debug)]
pub struct LongestMatchFilter<const W: usize = DEFAULT_POD_WORDS> {
    share: f64,
    prompt: PromptReads<W>,
}

impl<const W: usize> LongestMatchFilter<W> {
    /// Declares that it reads what pods hold of the prompt.
    pub fn declare(declare: &mut Declare<'_>, parameters: LongestMatchParameters) -> Self {
        Self { share: f64::from(parameters.share.get()), prompt: PromptReads::declare(declare) }
    }
}

impl<const W: usize> Filter<W> for LongestMatchFilter<W> {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let prompt = self.prompt.read(context)?;
        // Deepest first.
        let longest = prompt.held.groups().iter().find(|group| !(group.pods & candidates).is_empty());
        let Some(longest) = longest else { return Ok(PodSet::EMPTY) };
        let held = prompt.tokens.saturating_sub(prompt.uncached(longest.depth));
        let enough = held as f64 > self.share * prompt.tokens as f64;
        Ok(if enough { longest.pods & candidates } else { PodSet::EMPTY })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::testing::{BLOCK, Setup, request};

    fn kept<const W: usize>(setup: &Setup<W>, prompt: &[u32], share: f32) -> Vec<usize> {
        let parameters = LongestMatchParameters { share: Fraction::new(share).unwrap() };
        setup.kept(request().tokens(prompt), move |declare| LongestMatchFilter::<W>::declare(declare, parameters))
    }

    fn check<const W: usize>() {
        let prompt: Vec<u32> = (0..10 * BLOCK as u32).collect();
        let setup = Setup::<W>::full();
        let last = setup.last();
        let setup = setup.holds(1, &prompt[..6 * BLOCK]).holds(3, &prompt[..5 * BLOCK]);
        let setup = setup.holds(last, &prompt[..6 * BLOCK]);
        assert_eq!(kept(&setup, &prompt, 0.5), [1, last], "all that hold most");
        assert_eq!(kept(&setup, &prompt, 0.0), [1, last]);
        assert_eq!(kept(&setup, &prompt, 0.7), [0; 0]);
    }

    #[test]
    fn the_longest_matches_stay_if_they_are_long_enough() {
        check::<1>();
        check::<4>();
        check::<16>();
    }

    #[test]
    fn as_much_as_the_share_is_not_more_than_it() {
        let prompt: Vec<u32> = (0..10 * BLOCK as u32 + 1).collect();
        let setup = <Setup>::new(2).holds(1, &prompt[..5 * BLOCK]);
        assert_eq!(kept(&setup, &prompt[..10 * BLOCK], 0.5), [0; 0]);
        assert_eq!(
            kept(&setup, &prompt[..10 * BLOCK - 1], 0.5),
            [1],
            "a token less in all, and more is held than missing"
        );
        assert_eq!(kept(&setup, &prompt, 0.5), [0; 0]);
    }

    #[test]
    fn a_prompt_without_a_block_is_held_by_nobody() {
        assert_eq!(kept(&<Setup>::new(2), &[1], 0.0), [0; 0]);
        assert_eq!(kept(&<Setup>::new(2), &[], 0.0), [0; 0]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_share_that_nothing_exceeds_is_refused() {
        let read = |text| serde_json::from_str::<LongestMatchParameters>(text);
        assert_eq!(read("{}").unwrap().share.get(), 0.5);
        assert!(read(r#"{"share": 1}"#).is_err() && read(r#"{"share": -0.1}"#).is_err());
    }

    proptest! {
        /// As each pod's depth, compared one by one.
        #[test]
        fn it_keeps_whoever_nobody_exceeds(held in prop::collection::vec(0..8usize, 1..8), share in 0.0..0.99f32) {
            let prompt: Vec<u32> = (0..8 * BLOCK as u32).collect();
            let setup = held.iter().enumerate().filter(|(_, held)| **held > 0);
            let setup = setup.fold(<Setup>::new(held.len()), |setup, (at, held)| setup.holds(at, &prompt[..held * BLOCK]));
            let most = held.iter().copied().max().unwrap();
            let enough = |held: usize| held > 0 && held == most && held as f64 / 8.0 > f64::from(share);
            let expected: Vec<usize> = (0..held.len()).filter(|at| enough(held[*at])).collect();
            prop_assert_eq!(kept(&setup, &prompt, share), expected);
        }
    }
}
