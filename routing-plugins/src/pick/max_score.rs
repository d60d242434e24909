//! Chooses the highest total.

use std::num::NonZeroUsize;

use routing_core::{Context, Declare, Picker, PluginError, Ranking, Totals};

/// What [`MaxScorePicker`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct MaxScoreParameters {
    /// How many candidates are ranked; 3 unless given.
    pub most: NonZeroUsize,
}

impl Default for MaxScoreParameters {
    fn default() -> Self {
        Self { most: super::MOST }
    }
}

/// Ranks candidates by their totals, highest first.
///
/// Ties are drawn from the request's seed: equal pods share the load over many requests, and one request replayed goes
/// where it went.
#[derive(Debug)]
pub struct MaxScorePicker {
    most: NonZeroUsize,
}

impl MaxScorePicker {
    /// Declares nothing: totals are all it looks at.
    pub fn declare(_declare: &mut Declare<'_>, parameters: MaxScoreParameters) -> Self {
        Self { most: parameters.most }
    }
}

impl<const W: usize> Picker<W> for MaxScorePicker {
    fn pick(&self, _: &Context<'_, W>, totals: &Totals<'_, W>, ranking: &mut Ranking) -> Result<(), PluginError> {
        totals.rank(self.most.get(), ranking);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pick::testing::{build, fleet, numbers, profile, request};

    fn picker(most: usize) -> impl FnOnce(&mut Declare<'_>) -> MaxScorePicker {
        let most = NonZeroUsize::new(most).unwrap();
        move |declare: &mut Declare<'_>| MaxScorePicker::declare(declare, MaxScoreParameters { most })
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
}
