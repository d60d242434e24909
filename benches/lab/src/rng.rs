//! Seeded chance: the same seed gives the same run.

/// A small generator (splitmix64). Good enough for traffic, and for nothing secret.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that depends on nothing but `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another generator, independent of what this one gives next.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.bits())
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    /// A number below `end`, or 0 if `end` is.
    pub fn below(&mut self, end: usize) -> usize {
        // The high half of a product: even for every `end` far below 2^64.
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A number from 0 up to but not 1.
    pub fn chance(&mut self) -> f64 {
        // As many bits as a fraction holds, or rounding would reach 1.
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A wait between two of many independent events, so long in the mean.
    pub fn wait(&mut self, mean: f64) -> f64 {
        -(1.0 - self.chance()).ln() * mean
    }

    /// Puts a slice in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    /// `count` numbers below `end`, with repetitions.
    pub fn draws(&mut self, count: usize, end: usize) -> Vec<usize> {
        (0..count).map(|_| self.below(end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn numbers_stay_in_range_and_reach_both_ends() {
        let mut rng = Rng::new(1);
        let drawn: Vec<usize> = (0..1_000).map(|_| rng.between(5, 8)).collect();
        assert!((5..=8).all(|n| drawn.contains(&n)));
        assert!(drawn.iter().all(|n| (5..=8).contains(n)));
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.between(7, 7), 7);
    }

    #[test]
    fn a_shuffle_moves_and_loses_nothing() {
        let mut items: Vec<usize> = (0..100).collect();
        Rng::new(2).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.into_iter().eq(0..100));
        assert!(Rng::new(2).draws(50, 7).iter().all(|&n| n < 7));
    }

    #[test]
    fn chances_are_even_and_waits_have_their_mean() {
        let mut rng = Rng::new(3);
        let chances: Vec<f64> = (0..10_000).map(|_| rng.chance()).collect();
        assert!(chances.iter().all(|chance| (0.0..1.0).contains(chance)));
        assert!((chances.iter().sum::<f64>() / 1e4 - 0.5).abs() < 0.02);
        let mean = (0..10_000).map(|_| rng.wait(8.0)).sum::<f64>() / 1e4;
        assert!((mean - 8.0).abs() < 0.4, "{mean}");
    }
}
