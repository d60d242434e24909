//! Chance from a seed: the same seed, the same workload.

/// A small generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
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

    /// A prompt of so many blocks as hashes that nobody else has.
    pub fn chain(&mut self, blocks: usize) -> Vec<kv_index::BlockHash> {
        (0..blocks).map(|_| kv_index::BlockHash::new(self.bits())).collect()
    }

    /// A prompt of so many tokens.
    pub fn tokens(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(VOCABULARY) as u32).collect()
    }
}

/// Distinct tokens.
const VOCABULARY: usize = 128_000;
