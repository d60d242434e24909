//! Interleaved measurement on a noisy machine: rounds of all lanes in turn, medians with their spread.

use serde::Serialize;

/// The middle and the ends of repeated measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of these samples, of which there is at least one.
    #[must_use]
    pub fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        Self { median: samples[samples.len() / 2], min: samples[0], max: samples[samples.len() - 1] }
    }
}

/// Measures every lane once a round, each round beginning with another one.
///
/// What disturbs the machine disturbs neighbours in time alike, and who runs first warms the caches for
/// the rest.
pub fn interleaved(rounds: usize, lanes: usize, mut measure: impl FnMut(usize) -> f64) -> Vec<Spread> {
    in_turn(rounds, lanes, |_, lane| measure(lane))
}

/// The same for a measurement that differs by round: it is told the round, then the lane.
pub fn in_turn(rounds: usize, lanes: usize, measure: impl FnMut(usize, usize) -> f64) -> Vec<Spread> {
    samples_in_turn(rounds, lanes, measure).into_iter().map(Spread::of).collect()
}

/// The same for a measurement that gives a figure a phase: by phase, the spread of each lane.
pub fn by_phase<const N: usize>(
    rounds: usize,
    lanes: usize,
    mut measure: impl FnMut(usize) -> [f64; N],
) -> [Vec<Spread>; N] {
    let samples = samples_in_turn(rounds, lanes, |_, lane| measure(lane));
    let spread = |phase: usize, lane: &Vec<[f64; N]>| Spread::of(lane.iter().map(|figures| figures[phase]).collect());
    std::array::from_fn(|phase| samples.iter().map(|lane| spread(phase, lane)).collect())
}

/// By lane, what a measurement gave; it is told the round, then the lane.
pub fn samples_in_turn<T>(rounds: usize, lanes: usize, mut measure: impl FnMut(usize, usize) -> T) -> Vec<Vec<T>> {
    let mut samples: Vec<Vec<T>> = (0..lanes).map(|_| Vec::with_capacity(rounds)).collect();
    for round in 0..rounds {
        for lane in (0..lanes).map(|i| (round + i) % lanes) {
            samples[lane].push(measure(round, lane));
        }
    }
    samples
}

/// Laps that a round of short questions is cut into: whoever is interrupted in one loses that lap and not the round.
pub const LAPS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_is_measured_every_round() {
        let mut calls = Vec::new();
        let spreads = interleaved(3, 2, |lane| {
            calls.push(lane);
            calls.len() as f64
        });
        assert_eq!(calls, [0, 1, 1, 0, 0, 1]);
        assert_eq!(spreads[0], Spread { median: 4.0, min: 1.0, max: 5.0 });
        let mut rounds = Vec::new();
        in_turn(2, 2, |round, lane| {
            rounds.push((round, lane));
            0.0
        });
        assert_eq!(rounds, [(0, 0), (0, 1), (1, 1), (1, 0)]);
    }
}
