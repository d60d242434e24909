//! Block pool of one engine: blocks in a fixed number of places, prefixes used again, the longest unused given up first.
//!
//! The rule: a held block's predecessors are held. Whoever uses a block uses all before it, and of blocks that fell idle
//! together the last of the chain is given up first.

use std::collections::{HashMap, VecDeque};

use kv_index::BlockHash;

/// One paged cache.
#[derive(Debug)]
pub struct BlockPool {
    capacity: usize,
    blocks: HashMap<BlockHash, CachedBlock>,
    /// Idle blocks, oldest first, with what their stamp was then; those used since are passed over.
    idle: VecDeque<(u64, BlockHash)>,
    /// Blocks that running requests use.
    used: usize,
    stamps: u64,
}

#[derive(Debug)]
struct CachedBlock {
    users: u32,
    stamp: u64,
}

/// What became of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admitted {
    /// Leading blocks that were there.
    pub reused: usize,
    /// Leading blocks that are there now; fewer than all if running requests use the rest of the cache.
    pub held: usize,
}

impl BlockPool {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity, blocks: HashMap::new(), idle: VecDeque::new(), used: 0, stamps: 0 }
    }

    /// Begins a request: uses what is held of its prompt and computes the rest. What has to go for that is appended to
    /// `evicted`, in order.
    pub fn admit(&mut self, prompt: &[BlockHash], evicted: &mut Vec<BlockHash>) -> Admitted {
        let reused = self.held(prompt);
        for hash in &prompt[..reused] {
            self.take(*hash);
        }
        let held = prompt.len().min(reused + self.capacity - self.used);
        self.make_room(held - reused, evicted);
        for hash in &prompt[reused..held] {
            self.take(*hash);
        }
        Admitted { reused, held }
    }

    /// Adds a decoded block to a running request; false if running requests use the whole cache.
    pub fn grow(&mut self, block: BlockHash, evicted: &mut Vec<BlockHash>) -> bool {
        if self.used == self.capacity {
            return false;
        }
        self.make_room(1, evicted);
        self.take(block);
        true
    }

    /// Ends a request that used these blocks.
    pub fn release(&mut self, blocks: &[BlockHash]) {
        for hash in blocks.iter().rev() {
            let Some(block) = self.blocks.get_mut(hash) else { continue };
            block.users -= 1;
            if block.users == 0 {
                self.used -= 1;
                self.stamps += 1;
                block.stamp = self.stamps;
                self.idle.push_back((self.stamps, *hash));
            }
        }
        if self.idle.len() > 4 * self.capacity {
            let blocks = &self.blocks;
            self.idle.retain(|(stamp, hash)| is_idle(blocks.get(hash), *stamp));
        }
    }

    /// How many leading blocks are held.
    #[must_use]
    pub fn held(&self, prompt: &[BlockHash]) -> usize {
        prompt.iter().take_while(|hash| self.blocks.contains_key(hash)).count()
    }

    /// How many blocks are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn take(&mut self, hash: BlockHash) {
        let block = self.blocks.entry(hash).or_insert(CachedBlock { users: 0, stamp: 0 });
        self.used += usize::from(block.users == 0);
        block.users += 1;
    }

    fn make_room(&mut self, places: usize, evicted: &mut Vec<BlockHash>) {
        while self.blocks.len() + places > self.capacity {
            let Some((stamp, hash)) = self.idle.pop_front() else { return };
            if is_idle(self.blocks.get(&hash), stamp) {
                self.blocks.remove(&hash);
                evicted.push(hash);
            }
        }
    }
}

fn is_idle(block: Option<&CachedBlock>, stamp: u64) -> bool {
    block.is_some_and(|block| block.users == 0 && block.stamp == stamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_lab::SplitMix64;

    fn chain(of: &[u64]) -> Vec<BlockHash> {
        of.iter().map(|&hash| BlockHash::new(hash)).collect()
    }

    #[test]
    fn the_longest_unused_goes_first_and_its_tail_before_its_head() {
        let (mut pool, mut evicted) = (BlockPool::new(6), Vec::new());
        let (old, new) = (chain(&[1, 2, 3]), chain(&[1, 4, 5]));
        assert_eq!(pool.admit(&old, &mut evicted), Admitted { reused: 0, held: 3 });
        pool.release(&old);
        assert_eq!(pool.admit(&new, &mut evicted), Admitted { reused: 1, held: 3 });
        pool.release(&new);
        assert!(evicted.is_empty());
        let next = chain(&[7, 8, 9]);
        pool.admit(&next, &mut evicted);
        assert_eq!(evicted, chain(&[3, 2]), "block 1 was used later, by the other chain");
        assert!(pool.grow(BlockHash::new(10), &mut evicted));
        assert_eq!(evicted, chain(&[3, 2, 5]));
    }

    #[test]
    fn what_runs_stays_and_what_finds_no_room_is_cut() {
        let (mut pool, mut evicted) = (BlockPool::new(4), Vec::new());
        let running = chain(&[1, 2, 3]);
        pool.admit(&running, &mut evicted);
        assert_eq!(pool.admit(&chain(&[5, 6]), &mut evicted), Admitted { reused: 0, held: 1 });
        assert!(!pool.grow(BlockHash::new(9), &mut evicted) && evicted.is_empty());
        pool.release(&running);
        assert!(pool.grow(BlockHash::new(9), &mut evicted));
        assert_eq!(evicted, chain(&[3]));
    }

    /// Whatever comes, the capacity is kept, nothing that runs goes, and predecessors of held blocks are held.
    #[test]
    fn the_rule_holds_under_chance() {
        let (mut rng, mut pool, mut evicted) = (SplitMix64::new(5), BlockPool::new(64), Vec::new());
        let chains: Vec<Vec<BlockHash>> = (0..40u64)
            .map(|i| chain(&(0..24).map(|at| 1 + at + if at < 6 { 0 } else { 1_000 * (1 + i) }).collect::<Vec<_>>()))
            .collect();
        let mut running: Vec<Vec<BlockHash>> = Vec::new();
        let mut gone = 0;
        for _ in 0..3_000 {
            let pick = &chains[rng.below(chains.len())];
            let admitted = pool.admit(&pick[..1 + rng.below(24)], &mut evicted);
            running.push(pick[..admitted.held].to_vec());
            if running.len() > 3 {
                let ended = running.swap_remove(rng.below(running.len()));
                pool.release(&ended);
            }
            gone += evicted.len();
            for hash in evicted.drain(..) {
                assert!(!running.iter().any(|blocks| blocks.contains(&hash)));
            }
            assert!(pool.len() <= 64);
            for chain in &chains {
                let held = chain.iter().filter(|hash| pool.blocks.contains_key(hash)).count();
                assert_eq!(pool.held(chain), held, "no holes");
            }
        }
        assert!(gone > 1_000);
    }
}
