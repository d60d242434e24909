//! Unfinished inventories: a bound on the blocks that are buffered for all pods together.
//!
//! An inventory takes its room with its first part, by the number of its parts: two that do not fit side by side come one after
//! the other, and never wait for each other half way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The blocks that unfinished inventories may have together.
#[derive(Debug)]
pub(super) struct Unfinished {
    limit: usize,
    taken: AtomicUsize,
}

impl Unfinished {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, taken: AtomicUsize::new(0) })
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Room for so many blocks, if there is some.
    pub(super) fn take(self: &Arc<Self>, blocks: usize) -> Option<Room> {
        let sum = |taken: usize| taken.checked_add(blocks).filter(|sum| *sum <= self.limit);
        // Relaxed: a count that publishes nothing.
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).ok()?;
        Some(Room { of: Arc::clone(self), blocks })
    }
}

/// Room that is taken; given back when dropped.
#[derive(Debug)]
pub(super) struct Room {
    of: Arc<Unfinished>,
    blocks: usize,
}

impl Room {
    /// Makes it large enough for so many blocks. False if there is no room for them.
    pub(super) fn grow_to(&mut self, blocks: usize) -> bool {
        let Some(more) = blocks.checked_sub(self.blocks).filter(|more| *more > 0) else { return true };
        let Some(mut added) = self.of.take(more) else { return false };
        self.blocks += std::mem::take(&mut added.blocks);
        true
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.taken.fetch_sub(self.blocks, Ordering::Relaxed);
    }
}
