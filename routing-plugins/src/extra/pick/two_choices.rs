//! Power of two choices: the better of two candidates drawn at random.

use std::num::NonZeroUsize;

use kv_index::{PodId, PodSet};
use routing_core::{Declare, Picker, PluginError, Ranking, Read, RoutingContext, Totals};

use crate::parameters::parameters;
use crate::pick::chance::{below, draw};
use crate::prepare::Loads;

parameters! {
    /// What [`TwoChoicesPicker`] takes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TwoChoicesParameters {
        /// How many candidates are ranked; 3 unless given.
        pub most: NonZeroUsize = crate::pick::MOST,
        /// Which of the two is better; the one with the higher total unless given.
        pub by: BetterBy = BetterBy::Total,
    }
}

/// Which of two pods is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum BetterBy {
    /// The one with the higher total.
    #[default]
    Total,
    /// The one with fewer requests; needs [`Loads`].
    Requests,
}

/// Draws two candidates and chooses the better; then the highest totals.
///
/// Every pair is equally likely. Figures that are a little old make every gateway send to the one pod that looks best; of
/// two drawn ones it is one pod in n/2. The worst candidate is never chosen, unless it is alone. Of two that are equally
/// good it is the one that was drawn first.
#[derive(Debug)]
pub struct TwoChoicesPicker {
    most: NonZeroUsize,
    loads: Option<Read<Loads>>,
}

impl TwoChoicesPicker {
    /// Declares that it reads loads, if it compares them.
    pub fn declare(declare: &mut Declare<'_>, parameters: TwoChoicesParameters) -> Self {
        let loads = (parameters.by == BetterBy::Requests).then(|| declare.reads());
        if loads.is_some() {
            declare.ignores_scores();
        }
        Self { most: parameters.most, loads }
    }
}

impl<const W: usize> Picker<W> for TwoChoicesPicker {
    fn pick(
        &self,
        context: &RoutingContext<'_, W>,
        totals: &Totals<'_, W>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError> {
        if let Some((first, second)) = two(totals.candidates(), totals.seed()) {
            let second_is_better = match self.loads {
                None => totals.of(second) > totals.of(first),
                Some(loads) => {
                    let loads = context.read(loads)?;
                    loads.of(second).requests < loads.of(first).requests
                }
            };
            ranking.push(if second_is_better { second } else { first });
        }
        totals.rank(self.most.get().saturating_sub(ranking.picks().len()), ranking);
        Ok(())
    }
}

/// Two different pods of a set, if there are two.
fn two<const W: usize>(pods: PodSet<W>, seed: u64) -> Option<(PodId, PodId)> {
    let count = pods.len();
    if count < 2 {
        return None;
    }
    let first = below(draw(seed, 0), count);
    let second = below(draw(seed, 1), count - 1);
    Some((nth(pods, first)?, nth(pods, second + usize::from(second >= first))?))
}

/// The pod with so many of the set before it.
fn nth<const W: usize>(pods: PodSet<W>, mut nth: usize) -> Option<PodId> {
    for (at, word) in pods.words().iter().enumerate() {
        let count = word.count_ones() as usize;
        if nth < count {
            let bits = (0..nth).fold(*word, |bits, _| bits & (bits - 1));
            return Some(PodId::new((at * 64) as u16 + bits.trailing_zeros() as u16));
        }
        nth -= count;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use routing_core::Workflow;

    use super::*;
    use crate::load::PodLoad;
    use crate::pick::testing::{build, fleet, numbers, pod, profile, request, with};
    use crate::prepare::LoadTable;

    fn workflow(by: BetterBy) -> Workflow {
        let parameters = TwoChoicesParameters { by, ..TwoChoicesParameters::default() };
        let picker = move |declare: &mut Declare<'_>| TwoChoicesPicker::declare(declare, parameters);
        let profile = profile(|pod| pod as f32 / 10.0, picker);
        // The higher a pod's total, the more requests it has.
        let loads = |_: &routing_core::Request<'_>| -> LoadTable {
            (0..10).map(|at| (pod(at), PodLoad { requests: at as u32, ..PodLoad::default() })).collect()
        };
        build(with::<Loads>(profile, loads))
    }

    fn counts(workflow: &Workflow) -> [usize; 5] {
        let (fleet, mut counts) = (fleet(5), [0; 5]);
        (0..10_000).for_each(|seed| counts[numbers(workflow, &request(seed), &fleet)[0]] += 1);
        counts
    }

    #[test]
    fn the_better_of_every_pair_is_chosen_and_the_worst_never() {
        // Of ten pairs, pod n is the better one in n of them.
        let found = counts(&workflow(BetterBy::Total));
        for (count, pairs) in found.iter().zip(0..) {
            assert!(count.abs_diff(pairs * 1_000) < 150, "{found:?}");
        }
        assert_eq!(found[0], 0);
    }

    #[test]
    fn by_requests_it_is_the_less_busy_one() {
        let found = counts(&workflow(BetterBy::Requests));
        for (count, pairs) in found.iter().rev().zip(0..) {
            assert!(count.abs_diff(pairs * 1_000) < 150, "{found:?}");
        }
        assert_eq!(found[4], 0);
    }

    #[test]
    fn the_rest_is_by_total_and_it_replays() {
        let (workflow, fleet) = (workflow(BetterBy::Total), fleet(5));
        for seed in 0..100 {
            let ranked = numbers(&workflow, &request(seed), &fleet);
            let rest: Vec<usize> = (0..5).rev().filter(|pod| *pod != ranked[0]).take(2).collect();
            assert_eq!(ranked[1..], rest);
            assert_eq!(ranked, numbers(&workflow, &request(seed), &fleet));
        }
        assert_eq!(numbers(&workflow, &request(0), &crate::pick::testing::fleet(1)), [0]);
    }

    proptest! {
        #[test]
        fn two_are_drawn_that_differ(pods in prop::collection::btree_set(0u16..256, 2..60), seed in any::<u64>()) {
            let pods: PodSet = pods.into_iter().map(PodId::new).collect();
            let (first, second) = two(pods, seed).unwrap();
            prop_assert!(first != second && pods.contains(first) && pods.contains(second));
            for (at, pod) in pods.iter().enumerate() {
                prop_assert_eq!(nth(pods, at), Some(pod));
            }
            prop_assert_eq!(nth(pods, pods.len()), None);
        }
    }
}
