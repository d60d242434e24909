//! A pod's KV memory, block by block: shared blocks by their hash, and how many are taken by single requests.
//!
//! As in vLLM, blocks without a user stay until their room is needed, least recently released first; a request releases
//! its last block first, so that of one prompt the tail goes before the head. What leaves may be kept in host memory.
//!
//! The rule that must never break: what has a user is never evicted, and no more blocks are taken than there are.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use kv_index::BlockHash;

use crate::chains::AsIs;

/// The memory of one pod.
#[derive(Debug)]
pub(super) struct Cache {
    gpu: Lru,
    host: Lru,
    capacity: usize,
    host_capacity: usize,
    /// Blocks with a hash and a user.
    pinned: usize,
    /// Blocks of single requests.
    private: usize,
}

/// A block in GPU memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// What was evicted.
#[derive(Debug, Default)]
pub(super) struct Evicted {
    pub(super) from_gpu: Vec<BlockHash>,
    pub(super) to_host: Vec<BlockHash>,
    pub(super) from_host: Vec<BlockHash>,
}

impl Cache {
    pub(super) fn new(capacity: usize, host_capacity: usize) -> Self {
        Self { gpu: Lru::default(), host: Lru::default(), capacity, host_capacity, pinned: 0, private: 0 }
    }

    /// Leading blocks of a chain in GPU memory, and how many more of it follow in host memory.
    pub(super) fn prefix(&self, chain: &[BlockHash]) -> (usize, usize) {
        let gpu = chain.iter().take_while(|hash| self.gpu.find(**hash).is_some()).count();
        let held = |hash: &&BlockHash| self.gpu.find(**hash).is_some() || self.host.find(**hash).is_some();
        (gpu, chain[gpu..].iter().take_while(held).count())
    }

    /// Uses the blocks of a chain that are there, and takes so many more for one request. Nothing happens without room.
    pub(super) fn admit(&mut self, held: &[BlockHash], more: usize, slots: &mut Vec<Slot>, gone: &mut Evicted) -> bool {
        let found: Vec<Slot> = held.iter().filter_map(|&hash| self.gpu.find(hash)).collect();
        let waking = found.iter().filter(|slot| self.gpu.at(**slot).users == 0).count();
        if self.private + self.pinned + waking + more > self.capacity {
            return false;
        }
        found.iter().for_each(|&slot| self.wake(slot));
        slots.extend(found);
        self.private += more;
        self.make_room(gone);
        true
    }

    /// Gives one of a request's own blocks its hash. If that is there already, the request uses it, and its own is free.
    pub(super) fn seal(&mut self, hash: BlockHash) -> (Slot, Sealed) {
        self.private -= 1;
        if let Some(slot) = self.gpu.find(hash) {
            self.wake(slot);
            return (slot, Sealed::Known);
        }
        let slot = self.gpu.insert(hash);
        self.gpu.at_mut(slot).users = 1;
        self.pinned += 1;
        (slot, Sealed::New)
    }

    /// Lets go of a request's blocks.
    pub(super) fn release(&mut self, slots: &[Slot], private: usize) {
        self.private -= private;
        for &slot in slots.iter().rev() {
            let entry = self.gpu.at_mut(slot);
            entry.users -= 1;
            if entry.users == 0 {
                self.pinned -= 1;
                self.gpu.push_newest(slot);
            }
        }
    }

    /// Blocks with a user.
    pub(super) fn in_use(&self) -> usize {
        self.pinned + self.private
    }

    fn wake(&mut self, slot: Slot) {
        let entry = self.gpu.at_mut(slot);
        entry.users += 1;
        if entry.users == 1 {
            self.pinned += 1;
            self.gpu.unlink(slot);
        }
    }

    fn make_room(&mut self, gone: &mut Evicted) {
        while self.gpu.len() + self.private > self.capacity {
            let Some(hash) = self.gpu.pop_oldest() else { return };
            gone.from_gpu.push(hash);
            if self.host_capacity == 0 {
                continue;
            }
            if let Some(slot) = self.host.find(hash) {
                self.host.unlink(slot);
                self.host.push_newest(slot);
                continue;
            }
            let slot = self.host.insert(hash);
            self.host.push_newest(slot);
            gone.to_host.push(hash);
            if self.host.len() > self.host_capacity {
                gone.from_host.extend(self.host.pop_oldest());
            }
        }
    }
}

/// Whether a block's hash was new to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sealed {
    New,
    Known,
}

/// Blocks by their hash, and those without users in the order they were released.
#[derive(Debug, Default)]
struct Lru {
    by_hash: HashMap<BlockHash, Slot, BuildHasherDefault<AsIs>>,
    entries: Vec<Entry>,
    free: Vec<Slot>,
    oldest: Option<Slot>,
    newest: Option<Slot>,
}

#[derive(Debug)]
struct Entry {
    hash: BlockHash,
    users: u32,
    older: Option<Slot>,
    newer: Option<Slot>,
}

impl Lru {
    fn len(&self) -> usize {
        self.by_hash.len()
    }

    fn find(&self, hash: BlockHash) -> Option<Slot> {
        self.by_hash.get(&hash).copied()
    }

    fn at(&self, slot: Slot) -> &Entry {
        &self.entries[slot.0 as usize]
    }

