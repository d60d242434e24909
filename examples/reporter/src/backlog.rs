//! The queue between an engine and its reporter's task.
//!
//! The rule: pushing takes one short lock and bounded memory. What does not fit empties the queue and is remembered
//! as an overflow, until an inventory has made up for it.

use std::collections::VecDeque;
use std::sync::Arc;

use kv_index::{BlockHash, Parent, Tier};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::core::Figures;
use crate::wire::Change;

/// Where an engine says what its cache does. Cheap to clone; the reporter ends with the last one.
#[derive(Clone, Debug)]
pub struct ReporterHandle(Arc<Open>);

impl ReporterHandle {
    pub(super) fn new(backlog: Arc<Backlog>) -> Self {
        Self(Arc::new(Open(backlog)))
    }

    /// Blocks that follow each other came to GPU memory, the first under `parent`.
    pub fn stored(&self, parent: Parent, blocks: &[BlockHash]) {
        self.stored_in(Tier::Gpu, parent, blocks);
    }

    /// Blocks left GPU memory.
    pub fn evicted(&self, blocks: &[BlockHash]) {
        self.evicted_from(Tier::Gpu, blocks);
    }

    /// Blocks that follow each other came to a tier.
    pub fn stored_in(&self, tier: Tier, mut parent: Parent, blocks: &[BlockHash]) {
        for run in blocks.chunks(MOST_AT_ONCE) {
            self.0.0.push(run.len(), || Change::Stored { parent, blocks: run.to_vec(), tier });
            parent = Parent::Block(run[run.len() - 1]);
        }
    }

    /// Blocks left a tier.
    pub fn evicted_from(&self, tier: Tier, blocks: &[BlockHash]) {
        for run in blocks.chunks(MOST_AT_ONCE) {
            self.0.0.push(run.len(), || Change::Removed { blocks: run.to_vec(), tier });
        }
    }

    /// Everything left.
    pub fn cleared(&self) {
        self.0.0.push(1, || Change::Cleared);
    }

    /// What the reporter did so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.0.0.figures()
    }
}

/// The handles together.
#[derive(Debug)]
struct Open(Arc<Backlog>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.queue.lock().closed = true;
        self.0.changed.notify_one();
    }
}

/// The queue.
#[derive(Debug)]
pub struct Backlog {
    most_blocks: usize,
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    changes: VecDeque<Change>,
    /// Blocks in `changes`; a clear counts as one.
    blocks: usize,
    overflowed: bool,
    closed: bool,
    overflows: u64,
    dropped: u64,
    figures: Figures,
}

impl Backlog {
    /// An empty queue for this many blocks.
    #[must_use]
    pub(crate) fn new(most_blocks: usize) -> Self {
        Self { most_blocks: most_blocks.max(1), queue: Mutex::default(), changed: Notify::new() }
    }

    fn push(&self, blocks: usize, change: impl FnOnce() -> Change) {
        let mut queue = self.queue.lock();
        if queue.overflowed {
            queue.dropped += blocks as u64;
            return;
        }
        if queue.blocks + blocks > self.most_blocks {
            queue.dropped += (queue.blocks + blocks) as u64;
            queue.overflows += 1;
            queue.overflowed = true;
            queue.empty();
        } else {
            queue.changes.push_back(change());
            queue.blocks += blocks;
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// Drops what an inventory has in it, and the memory of what was lost before it.
    pub(crate) fn forget(&self) {
        let mut queue = self.queue.lock();
        queue.overflowed = false;
        queue.empty();
    }

    /// Takes the oldest changes, up to these counts; at least one if there is one.
    pub(crate) fn take(&self, changes: usize, blocks: usize) -> Vec<Change> {
        let mut queue = self.queue.lock();
        let (mut taken, mut size) = (Vec::new(), 0);
        while let Some(next) = queue.changes.front() {
            let weight = next.blocks().len().max(1);
            if !taken.is_empty() && (taken.len() == changes || size + weight > blocks) {
                break;
            }
            size += weight;
            taken.extend(queue.changes.pop_front());
        }
        queue.blocks -= size;
        taken
    }

    /// Shows handles what the reporter did.
    pub(crate) fn show(&self, figures: Figures) {
        self.queue.lock().figures = figures;
    }

    /// What was shown last, and what was dropped since.
    pub(crate) fn figures(&self) -> Figures {
        let queue = self.queue.lock();
        Figures { overflows: queue.overflows, dropped: queue.dropped, ..queue.figures }
    }

    /// Blocks that wait.
    pub(crate) fn queued(&self) -> usize {
        self.queue.lock().blocks
    }

    pub(crate) fn overflowed(&self) -> bool {
        self.queue.lock().overflowed
    }

    /// Whether every handle is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().closed
    }

    /// Waits until something is pushed, or was since the last time.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Queue {
    fn empty(&mut self) {
        self.changes.clear();
        self.blocks = 0;
    }
}

/// Blocks of one change: as many as a report may have.
const MOST_AT_ONCE: usize = crate::wire::bounds::MOST_BLOCKS;

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(count: u64) -> Vec<BlockHash> {
        (1..=count).map(BlockHash::new).collect()
    }

    #[test]
    fn an_overflow_empties_the_queue_and_is_remembered_until_an_inventory() {
        let backlog = Arc::new(Backlog::new(10));
        let handle = ReporterHandle::new(Arc::clone(&backlog));
        handle.stored(Parent::Root, &hashes(8));
        assert_eq!((backlog.queued(), backlog.overflowed()), (8, false));
        handle.evicted(&hashes(3));
        assert_eq!((backlog.queued(), backlog.overflowed()), (0, true));
        handle.cleared();
        assert_eq!(backlog.take(10, 10), [], "what comes after a hole is of no use");
        assert_eq!((handle.figures().overflows, handle.figures().dropped), (1, 12));
        backlog.forget();
        handle.cleared();
        assert_eq!(backlog.take(10, 10), [Change::Cleared]);
    }

    #[test]
    fn batches_are_bounded_by_changes_and_by_blocks() {
        let backlog = Arc::new(Backlog::new(100));
        let handle = ReporterHandle::new(Arc::clone(&backlog));
        for count in [4, 4, 4, 9] {
            handle.evicted(&hashes(count));
        }
        assert_eq!(backlog.take(2, 100).len(), 2);
        assert_eq!(backlog.take(100, 5).len(), 1);
        assert_eq!(backlog.take(100, 5).len(), 1, "one at least");
        assert_eq!(backlog.queued(), 0);
    }

    #[test]
    fn a_long_chain_is_cut_into_changes_that_fit_a_report() {
        let backlog = Arc::new(Backlog::new(100_000));
        let handle = ReporterHandle::new(Arc::clone(&backlog));
        let chain = hashes(MOST_AT_ONCE as u64 + 5);
        handle.stored(Parent::Root, &chain);
        let changes = backlog.take(10, 100_000);
        let [_, Change::Stored { parent, blocks, .. }] = &changes[..] else { panic!("{}", changes.len()) };
        assert_eq!((*parent, blocks.len()), (Parent::Block(chain[MOST_AT_ONCE - 1]), 5));
    }

    #[test]
    fn the_last_handle_closes_the_queue() {
        let backlog = Arc::new(Backlog::new(10));
        let handle = ReporterHandle::new(Arc::clone(&backlog));
        let other = handle.clone();
        drop(handle);
        assert!(!backlog.is_closed());
        drop(other);
        assert!(backlog.is_closed());
    }
}
