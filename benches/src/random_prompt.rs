//! Random prompts, as block hashes and as tokens.

use kv_index::BlockHash;
use pointsman_lab::SplitMix64;

/// Prompts that share no prefix.
pub trait RandomPrompt {
    /// One of so many blocks.
    fn chain(&mut self, blocks: usize) -> Vec<BlockHash>;

    /// One of so many tokens.
    fn tokens(&mut self, count: usize) -> Vec<u32>;
}

impl RandomPrompt for SplitMix64 {
    fn chain(&mut self, blocks: usize) -> Vec<BlockHash> {
        (0..blocks).map(|_| BlockHash::new(self.next_u64())).collect()
    }

    fn tokens(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(VOCABULARY) as u32).collect()
    }
}

/// Distinct tokens.
const VOCABULARY: usize = 128_000;
