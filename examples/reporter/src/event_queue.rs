//! Bounded event queue between an engine and its reporter's task, with overflow detection.
//!
//! The rule: a push takes one short lock and bounded memory. An event that does not fit empties the queue and sets the
//! overflow flag, until an inventory repairs it.

use std::collections::VecDeque;
use std::sync::Arc;

use kv_index::{BlockHash, Parent, Tier};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::state_machine::ReporterStats;
use crate::wire::Change;

/// Takes an engine's cache events. Cheap to clone; the reporter ends with the last one.
#[derive(Clone, Debug)]
pub struct ReporterHandle(Arc<Open>);

impl ReporterHandle {
    pub(super) fn new(queue: Arc<EventQueue>) -> Self {
        Self(Arc::new(Open(queue)))
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
        for run in blocks.chunks(MAX_AT_ONCE) {
            self.0.0.push(run.len(), || Change::Stored { parent, blocks: run.to_vec(), tier });
            parent = Parent::Block(run[run.len() - 1]);
        }
    }

    /// Blocks left a tier.
    pub fn evicted_from(&self, tier: Tier, blocks: &[BlockHash]) {
        for run in blocks.chunks(MAX_AT_ONCE) {
            self.0.0.push(run.len(), || Change::Removed { blocks: run.to_vec(), tier });
        }
    }

    /// Everything left.
    pub fn cleared(&self) {
        self.0.0.push(1, || Change::Cleared);
    }

    /// The reporter's counters so far.
    #[must_use]
    pub fn stats(&self) -> ReporterStats {
        self.0.0.stats()
    }
}

/// The handles together.
#[derive(Debug)]
struct Open(Arc<EventQueue>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.queue.lock().closed = true;
        self.0.changed.notify_one();
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct EventQueue {
    capacity: usize,
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
    stats: ReporterStats,
}

impl EventQueue {
    /// An empty queue with a capacity in blocks.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), queue: Mutex::default(), changed: Notify::new() }
    }

    fn push(&self, blocks: usize, change: impl FnOnce() -> Change) {
        let mut queue = self.queue.lock();
        if queue.overflowed {
            queue.dropped += blocks as u64;
            return;
        }
        if queue.blocks + blocks > self.capacity {
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

    /// Drops the events that an inventory includes, and the overflow before it.
    pub(crate) fn discard(&self) {
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

    /// Publishes the reporter's counters to the handles.
    pub(crate) fn publish(&self, stats: ReporterStats) {
        self.queue.lock().stats = stats;
    }

    /// The published counters, and the queue's own.
    pub(crate) fn stats(&self) -> ReporterStats {
        let queue = self.queue.lock();
        ReporterStats { overflows: queue.overflows, dropped: queue.dropped, ..queue.stats }
    }

    /// Blocks in the queue.
    pub(crate) fn queued(&self) -> usize {
        self.queue.lock().blocks
    }

    pub(crate) fn overflowed(&self) -> bool {
        self.queue.lock().overflowed
    }

    /// Whether every handle was dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().closed
    }

    /// Waits until something is pushed, or was since the last call.
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

/// Blocks of one event: as many as a batch may have.
const MAX_AT_ONCE: usize = crate::wire::bounds::MAX_BLOCKS;

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(count: u64) -> Vec<BlockHash> {
        (1..=count).map(BlockHash::new).collect()
    }

    #[test]
    fn an_overflow_empties_the_queue_and_is_remembered_until_an_inventory() {
        let queue = Arc::new(EventQueue::new(10));
        let handle = ReporterHandle::new(Arc::clone(&queue));
        handle.stored(Parent::Root, &hashes(8));
        assert_eq!((queue.queued(), queue.overflowed()), (8, false));
        handle.evicted(&hashes(3));
        assert_eq!((queue.queued(), queue.overflowed()), (0, true));
        handle.cleared();
        assert_eq!(queue.take(10, 10), [], "what comes after a hole is of no use");
        assert_eq!((handle.stats().overflows, handle.stats().dropped), (1, 12));
        queue.discard();
        handle.cleared();
        assert_eq!(queue.take(10, 10), [Change::Cleared]);
    }

    #[test]
    fn batches_are_bounded_by_changes_and_by_blocks() {
        let queue = Arc::new(EventQueue::new(100));
        let handle = ReporterHandle::new(Arc::clone(&queue));
        for count in [4, 4, 4, 9] {
            handle.evicted(&hashes(count));
        }
        assert_eq!(queue.take(2, 100).len(), 2);
        assert_eq!(queue.take(100, 5).len(), 1);
        assert_eq!(queue.take(100, 5).len(), 1, "one at least");
        assert_eq!(queue.queued(), 0);
    }

    #[test]
    fn a_long_chain_is_split_into_events_that_fit_a_batch() {
        let queue = Arc::new(EventQueue::new(100_000));
        let handle = ReporterHandle::new(Arc::clone(&queue));
        let chain = hashes(MAX_AT_ONCE as u64 + 5);
        handle.stored(Parent::Root, &chain);
        let changes = queue.take(10, 100_000);
        let [_, Change::Stored { parent, blocks, .. }] = &changes[..] else { panic!("{}", changes.len()) };
        assert_eq!((*parent, blocks.len()), (Parent::Block(chain[MAX_AT_ONCE - 1]), 5));
    }

    #[test]
    fn the_last_handle_closes_the_queue() {
        let queue = Arc::new(EventQueue::new(10));
        let handle = ReporterHandle::new(Arc::clone(&queue));
        let other = handle.clone();
        drop(handle);
        assert!(!queue.is_closed());
        drop(other);
        assert!(queue.is_closed());
    }
}
