//! Empirical distributions: numbers drawn from measured quantiles.

use pointsman_test_support::SplitMix64;

/// A distribution by its quantiles: shares that rise from 0 to 1, and what so many stay within.
pub(super) type Quantiles = [(f64, f64)];

/// A number of this distribution: between two quantiles evenly on a logarithmic scale.
pub(super) fn draw(rng: &mut SplitMix64, quantiles: &Quantiles) -> f64 {
    let share = rng.next_f64();
    let at = quantiles.partition_point(|&(upto, _)| upto <= share).clamp(1, quantiles.len() - 1);
    let ((low, from), (high, to)) = (quantiles[at - 1], quantiles[at]);
    from * (to / from).powf((share - low) / (high - low))
}

/// Numbers from 0, the n-th drawn in proportion to a power of `1 / n` (Zipf's law).
pub(super) struct Zipf(Vec<f64>);

impl Zipf {
    pub(super) fn new(count: usize, power: f64) -> Self {
        let mut sum = 0.0;
        Self((1..=count).map(|n| (sum += (n as f64).powf(-power), sum).1).collect())
    }

    pub(super) fn draw(&self, rng: &mut SplitMix64) -> usize {
        let sum = rng.next_f64() * self.0.last().copied().unwrap_or(0.0);
        self.0.partition_point(|&upto| upto <= sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_fit_their_quantiles() {
        let (mut rng, quantiles) = (SplitMix64::new(1), [(0.0, 1.0), (0.5, 10.0), (1.0, 100.0)]);
        let drawn: Vec<f64> = (0..4_000).map(|_| draw(&mut rng, &quantiles)).collect();
        assert!(drawn.iter().all(|value| (1.0..=100.0).contains(value)));
        let below = |most: f64| drawn.iter().filter(|&&value| value < most).count() as f64 / 4_000.0;
        assert!((below(10.0) - 0.5).abs() < 0.03 && (below(10f64.sqrt()) - 0.25).abs() < 0.03);
    }

    #[test]
    fn the_first_of_zipf_is_drawn_most() {
        let (mut rng, zipf) = (SplitMix64::new(1), Zipf::new(100, 1.0));
        let mut counts = [0; 100];
        (0..20_000).for_each(|_| counts[zipf.draw(&mut rng)] += 1);
        let ratio = f64::from(counts[0]) / f64::from(counts[9]);
        assert!((7.0..14.0).contains(&ratio), "{ratio}");
        assert!(counts[99] > 0);
    }
}