    fn at_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot.0 as usize]
    }

    /// Enters a block, in no order yet.
    fn insert(&mut self, hash: BlockHash) -> Slot {
        let entry = Entry { hash, users: 0, older: None, newer: None };
        let slot = match self.free.pop() {
            Some(slot) => {
                *self.at_mut(slot) = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                Slot(self.entries.len() as u32 - 1)
            }
        };
        self.by_hash.insert(hash, slot);
        slot
    }

    fn push_newest(&mut self, slot: Slot) {
        let older = self.newest.replace(slot);
        let entry = self.at_mut(slot);
        (entry.older, entry.newer) = (older, None);
        match older {
            Some(older) => self.at_mut(older).newer = Some(slot),
            None => self.oldest = Some(slot),
        }
    }

    fn unlink(&mut self, slot: Slot) {
        let (older, newer) = (self.at(slot).older, self.at(slot).newer);
        match older {
            Some(older) => self.at_mut(older).newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.at_mut(newer).older = older,
            None => self.newest = older,
        }
    }

    fn pop_oldest(&mut self) -> Option<BlockHash> {
        let slot = self.oldest?;
        self.unlink(slot);
        let hash = self.at(slot).hash;
        self.by_hash.remove(&hash);
        self.free.push(slot);
        Some(hash)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The contract, literally: lists that are searched from end to end.
    #[derive(Default)]
    struct Model {
        /// Blocks with a hash, and their users.
        held: Vec<(BlockHash, u32)>,
        /// Those without users, least recently released first.
        released: Vec<BlockHash>,
        private: usize,
    }

    impl Model {
        fn admit(&mut self, capacity: usize, chain: &[BlockHash], more: usize) -> Option<(usize, Vec<BlockHash>)> {
            let found = chain.iter().take_while(|hash| self.held.iter().any(|(held, _)| held == *hash)).count();
            let need = more + chain.len() - found;
            let waking = chain[..found].iter().filter(|hash| self.released.contains(hash)).count();
            let used = self.held.len() - self.released.len();
            if self.private + used + waking + need > capacity {
                return None;
            }
            chain[..found].iter().for_each(|hash| self.wake(*hash));
            self.private += need;
            let mut gone = Vec::new();
            while self.held.len() + self.private > capacity {
                let oldest = self.released.remove(0);
                self.held.retain(|(held, _)| *held != oldest);
                gone.push(oldest);
            }
            Some((found, gone))
        }

        fn wake(&mut self, hash: BlockHash) {
            self.released.retain(|released| *released != hash);
            match self.held.iter_mut().find(|(held, _)| *held == hash) {
                Some((_, users)) => *users += 1,
                None => self.held.push((hash, 1)),
            }
        }

        fn release(&mut self, chain: &[BlockHash], private: usize) {
            self.private -= private;
            for &hash in chain.iter().rev() {
                let (_, users) = self.held.iter_mut().find(|(held, _)| *held == hash).unwrap();
                *users -= 1;
                if *users == 0 {
                    self.released.push(hash);
                }
            }
        }
    }

    /// Chains that share beginnings: a path in a tree with two children each.
    fn chain(path: u8, length: usize) -> Vec<BlockHash> {
        (0..length).map(|at| BlockHash::new(1_000 * (at as u64 + 1) + u64::from(path & ((1 << at) - 1)))).collect()
    }

    proptest! {
        /// The same requests are admitted, find the same, evict the same in the same order.
        #[test]
        fn it_does_what_the_model_does(
            capacity in 4_usize..40,
            steps in prop::collection::vec((any::<bool>(), any::<u8>(), 0_usize..7, 0_usize..4), 1..80),
        ) {
            let (mut cache, mut model) = (Cache::new(capacity, 0), Model::default());
            let mut running: Vec<(Vec<BlockHash>, Vec<Slot>, usize)> = Vec::new();
            for (begin, path, length, more) in steps {
                if !begin && !running.is_empty() {
                    let (chain, slots, private) = running.remove(usize::from(path) % running.len());
                    cache.release(&slots, private);
                    model.release(&chain, private);
                } else {
                    let chain = chain(path, length);
                    let (found, _) = cache.prefix(&chain);
                    let (mut slots, mut gone) = (Vec::new(), Evicted::default());
                    let admitted = cache.admit(&chain[..found], more + length - found, &mut slots, &mut gone);
                    let expected = model.admit(capacity, &chain, more);
                    prop_assert_eq!(admitted.then_some((found, gone.from_gpu)), expected);
                    if admitted {
                        slots.extend(chain[found..].iter().map(|&hash| cache.seal(hash).0));
                        model.private -= length - found;
                        chain[found..].iter().for_each(|hash| model.wake(*hash));
                        running.push((chain, slots, more));
                    }
                }
                prop_assert_eq!(cache.in_use(), model.private + model.held.len() - model.released.len());
                prop_assert!(cache.gpu.len() + cache.private <= capacity);
            }
        }
    }

    #[test]
    fn the_tail_goes_before_the_head_and_what_leaves_stays_in_host_memory() {
        let mut cache = Cache::new(3, 1);
        let (first, second) = (chain(0, 3), chain(7, 2));
        let run = |cache: &mut Cache, chain: &[BlockHash]| {
            let (found, _) = cache.prefix(chain);
            let (mut slots, mut gone) = (Vec::new(), Evicted::default());
            assert!(cache.admit(&chain[..found], chain.len() - found, &mut slots, &mut gone));
            slots.extend(chain[found..].iter().map(|&hash| cache.seal(hash).0));
            cache.release(&slots, 0);
            gone
        };
        assert!(run(&mut cache, &first).from_gpu.is_empty());
        let gone = run(&mut cache, &second);
        assert_eq!(gone.from_gpu, [first[2]], "they share their first block, so one must go");
        assert_eq!((gone.to_host, gone.from_host), (vec![first[2]], vec![]));
        assert_eq!(cache.prefix(&first), (2, 1), "two in GPU memory and one in host memory");
    }
}
