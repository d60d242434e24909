//! Orphan blocks (strays): held by a pod without their parent, since it lacks that, the parent is unknown, or a segment
//! (run) has another one.
//!
//! No search comes to a stray: whoever lacks a block has nothing behind it. So strays are in no run, and wait under
//! the hash of what they follow until the pod comes to hold that. For the last two kinds searches ask the pod:
//! it is unlinked.

use smallvec::SmallVec;

use crate::block::{BlockHash, Parent};
use crate::map::FixedMap;

/// One pod's strays.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Strays {
    unknown: usize,
    /// Strays by what they follow.
    waiting: FixedMap<BlockHash, SmallVec<[BlockHash; 1]>>,
    /// What each stray is said to follow.
    parents: FixedMap<BlockHash, Parent>,
}

impl Strays {
    /// A block became a stray, or it was learned what a stray follows.
    pub(crate) fn insert(&mut self, hash: BlockHash, parent: Parent) {
        if self.parents.contains_key(&hash) {
            self.remove(hash);
        }
        self.parents.insert(hash, parent);
        match parent {
            Parent::Block(parent) => self.waiting.entry(parent).or_default().push(hash),
            Parent::Unknown => self.unknown += 1,
            Parent::Root => {}
        }
    }

    /// A block left, or is no stray any more; what it was said to follow.
    pub(crate) fn remove(&mut self, hash: BlockHash) -> Option<Parent> {
        let parent = self.parents.remove(&hash)?;
        match parent {
            Parent::Block(parent) => {
                if let Some(waiting) = self.waiting.get_mut(&parent) {
                    waiting.retain(|waiting| *waiting != hash);
                    if waiting.is_empty() {
                        self.waiting.remove(&parent);
                    }
                }
            }
            Parent::Unknown => self.unknown -= 1,
            Parent::Root => {}
        }
        if self.parents.is_empty() && self.parents.capacity() > 1024 {
            *self = Self::default();
        }
        Some(parent)
    }

    /// The strays that wait for this block; they are none any more.
    pub(crate) fn take_behind(&mut self, hash: BlockHash) -> SmallVec<[BlockHash; 1]> {
        let waiting = self.waiting.remove(&hash).unwrap_or_default();
        for stray in &waiting {
            self.parents.remove(stray);
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
            + self.waiting.capacity() * (size_of::<(BlockHash, SmallVec<[BlockHash; 1]>)>() + 1)
    }
}
