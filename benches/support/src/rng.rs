//! SplitMix64: a seeded pseudorandom generator. One seed gives one sequence, on every machine and in every version.

/// The generator of Steele, Lea and Flood (2014). Good enough for tests and traffic, and for nothing secret.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that depends on nothing but `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(INCREMENT);
        splitmix64(self.0)
    }

    /// Another generator, independent of this one's next numbers.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }

    /// A number below `end`, or 0 if `end` is.
    pub fn below(&mut self, end: usize) -> usize {
        // The high half of a product: even for every `end` far below 2^64.
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// True `percent` times in 100.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A number from 0 up to but not 1.
    pub fn next_f64(&mut self) -> f64 {
        // As many bits as a fraction holds, or rounding would reach 1.
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A draw from the exponential distribution: the time between two events of a Poisson process.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.next_f64()).ln() * mean
    }

    /// Puts a slice in a random order (Fisher–Yates).
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

/// SplitMix64's finalizer: spreads a number over all bits; different ones stay different.
#[must_use]
pub const fn splitmix64(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    /// From the reference implementation in C, seeded with 1234567.
    #[test]
    fn the_sequence_is_the_published_one() {
        let mut rng = SplitMix64::new(1_234_567);
        assert_eq!([rng.next_u64(), rng.next_u64()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed| {
            let mut rng = SplitMix64::new(seed);
            (0..8).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn numbers_stay_in_range_and_reach_both_ends() {
        let mut rng = SplitMix64::new(1);
        let drawn: Vec<usize> = (0..1_000).map(|_| rng.between(5, 8)).collect();
        assert!((5..=8).all(|n| drawn.contains(&n)));
        assert!(drawn.iter().all(|n| (5..=8).contains(n)));
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.between(7, 7), 7);
    }

    #[test]
    fn a_shuffle_moves_and_loses_nothing() {
        let mut items: Vec<usize> = (0..100).collect();
        SplitMix64::new(2).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.into_iter().eq(0..100));
        assert!(SplitMix64::new(2).draws(50, 7).iter().all(|&n| n < 7));
    }

    #[test]
    fn fractions_are_even_and_exponential_draws_have_their_mean() {
        let mut rng = SplitMix64::new(3);
        let fractions: Vec<f64> = (0..10_000).map(|_| rng.next_f64()).collect();
        assert!(fractions.iter().all(|fraction| (0.0..1.0).contains(fraction)));
        assert!((fractions.iter().sum::<f64>() / 1e4 - 0.5).abs() < 0.02);
        let mean = (0..10_000).map(|_| rng.exponential(8.0)).sum::<f64>() / 1e4;
        assert!((mean - 8.0).abs() < 0.4, "{mean}");
    }
}
