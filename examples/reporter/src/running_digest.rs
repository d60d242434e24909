//! Running digest: the digest of everything reported, updated event by event as the index updates its own.
//!
//! The rule: after the same messages both digests are equal, also where a source repeats itself or removes what is not there.

use std::collections::HashMap;

use kv_index::{BlockHash, Digest, EventSemantics, Tier};

use crate::wire::{Change, InventoryEntry};

/// Copies by block and tier, and their digest.
#[derive(Debug, Default)]
pub(super) struct RunningDigest {
    copies: HashMap<(BlockHash, Tier), u32>,
    digest: Digest,
}

impl RunningDigest {
    pub(super) fn of(blocks: &[InventoryEntry]) -> Self {
        let mut running = Self::default();
        for block in blocks {
            let copies = running.copies.entry((block.hash, block.tier)).or_default();
            let added = copies.saturating_add(block.copies) - *copies;
            *copies += added;
            running.digest.add_copies(block.hash, block.tier, added);
        }
        running
    }

    pub(super) fn apply(&mut self, change: &Change, source: EventSemantics) {
        match change {
            Change::Stored { blocks, tier, .. } => blocks.iter().for_each(|&hash| self.add(hash, *tier, source)),
            Change::Removed { blocks, tier } => blocks.iter().for_each(|&hash| self.remove(hash, *tier, source)),
            Change::Cleared => *self = Self::default(),
        }
    }

    pub(super) fn value(&self) -> Digest {
        self.digest
    }

    fn add(&mut self, hash: BlockHash, tier: Tier, source: EventSemantics) {
        let copies = self.copies.entry((hash, tier)).or_default();
        if *copies == 0 || source == EventSemantics::Copies {
            *copies += 1;
            self.digest.add(hash, tier);
        }
    }

    fn remove(&mut self, hash: BlockHash, tier: Tier, source: EventSemantics) {
        let Some(copies) = self.copies.get_mut(&(hash, tier)) else { return };
        let gone = if source == EventSemantics::Copies { 1 } else { *copies };
        *copies -= gone;
        self.digest.remove_copies(hash, tier, gone);
        if *copies == 0 {
            self.copies.remove(&(hash, tier));
        }
    }
}
