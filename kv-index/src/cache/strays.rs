//! Orphan blocks (strays): held by a pod without their parent, since it lacks that, the parent is unknown, or a segment
//! (run) has another one.
//!
//! No search comes to a stray: whoever lacks a block has nothing behind it. So strays are in no run, and wait under
//! the hash of what they follow until the pod comes to hold that. For the last two kinds searches ask the pod:
//! it is unlinked.

use std::collections::BTreeSet;

use crate::block::{BlockHash, Parent};
use crate::map::FixedMap;

/// One pod's strays.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Strays {
    unknown: usize,
    /// Strays with what they follow in front: any number may follow one block, and leave in any order.
    waiting: BTreeSet<(BlockHash, BlockHash)>,
    /// What each stray is said to follow.
    parents: FixedMap<BlockHash, Parent>,
}

impl Strays {
    /// A block became a stray, or it was learned what a stray follows. No block follows itself.
    pub(crate) fn insert(&mut self, hash: BlockHash, parent: Parent) {
        let parent = if parent == Parent::Block(hash) { Parent::Unknown } else { parent };
        if self.parents.contains_key(&hash) {
            self.remove(hash);
        }
        self.parents.insert(hash, parent);
        match parent {
            Parent::Block(parent) => drop(self.waiting.insert((parent, hash))),
            Parent::Unknown => self.unknown += 1,
            Parent::Root => {}
        }
    }

    /// A block left, or is no stray any more; what it was said to follow.
    pub(crate) fn remove(&mut self, hash: BlockHash) -> Option<Parent> {
        let parent = self.parents.remove(&hash)?;
        match parent {
            Parent::Block(parent) => drop(self.waiting.remove(&(parent, hash))),
            Parent::Unknown => self.unknown -= 1,
            Parent::Root => {}
        }
        if self.parents.is_empty() && self.parents.capacity() > 1024 {
            *self = Self::default();
        }
        Some(parent)
    }

    /// The strays that wait for this block; they are none any more.
    pub(crate) fn take_behind(&mut self, hash: BlockHash) -> Vec<BlockHash> {
        let (first, last) = (BlockHash::new(1), BlockHash::new(u64::MAX));
        let waiting: Vec<BlockHash> =
            self.waiting.range((hash, first)..=(hash, last)).map(|(_, stray)| *stray).collect();
        for &stray in &waiting {
            self.waiting.remove(&(hash, stray));
            self.parents.remove(&stray);
        }
        waiting
    }

    /// What a stray is said to follow.
    pub(crate) fn parent(&self, hash: BlockHash) -> Option<Parent> {
        self.parents.get(&hash).copied()
    }

    /// Whether any stray waits for a block.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.parents.len()
    }

    /// Strays of which nobody told what they follow.
    pub(crate) fn unknown(&self) -> usize {
        self.unknown
    }

    pub(crate) fn bytes(&self) -> usize {
        self.parents.capacity() * (size_of::<(BlockHash, Parent)>() + 1)
            + self.waiting.len() * size_of::<(BlockHash, BlockHash)>() * 2
    }
}
