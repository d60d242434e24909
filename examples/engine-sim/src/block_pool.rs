//! Paged KV cache with prefix sharing (vLLM's block pool): reference counts, copies by hash, LRU free queue, host tier.
//!
//! A *block* here is a place in memory. One that holds all its tokens is sealed with their hash; several may have the same
//! hash, each a copy. Blocks without a user stay cached until their room is needed, least recently released first; a
//! request releases its last block first, so that of one prompt the tail goes before the head.
//!
//! Invariants: a block with a user is never evicted; a hash is cached exactly as long as one of its copies is; where users
//! hold whole prefixes, the predecessors of a cached block are cached.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use kv_index::{BlockHash, Digest, Tier};

/// The KV memory of one engine.
#[derive(Clone, Debug, Default)]
pub struct BlockPool {
    capacity: usize,
    /// Blocks that were ever used; the others come into being when they are.
    blocks: Vec<Block>,
    /// Blocks with neither user nor hash.
    empty: Vec<BlockId>,
    /// The newest copy of each hash; the others follow through [`Block::copy`].
    cached: HashMap<BlockHash, BlockId, BuildHasherDefault<IdentityHasher>>,
    /// Ends of the free queue.
    oldest: Option<BlockId>,
    newest: Option<BlockId>,
    used: usize,
    host: Option<Box<Self>>,
}

/// A place in memory for one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockId(u32);

/// What was evicted, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a caller drains: complete by nature")]
pub struct Evicted {
    /// Copies that left GPU memory.
    pub gpu: Vec<BlockHash>,
    /// Those of them that are new to host memory.
    pub offloaded: Vec<BlockHash>,
    /// Blocks that left host memory.
    pub host: Vec<BlockHash>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    hash: Option<BlockHash>,
    users: u32,
    /// The next older copy of the same hash.
    copy: Option<BlockId>,
    older: Option<BlockId>,
    newer: Option<BlockId>,
}

impl BlockPool {
    /// An empty pool of `capacity` blocks, and room for `host` of those that leave.
    #[must_use]
    pub fn new(capacity: usize, host: usize) -> Self {
        Self { capacity, host: (host > 0).then(|| Box::new(Self::new(host, 0))), ..Self::default() }
    }

    /// Takes a block for one user, and evicts the least recently released one if it must. None if all have users.
    pub fn allocate(&mut self, evicted: &mut Evicted) -> Option<BlockId> {
        let id = match self.empty.pop() {
            Some(id) => id,
            None if self.blocks.len() < self.capacity => {
                self.blocks.push(Block::default());
                BlockId(self.blocks.len() as u32 - 1)
            }
            None => self.evict(evicted)?,
        };
        *self.at_mut(id) = Block { users: 1, ..Block::default() };
        self.used += 1;
        Some(id)
    }

    /// Enters a block that a user has, now that all its tokens are there.
    pub fn seal(&mut self, id: BlockId, hash: BlockHash) {
        let copy = self.cached.insert(hash, id);
        let block = self.at_mut(id);
        debug_assert!(block.users > 0 && block.hash.is_none(), "sealed once, by its user");
        (block.hash, block.copy) = (Some(hash), copy);
    }

    /// Counts one more user in.
    pub fn share(&mut self, id: BlockId) {
        let block = self.at_mut(id);
        block.users += 1;
        if block.users == 1 {
            self.used += 1;
            self.unlink(id);
        }
    }

    /// Counts one user of each block out, the last block first.
    pub fn release(&mut self, ids: &[BlockId]) {
        for &id in ids.iter().rev() {
            let block = self.at_mut(id);
            block.users -= 1;
            if block.users > 0 {
                continue;
            }
            let is_cached = block.hash.is_some();
            self.used -= 1;
            if is_cached { self.push_newest(id) } else { self.empty.push(id) }
        }
    }

    /// A block with this hash.
    #[must_use]
    pub fn find(&self, hash: BlockHash) -> Option<BlockId> {
        self.cached.get(&hash).copied()
    }

    /// Blocks of a chain's leading hashes, as far as they are cached.
    pub fn prefix<'a>(&'a self, chain: &'a [BlockHash]) -> impl Iterator<Item = BlockId> + 'a {
        chain.iter().map_while(|&hash| self.find(hash))
    }

    /// How many leading hashes of a chain are cached in host memory.
    #[must_use]
    pub fn host_prefix(&self, chain: &[BlockHash]) -> usize {
        self.host.as_ref().map_or(0, |host| host.prefix(chain).count())
    }

    /// Whether a block has no user.
    #[must_use]
    pub fn is_free(&self, id: BlockId) -> bool {
        self.at(id).users == 0
    }

    /// Blocks without a user.
    #[must_use]
    pub fn free(&self) -> usize {
        self.capacity - self.used
    }

    /// Blocks with a user.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Every cached hash, in no order, and its number of copies.
    pub fn copies(&self) -> impl Iterator<Item = (BlockHash, u32)> + '_ {
        let older = |id: &BlockId| self.at(*id).copy;
        self.cached.iter().map(move |(&hash, &id)| (hash, std::iter::successors(Some(id), older).count() as u32))
    }

    /// Digest of all copies in GPU memory, as a worker reports it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.copies().flat_map(|(hash, copies)| std::iter::repeat_n((hash, Tier::Gpu), copies as usize)))
    }

    fn evict(&mut self, evicted: &mut Evicted) -> Option<BlockId> {
        let id = self.oldest?;
        self.unlink(id);
        let hash = self.at(id).hash.expect("what is in the free queue has a hash");
        self.forget_copy(hash, id);
        evicted.gpu.push(hash);
        if let Some(host) = &mut self.host {
            host.offload(hash, evicted);
        }
        Some(id)
    }

    /// In host memory: enters a block, or makes it the newest.
    fn offload(&mut self, hash: BlockHash, evicted: &mut Evicted) {
        let mut left = Evicted::default();
        let id = match self.find(hash) {
            Some(id) => {
                self.share(id);
                id
            }
            None => {
                let id = self.allocate(&mut left).expect("host blocks have no users");
                self.seal(id, hash);
                evicted.offloaded.push(hash);
                id
            }
        };
        self.release(&[id]);
        evicted.host.append(&mut left.gpu);
    }

    fn forget_copy(&mut self, hash: BlockHash, id: BlockId) {
        let older = self.at(id).copy;
        let head = self.cached.get_mut(&hash).expect("a sealed block is listed");
        if *head != id {
            let mut at = *head;
            while self.at(at).copy != Some(id) {
                at = self.at(at).copy.expect("a sealed block is among the copies of its hash");
            }
            self.at_mut(at).copy = older;
        } else if let Some(older) = older {
            *head = older;
        } else {
            self.cached.remove(&hash);
        }
    }

    fn push_newest(&mut self, id: BlockId) {
        let older = self.newest.replace(id);
        let block = self.at_mut(id);
        (block.older, block.newer) = (older, None);
        match older {
            Some(older) => self.at_mut(older).newer = Some(id),
            None => self.oldest = Some(id),
        }
    }

    fn unlink(&mut self, id: BlockId) {
        let Block { older, newer, .. } = *self.at(id);
        match older {
            Some(older) => self.at_mut(older).newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.at_mut(newer).older = older,
            None => self.newest = older,
        }
    }

    fn at(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    fn at_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id.0 as usize]
    }
}

impl BlockId {
    /// The number, as engines name blocks to each other.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Identity hasher: block hashes are spread already.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests;
