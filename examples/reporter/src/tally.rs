//! The digest of what was reported, kept change by change as the index keeps its own.
//!
//! The rule: after the same messages, tally and index have the same digest, also where a source repeats itself
//! or removes what is not there.

use std::collections::HashMap;

use kv_index::{BlockHash, Digest, EventSemantics, Tier};

use crate::wire::{Change, HeldBlock};

/// Copies by block and tier, and their digest.
#[derive(Debug, Default)]
pub(super) struct Tally {
    copies: HashMap<(BlockHash, Tier), u32>,
    digest: Digest,
}

impl Tally {
    pub(super) fn of(blocks: &[HeldBlock]) -> Self {
        let mut tally = Self::default();
        for block in blocks {
            let copies = tally.copies.entry((block.hash, block.tier)).or_default();
            let added = copies.saturating_add(block.copies) - *copies;
            *copies += added;
            tally.digest.add_copies(block.hash, block.tier, added);
        }
        tally
    }

    pub(super) fn apply(&mut self, change: &Change, source: EventSemantics) {
        match change {
            Change::Stored { blocks, tier, .. } => blocks.iter().for_each(|&hash| self.add(hash, *tier, source)),
            Change::Removed { blocks, tier } => blocks.iter().for_each(|&hash| self.remove(hash, *tier, source)),
            Change::Cleared => *self = Self::default(),
        }
    }

    pub(super) fn digest(&self) -> Digest {
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
