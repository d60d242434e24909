//! A pod's KV memory: frames, the blocks in them by both names, and an event for every change.
//!
//! The rule that must never break: events, counted copy by copy, add up to what the pool holds.

use std::collections::HashMap;

use kv_index::engine::BlockDigest;
use kv_index::{BlockHash, BlockSize};

use crate::events::CacheEvent;
use crate::names::{Chain, block};
use crate::paged::frames::Frame;
use crate::paged::pool::Pool;

/// Paged memory that tells what becomes of it.
#[derive(Debug)]
pub(super) struct Memory {
    size: BlockSize,
    capacity: usize,
    pool: Pool,
    /// What the engine calls each cached block.
    names: HashMap<BlockHash, BlockDigest>,
}

impl Memory {
    pub(super) fn new(size: BlockSize, capacity: u32) -> Self {
        Self { size, capacity: capacity as usize, pool: Pool::new(capacity), names: HashMap::new() }
    }

    /// Gives `frames` as many as `tokens` tokens need; `events` tells what was evicted for them.
    pub(super) fn grow(&mut self, frames: &mut Vec<Frame>, tokens: usize, events: &mut Vec<CacheEvent>) {
        while frames.len() < self.frames_for(tokens) {
            let claim = self.pool.claim().expect("a promised frame is free or can be evicted");
            frames.push(claim.frame);
            if let Some(hash) = claim.evicted {
                events.push(CacheEvent::Removed(block(hash, &self.forget(hash))));
            }
        }
    }

    /// Enters the blocks `from..to` of a chain, whose tokens are all there, as one event.
    pub(super) fn seal(
        &mut self,
        chain: &Chain,
        tokens: &[u32],
        frames: &[Frame],
        from: usize,
        to: usize,
    ) -> CacheEvent {
        for ((&frame, &hash), &digest) in frames.iter().zip(&chain.hashes).zip(&chain.digests).take(to).skip(from) {
            self.pool.seal(frame, hash);
            self.names.insert(hash, digest);
        }
        let size = self.size.tokens();
        CacheEvent::Stored {
            parent: from.checked_sub(1).map(|at| chain.block(at)),
            blocks: (from..to).map(|at| chain.block(at)).collect(),
            tokens: tokens[from * size..to * size].to_vec(),
            block_size: size as u32,
            salt: chain.salt.clone().filter(|_| from == 0),
        }
    }

    pub(super) fn share(&mut self, frames: &[Frame]) {
        frames.iter().for_each(|&frame| self.pool.share(frame));
    }

    /// Counts one user of each frame out, the last frame first: eviction takes tails before what they follow.
    pub(super) fn release(&mut self, frames: &[Frame]) {
        frames.iter().rev().for_each(|&frame| self.pool.release(frame));
    }

    /// The frames of the leading blocks, at most `most`, as far as they are cached.
    pub(super) fn prefix(&self, chain: &Chain, most: usize) -> Vec<Frame> {
        self.pool.prefix(&chain.hashes[..most]).collect()
    }

    pub(super) fn name(&self, hash: BlockHash) -> Option<BlockDigest> {
        self.names.get(&hash).copied()
    }

    pub(super) fn frames_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.size.tokens())
    }

    /// Whether `needed` frames can be had beside those that are `shared` from the cache and those `promised` to others.
    pub(super) fn has_room(&self, needed: usize, shared: &[Frame], promised: usize) -> bool {
        let idle = shared.iter().filter(|&&frame| self.pool.is_free(frame)).count();
        needed + idle + promised <= self.pool.free()
    }

    pub(super) fn block_size(&self) -> BlockSize {
        self.size
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Frames with a user.
    pub(super) fn used(&self) -> usize {
        self.capacity - self.pool.free()
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = (BlockHash, u32)> + '_ {
        self.pool.blocks().map(|(hash, copies)| (hash, copies as u32))
    }

    /// Blocks that have a name.
    #[cfg(test)]
    pub(super) fn names(&self) -> usize {
        self.names.len()
    }

    /// The name of a block of which a copy is gone; forgotten with the last one.
    fn forget(&mut self, hash: BlockHash) -> BlockDigest {
        let name = *self.names.get(&hash).expect("what is cached has a name");
        if self.pool.find(hash).is_none() {
            self.names.remove(&hash);
        }
        name
    }
}
