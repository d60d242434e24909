//! System under test: what an index implements to be measured, generic so that nothing stands between the clock and its
//! calls.
//!
//! The rule: what a system's calls want to own is built before the clock starts, and what they leave undone when they
//! return is waited for before it stops.

use std::time::Duration;

use kv_index::BlockHash;

use crate::fleet::Step;

/// A system that can be fed and asked.
pub trait System {
    /// What it is called in tables.
    const NAME: &'static str;
    /// One prompt in the forms that the system's calls take.
    type Chain;

    /// An empty one for so many pods.
    fn new(pods: usize) -> Self;
    /// A prompt whose hashes are the same numbers for every system.
    fn chain(hashes: &[BlockHash]) -> Self::Chain;
    /// A prompt by the system's own hashes.
    fn chain_of_tokens(tokens: &[u32]) -> Self::Chain;
    /// Reads a prompt as a query; a number that depends on all of it.
    fn touch(chain: &Self::Chain) -> u64;
    /// Applies steps; how long that took until a search sees them.
    fn write(&mut self, chains: &[Self::Chain], steps: &[Step]) -> Duration;
    /// Searches; a number that depends on the whole answer.
    fn ask(&mut self, chain: &Self::Chain) -> u64;
    /// Hashes tokens and searches.
    fn ask_tokens(&mut self, tokens: &[u32]) -> u64;
    /// The answer by pod.
    fn depths(&mut self, chain: &Self::Chain, depths: &mut [u32]);

    /// Hashes tokens as a query; a number that depends on all of it.
    fn hash_tokens(&mut self, tokens: &[u32]) -> u64;
    /// The answer by pod from tokens, by the call of [`System::ask_tokens_lazily`].
    fn depths_of_tokens(&mut self, tokens: &[u32], depths: &mut [u32]);
    /// Forgets all that a pod holds; how long that took until a search sees it.
    fn clear(&mut self, pod: usize) -> Duration;

    /// Searches and reads the answer pod by pod; the same where it comes so anyway.
    fn ask_by_pod(&mut self, chain: &Self::Chain) -> u64 {
        self.ask(chain)
    }
    /// Hashes only as many tokens as the search asks for, if the system can.
    fn ask_tokens_lazily(&mut self, tokens: &[u32]) -> u64 {
        self.ask_tokens(tokens)
    }
    /// Hashes tokens, searches and decides; without a decision layer of its own, the first two.
    fn plan_tokens(&mut self, tokens: &[u32]) -> u64 {
        self.ask_tokens(tokens)
    }
    /// The pod that a plan for these tokens chooses, and how many blocks the plan says it holds.
    fn planned(&mut self, tokens: &[u32]) -> Option<(usize, usize)> {
        let _ = tokens;
        None
    }
    /// Stores that the system would not take, if it says so.
    fn refused(&self) -> usize {
        0
    }
    /// Look-ups that the last search took, if the system counts them.
    fn probes(&self) -> Option<usize> {
        None
    }
    /// Bytes the system itself says it takes.
    fn claimed_bytes(&self) -> Option<usize> {
        None
    }
    /// Gives back what can be given back.
    fn tidy(&mut self) {}
}

/// Tokens in a block.
pub const BLOCK_TOKENS: usize = 16;
