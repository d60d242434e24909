//! Shadow copy of a cache, kept from its events, for engines that cannot list theirs.
//!
//! The rule: an event changes the shadow and is queued under one lock, so an inventory of the shadow includes exactly the
//! events before its checkpoint.

use std::collections::HashMap;
use std::sync::Arc;

use kv_index::{BlockHash, Parent, Tier};
use parking_lot::Mutex;

use crate::wire::InventoryEntry;
use crate::{Checkpoint, InventorySource, ReporterHandle};

/// Copies by block, as announced one by one. Clones are the same shadow.
#[derive(Clone, Debug, Default)]
pub struct ShadowCache(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    blocks: HashMap<BlockHash, Entry>,
    /// Counts stores, so that a list has parents before children.
    stores: u64,
}

#[derive(Debug)]
struct Entry {
    parent: Parent,
    copies: u32,
    order: u64,
}

impl ShadowCache {
    /// Everything held, by block.
    #[must_use]
    pub fn copies(&self) -> HashMap<BlockHash, u32> {
        self.0.lock().blocks.iter().map(|(&hash, entry)| (hash, entry.copies)).collect()
    }

    /// A copy of each block was stored, the first under `parent`.
    pub fn store(&self, handle: &ReporterHandle, parent: Parent, blocks: &[BlockHash]) {
        let mut held = self.0.lock();
        held.store(parent, blocks);
        handle.stored(parent, blocks);
    }

    /// A copy of each block was overwritten.
    pub fn evict(&self, handle: &ReporterHandle, blocks: &[BlockHash]) {
        let mut held = self.0.lock();
        held.evict(blocks);
        handle.evicted(blocks);
    }

    /// Everything was forgotten.
    pub fn clear(&self, handle: &ReporterHandle) {
        let mut held = self.0.lock();
        held.blocks.clear();
        handle.cleared();
    }
}

impl Held {
    fn store(&mut self, mut parent: Parent, blocks: &[BlockHash]) {
        for &hash in blocks {
            self.stores += 1;
            let order = self.stores;
            self.blocks.entry(hash).or_insert(Entry { parent, copies: 0, order }).copies += 1;
            parent = Parent::Block(hash);
        }
    }

    fn evict(&mut self, blocks: &[BlockHash]) {
        for hash in blocks {
            let Some(entry) = self.blocks.get_mut(hash) else { continue };
            entry.copies -= 1;
            if entry.copies == 0 {
                self.blocks.remove(hash);
            }
        }
    }
}

impl InventorySource for ShadowCache {
    fn inventory(&mut self, checkpoint: Checkpoint<'_>) -> Vec<InventoryEntry> {
        let list = |(&hash, entry): (&BlockHash, &Entry)| {
            (entry.order, InventoryEntry { hash, parent: entry.parent, tier: Tier::Gpu, copies: entry.copies })
        };
        let mut blocks: Vec<(u64, InventoryEntry)> = {
            let held = self.0.lock();
            checkpoint.mark();
            held.blocks.iter().map(list).collect()
        };
        // The engine waits for the lock above, and not for this.
        blocks.sort_unstable_by_key(|(order, _)| *order);
        blocks.into_iter().map(|(_, block)| block).collect()
    }
}
