//! Prefix affinity filter: pods that hold enough of the prompt, unless they are too busy.

use kv_index::{DEFAULT_POD_WORDS, Matches, PodSet};
use routing_core::{Declare, Filter, PluginError, PrefixMatches, Read, RoutingContext};

#[cfg(feature = "serde")]
use super::checks;
use crate::parameters::{Fraction, Positive, parameters};
use crate::pick::chance::mix;
use crate::prepare::{LoadTable, Loads};

parameters! {
    /// What [`AffinityFilter`] takes.
    #[derive(Clone, Copy, Debug)]
    pub struct AffinityParameters {
        /// The share of the prompt's blocks that a pod must hold, above 0; 0.8 unless given.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "checks::some"))]
        pub share: Fraction = const { Fraction::constant(0.8) },
        /// How many seconds longer a request may wait for that, at most; 18 unless given. Where it is null, any time.
        pub most_wait: Option<Positive> = const { Positive::new(18.0) },
        /// Tokens of prompts that a pod computes in a second; 16,000 unless given. Measure it.
        pub prefill_rate: Positive = const { Positive::constant(16_000.0) },
        /// How often the filter keeps everybody, so that other pods come to hold prompts too, below 1; 0 unless given, never.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "checks::part"))]
        pub explore: Fraction = Fraction::ZERO,
    }
}

/// Keeps the pods that hold at least a share of the prompt, unless that costs too long a wait.
///
/// A pod's wait is estimated as its uncached tokens in flight ÷ `prefill_rate`. If the shortest wait of those that hold
/// the share exceeds the shortest of the others by more than `most_wait`, everybody stays. With the chance of `explore`,
/// decided by the request's seed, everybody stays too. A prompt shorter than a block is held by nobody.
///
/// `OnEmpty::KeepPrevious` is sensible, and almost always meant: for a prompt that nobody holds, anybody is as good.
#[derive(Clone, Copy, Debug)]
pub struct AffinityFilter<const W: usize = DEFAULT_POD_WORDS> {
    parameters: AffinityParameters,
    held: Read<PrefixMatches<W>>,
    loads: Read<Loads>,
}

impl<const W: usize> AffinityFilter<W> {
    /// Declares that it reads what pods hold and what they have to do.
    pub fn declare(declare: &mut Declare<'_>, parameters: AffinityParameters) -> Self {
        Self { parameters, held: declare.reads(), loads: declare.reads() }
    }

    fn holders(&self, held: &Matches<W>, candidates: PodSet<W>) -> PodSet<W> {
        let share = self.parameters.share.get();
        if share == 0.0 {
            return candidates;
        }
        // In singles, as the share is: four of five blocks are 0.8.
        let blocks = held.blocks() as f32;
        let enough = held.groups().iter().take_while(|group| group.depth as f32 / blocks >= share);
        enough.fold(PodSet::EMPTY, |pods, group| pods | group.pods) & candidates
    }

    /// Seconds until the least busy of some pods would begin.
    fn wait(&self, pods: PodSet<W>, loads: &LoadTable) -> f64 {
        let tokens = pods.iter().map(|pod| loads.of(pod).in_flight.uncached_tokens).min();
        tokens.unwrap_or_default() as f64 / self.parameters.prefill_rate.get()
    }
}

impl<const W: usize> Filter<W> for AffinityFilter<W> {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        if chance(context.request().seed) < f64::from(self.parameters.explore.get()) {
            return Ok(candidates);
        }
        let holders = self.holders(context.read(self.held)?, candidates);
        let others = candidates - holders;
        let Some(most) = self.parameters.most_wait else { return Ok(holders) };
        if holders.is_empty() || others.is_empty() {
            return Ok(holders);
        }
        let loads = context.read(self.loads)?;
        let longer = self.wait(holders, loads) - self.wait(others, loads);
        Ok(if longer > most.get() { candidates } else { holders })
    }
}

