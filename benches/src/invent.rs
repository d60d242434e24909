//! Prompts by chance, as hashes and as tokens.

use kv_index::BlockHash;
use pointsman_lab::rng::Rng;

/// Prompts that nobody else has.
pub trait Invent {
    /// One of so many blocks.
    fn chain(&mut self, blocks: usize) -> Vec<BlockHash>;

    /// One of so many tokens.
    fn tokens(&mut self, count: usize) -> Vec<u32>;
}

impl Invent for Rng {
    fn chain(&mut self, blocks: usize) -> Vec<BlockHash> {
        (0..blocks).map(|_| BlockHash::new(self.bits())).collect()
    }

    fn tokens(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(VOCABULARY) as u32).collect()
    }
}

/// Distinct tokens.
const VOCABULARY: usize = 128_000;
