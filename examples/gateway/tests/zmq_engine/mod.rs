//! An engine of conversations: it announces what it does, and knows exactly what it holds.

use kv_index::engine::native_seed;
use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed, Digest, Tier};
use pointsman_engine_sim::events::{Block, CacheEvent};
use pointsman_lab::SplitMix64;

/// Tokens in a block.
const SIZE: usize = 4;
const CONVERSATIONS: usize = 12;

/// What everybody hashes by.
pub(crate) fn model() -> (ChainSeed, BlockSize) {
    (ChainSeed::new("sim"), BlockSize::new(SIZE as u32).unwrap())
}

/// An engine without traffic of its own.
pub(crate) struct Engine {
    rng: SplitMix64,
    /// What its hashes begin with: differs from life to life.
    seed: u64,
    /// Copies of the blocks of each conversation, from its first on.
    held: Vec<Vec<u32>>,
}

impl Engine {
    /// With an empty cache.
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: SplitMix64::new(seed), seed, held: vec![Vec::new(); CONVERSATIONS] }
    }

    /// Works a little: the changes of a step, never none.
    pub(crate) fn step(&mut self) -> Vec<CacheEvent> {
        let mut events = Vec::new();
        for _ in 0..self.rng.between(1, 3) {
            let at = self.rng.below(CONVERSATIONS);
            let depth = self.held[at].len();
            match self.rng.below(8) {
                // The last block is computed again: another copy.
                0 if depth > 0 => events.push(self.store(at, depth - 1..depth)),
                1..=3 if depth > 0 => events.push(self.evict(at)),
                _ => events.push(self.store(at, depth..depth + 1 + at % 3)),
            }
        }
        events
    }

    /// Forgets everything, and says so.
    #[allow(dead_code, reason = "not every test that shares this engine has it forget")]
    pub(crate) fn clear(&mut self) -> Vec<CacheEvent> {
        self.held.iter_mut().for_each(Vec::clear);
        vec![CacheEvent::Cleared]
    }

    /// Forgets everything, and says nothing: the process died. Blocks have other names from now on.
    #[allow(dead_code, reason = "not every test that shares this engine has it die")]
    pub(crate) fn restart(&mut self) {
        self.clear();
        self.seed = self.rng.next_u64();
    }

    /// What it holds. In token mode the feed counts the copies, and the index knows a block once.
    pub(crate) fn digest(&self) -> Digest {
        let chains = self.held.iter().enumerate().flat_map(|(at, copies)| chain(at, copies.len()));
        Digest::of(chains.map(|hash| (hash, Tier::Gpu)))
    }

    fn store(&mut self, at: usize, range: std::ops::Range<usize>) -> CacheEvent {
        let chain = chain(at, range.end);
        let tokens = tokens(at, range.end)[range.start * SIZE..].to_vec();
        let parent = range.start.checked_sub(1).map(|before| self.block(chain[before]));
        let blocks = chain[range.clone()].iter().map(|hash| self.block(*hash)).collect();
        let copies = &mut self.held[at];
        copies.resize(copies.len().max(range.end), 0);
        copies[range].iter_mut().for_each(|copies| *copies += 1);
        CacheEvent::Stored { parent, blocks, tokens, block_size: SIZE as u32, salt: None }
    }

    /// One copy of a conversation's last block goes.
    fn evict(&mut self, at: usize) -> CacheEvent {
        let hash = *chain(at, self.held[at].len()).last().unwrap();
        let copies = self.held[at].last_mut().unwrap();
        *copies -= 1;
        if *copies == 0 {
            self.held[at].pop();
        }
        CacheEvent::Removed(self.block(hash))
    }

    fn block(&self, hash: BlockHash) -> Block {
        Block { hash, engine_hash: hash.get().rotate_left(17) ^ self.seed }
    }
}

fn tokens(conversation: usize, blocks: usize) -> Vec<u32> {
    (0..blocks * SIZE).map(|at| (conversation * 100_000 + at) as u32).collect()
}

fn chain(conversation: usize, blocks: usize) -> Vec<BlockHash> {
    let (model, size) = model();
    ChainHasher::new(native_seed(model, None, None), size).hash(&tokens(conversation, blocks))
}