/// A number in 0..1 by a seed; not the one that ties are decided by.
fn chance(seed: u64) -> f64 {
    // 53 bits are as many as a double tells apart.
    (mix(seed ^ 0xa076_1d64_78bd_642f) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::testing::{BLOCK, Setup, request};

    fn prompt() -> Vec<u32> {
        (0..10 * BLOCK as u32).collect()
    }

    fn kept<const W: usize>(setup: &Setup<W>, parameters: AffinityParameters, seed: u64) -> Vec<usize> {
        let prompt = prompt();
        let request = request().tokens(&prompt).seed(seed);
        setup.kept(request, move |declare| AffinityFilter::<W>::declare(declare, parameters))
    }

    /// Pod 0 holds nothing, 1 holds 7 of 10 blocks, the last one 8.
    fn setup<const W: usize>() -> Setup<W> {
        let (setup, prompt) = (Setup::<W>::full(), prompt());
        let last = setup.last();
        setup.holds(1, &prompt[..7 * BLOCK]).holds(last, &prompt[..8 * BLOCK])
    }

    fn check<const W: usize>() {
        let setup = setup::<W>();
        let with = |share| AffinityParameters { share: Fraction::new(share).unwrap(), ..Default::default() };
        assert_eq!(kept(&setup, with(0.8), 0), [setup.last()]);
        assert_eq!(kept(&setup, with(0.7), 0), [1, setup.last()]);
        assert_eq!(kept(&setup, with(0.81), 0), [0; 0]);
        assert_eq!(kept(&setup, with(0.0), 0).len(), setup.last() + 1);
    }

    #[test]
    fn pods_that_hold_enough_stay() {
        check::<1>();
        check::<4>();
        check::<16>();
    }

    #[test]
    fn a_long_wait_lets_everybody_stay() {
        let parameters = AffinityParameters {
            most_wait: Positive::new(2.0),
            prefill_rate: Positive::new(100.0).unwrap(),
            ..AffinityParameters::default()
        };
        let busy = |tokens, others| {
            let setup = setup::<1>();
            let last = setup.last();
            let setup =
                (0..last).fold(setup, |setup, at| setup.load(at, |load| load.in_flight.uncached_tokens = others));
            setup.load(last, |load| load.in_flight.uncached_tokens = tokens)
        };
        assert_eq!(kept(&busy(200, 0), parameters, 0), [63], "two seconds are allowed");
        assert_eq!(kept(&busy(201, 0), parameters, 0).len(), 64);
        assert_eq!(kept(&busy(250, 50), parameters, 0), [63], "it is the difference that counts");
        let any = AffinityParameters { most_wait: None, ..parameters };
        assert_eq!(kept(&busy(1_000_000, 0), any, 0), [63]);
    }

    #[test]
    fn exploring_is_as_frequent_as_asked_and_by_seed() {
        let explore = |explore| AffinityParameters { explore: Fraction::new(explore).unwrap(), ..Default::default() };
        let setup = setup::<1>();
        let explored = |share, seed| kept(&setup, explore(share), seed).len() > 1;
        assert!((0..50).all(|seed| !explored(0.0, seed) && explored(1.0, seed)));
        assert!((0..20).all(|seed| explored(0.5, seed) == explored(0.5, seed)));
        let often = (0..10_000).filter(|seed| chance(*seed) < 0.25).count();
        assert!((2_300..2_700).contains(&often), "{often} of 10,000");
        assert!((0..10_000).all(|seed| (0.0..1.0).contains(&chance(seed))));
    }

    #[test]
    fn a_prompt_without_a_block_is_held_by_nobody() {
        let parameters = AffinityParameters::default();
        let kept = setup::<DEFAULT_POD_WORDS>()
            .kept(request().tokens(&[1]), move |declare| <AffinityFilter>::declare(declare, parameters));
        assert_eq!(kept, [0; 0]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_have_defaults_and_limits() {
        let read = |text| serde_json::from_str::<AffinityParameters>(text);
        let parameters = read(r#"{"share": 0.5, "most_wait": null}"#).unwrap();
        assert_eq!((parameters.share.get(), parameters.most_wait), (0.5, None));
        assert_eq!(read("{}").unwrap().most_wait, Positive::new(18.0));
        assert!(
            read(r#"{"share": 0}"#).is_err() && read(r#"{"explore": 1}"#).is_err(),
            "a filter that keeps everybody"
        );
        assert!(read(r#"{"share": 1.5}"#).is_err() && read(r#"{"prefill_rate": 0}"#).is_err());
    }
}
