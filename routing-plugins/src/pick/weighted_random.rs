//! Chooses by chance, the higher the total the likelier.

use std::num::NonZeroUsize;

use kv_index::PodSet;
use routing_core::{Declare, Picker, PluginError, Ranking, RoutingContext, Totals};

use super::chance::exponential;
use super::least::{ordered, rank_least};
use crate::parameters::{Positive, parameters};

parameters! {
    /// What [`WeightedRandomPicker`] takes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[cfg_attr(feature = "serde", serde(try_from = "Written"))]
    pub struct WeightedRandomParameters {
        /// How many candidates are ranked; 3 unless given.
        pub most: NonZeroUsize = super::MOST,
        /// How far totals are softened; 0.1 unless given. Near 0 the highest total is always chosen, far above 1 all are equally
        /// likely. With none, chances are in proportion to the totals themselves: documents say `softened: false`.
        pub temperature: Option<Positive> = Positive::new(0.1),
    }
}

/// Parameters as they are written, before they are checked together.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(default)]
struct Written {
    most: NonZeroUsize,
    softened: bool,
    temperature: Option<Positive>,
}

#[cfg(feature = "serde")]
impl Default for Written {
    fn default() -> Self {
        Self { most: super::MOST, softened: true, temperature: None }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Written> for WeightedRandomParameters {
    type Error = &'static str;

    fn try_from(Written { most, softened, temperature }: Written) -> Result<Self, &'static str> {
        let temperature = match (softened, temperature) {
            (true, temperature) => temperature.or(Self::default().temperature),
            (false, None) => None,
            (false, Some(_)) => return Err("a `temperature` softens, and `softened` is false"),
        };
        Ok(Self { most, temperature })
    }
}

/// Draws candidates without replacement, each with a chance that grows with its total.
///
/// With a temperature T the chance is in proportion to exp(total / T), whatever the size of total / T. Without, it is in
/// proportion to the total; candidates with a total of 0 come after all others, and where all have 0, all are equally
/// likely. The next of the ranking is drawn by the same rule from those that are left.
///
/// Every candidate runs for the time Exp(1) / weight, and the order of arrival is the ranking.
#[derive(Debug)]
pub struct WeightedRandomPicker {
    parameters: WeightedRandomParameters,
}

impl WeightedRandomPicker {
    /// Declares nothing: totals and the seed are all it looks at.
    pub fn declare(_declare: &mut Declare<'_>, parameters: WeightedRandomParameters) -> Self {
        Self { parameters }
    }
}

impl<const W: usize> Picker<W> for WeightedRandomPicker {
    fn pick(
        &self,
        _: &RoutingContext<'_, W>,
        totals: &Totals<'_, W>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError> {
        let (candidates, seed, most) = (totals.candidates(), totals.seed(), self.parameters.most.get());
        match self.parameters.temperature {
            Some(temperature) => {
                let best = candidates.iter().map(|pod| totals.of(pod)).fold(0.0, f32::max);
                // Below the best no weight is above 1. In logarithms none becomes 0, and the order of all holds.
                rank_least(candidates, most, ranking, |pod| {
                    let weight = (f64::from(totals.of(pod)) - f64::from(best)) / temperature.get();
                    ordered(exponential(seed, pod).ln() - weight)
                });
            }
            None => {
                let weighed: PodSet<W> = candidates.iter().filter(|pod| totals.of(*pod) > 0.0).collect();
                rank_least(weighed, most, ranking, |pod| ordered(exponential(seed, pod) / f64::from(totals.of(pod))));
                let left = most.saturating_sub(ranking.picks().len());
                rank_least(candidates - weighed, left, ranking, |pod| ordered(exponential(seed, pod)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use routing_core::Workflow;

    use super::*;
    use crate::pick::testing::{build, fleet, numbers, profile, request};

    fn workflow(scores: &[f32], temperature: Option<f64>) -> Workflow {
        let scores = scores.to_vec();
        let temperature = temperature.map(|number| Positive::new(number).unwrap());
        let parameters = WeightedRandomParameters { temperature, ..WeightedRandomParameters::default() };
        let picker = move |declare: &mut Declare<'_>| WeightedRandomPicker::declare(declare, parameters);
        build(profile(move |pod| scores[pod], picker))
    }

    /// How often each pod is ranked at a place, and how often it should be.
    fn check(scores: &[f32], temperature: Option<f64>, place: usize, expected: &[f64]) {
        const DRAWS: usize = 20_000;
        let (workflow, fleet) = (workflow(scores, temperature), fleet(scores.len()));
        let mut counts = vec![0usize; scores.len()];
        (0..DRAWS as u64).for_each(|seed| counts[numbers(&workflow, &request(seed), &fleet)[place]] += 1);
        for (count, chance) in counts.iter().zip(expected) {
            // Four standard deviations; seeds are fixed, so it holds always or never.
            let spread = 4.0 * (chance * (1.0 - chance) / DRAWS as f64).sqrt();
            let share = *count as f64 / DRAWS as f64;
            assert!((share - chance).abs() <= spread + 1e-12, "{counts:?}, expected {expected:?}");
        }
    }

    #[test]
    fn chances_are_those_of_softmax() {
        let scores = [0.2f32, 0.3, 0.5, 0.0];
        for temperature in [0.05, 0.1, 1.0] {
            let weights = scores.map(|score| (f64::from(score) / temperature).exp());
            let sum: f64 = weights.iter().sum();
            check(&scores, Some(temperature), 0, &weights.map(|weight| weight / sum));
        }
    }

    #[test]
    fn chances_without_a_temperature_are_in_proportion() {
        check(&[1.0, 0.9, 0.5, 0.3, 0.2], None, 0, &[1.0, 0.9, 0.5, 0.3, 0.2].map(|score| score / 2.9));
        check(&[0.5, 0.0, 0.5], None, 0, &[0.5, 0.0, 0.5]);
        check(&[0.5, 0.0, 0.5], None, 2, &[0.0, 1.0, 0.0]);
        check(&[0.0; 4], None, 0, &[0.25; 4]);
    }

    #[test]
    fn the_second_is_drawn_from_those_that_are_left() {
        // After a first of weight 2 of 4, or one of two of weight 1 of 4.
        let (heavy, light) = (2.0 * 0.25 * (2.0 / 3.0), 0.5 * 0.5 + 0.25 * (1.0 / 3.0));
        check(&[0.5, 0.25, 0.25], None, 1, &[heavy, light, light]);
    }

    #[test]
    fn extreme_temperatures_are_the_best_and_evenly() {
        check(&[0.4, 0.400_001, 0.1], Some(1e-9), 0, &[0.0, 1.0, 0.0]);
        check(&[0.4, 0.400_001, 0.1], Some(1e-9), 1, &[1.0, 0.0, 0.0]);
        check(&[0.4, 1.0, 0.1], Some(f64::MIN_POSITIVE), 0, &[0.0, 1.0, 0.0]);
        check(&[0.0, 0.0, 1.0], Some(1e300), 0, &[1.0 / 3.0; 3]);
    }

    #[test]
    fn it_replays() {
        let (workflow, fleet) = (workflow(&[0.5; 20], Some(0.1)), fleet(20));
        for seed in 0..50 {
            assert_eq!(numbers(&workflow, &request(seed), &fleet), numbers(&workflow, &request(seed), &fleet));
        }
    }
}
