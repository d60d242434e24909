//! Change log: what lately became of a pod's blocks, and when the gateway heard of it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kv_index::{BlockHash, ChangeObserver, Event};
use parking_lot::Mutex;

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Stored,
    Removed,
    /// All of the pod's blocks are gone.
    Cleared,
}

/// The last changes of one pod.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog(Mutex<Changes>);

#[derive(Debug, Default)]
struct Changes {
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// Whether the pod may hold blocks whose events were lost.
    has_forgotten: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    change: Change,
    /// None for all of them.
    block: Option<BlockHash>,
}

impl ChangeLog {
    /// The first change of a block after a moment, and when it was heard of.
    pub(super) fn first_after(&self, moment: Instant, block: BlockHash) -> Option<(Change, Instant)> {
        let changes = self.0.lock();
        let from = changes.entries.partition_point(|entry| entry.at < moment);
        let mut later = changes.entries.iter().skip(from);
        later.find(|entry| entry.block.is_none_or(|changed| changed == block)).map(|entry| (entry.change, entry.at))
    }

    /// Whether the pod may hold blocks whose events were lost: until it is cleared.
    pub(super) fn has_forgotten(&self) -> bool {
        self.0.lock().has_forgotten
    }

    fn push(&self, at: Instant, change: Change, blocks: &[BlockHash]) {
        let mut changes = self.0.lock();
        changes.has_forgotten &= change != Change::Cleared;
        let entries = &mut changes.entries;
        let stale = |entry: &Entry| at.saturating_duration_since(entry.at) > KEPT;
        while entries.front().is_some_and(stale) || entries.len() + blocks.len() > MAX_ENTRIES && !entries.is_empty() {
            entries.pop_front();
        }
        entries.extend(blocks.iter().take(MAX_ENTRIES).map(|block| Entry { at, change, block: Some(*block) }));
        if change == Change::Cleared {
            entries.push_back(Entry { at, change, block: None });
        }
    }
}

impl ChangeObserver for ChangeLog {
    fn changed(&self, event: &Event<'_>) {
        let now = Instant::now();
        match event {
            Event::Stored(stored) => self.push(now, Change::Stored, stored.blocks),
            Event::Removed(removed) => self.push(now, Change::Removed, removed.blocks),
            Event::Cleared => self.push(now, Change::Cleared, &[]),
        }
    }

    fn forgot(&self) {
        self.0.lock().has_forgotten = true;
    }
}

/// How long a change is kept: longer than a request waits for its engine.
const KEPT: Duration = Duration::from_secs(120);
/// Changes kept of a pod: half a megabyte.
const MAX_ENTRIES: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use kv_index::{Removed, Stored, Tier};

    use super::*;

    #[test]
    fn the_first_change_after_a_moment_counts() {
        let (log, blocks) = (ChangeLog::default(), [BlockHash::new(1), BlockHash::new(2)]);
        log.changed(&Event::Stored(Stored::prompt(&blocks)));
        let moment = Instant::now();
        let first = |moment, block| log.first_after(moment, block).map(|(change, _)| change);
        assert_eq!(first(moment, blocks[0]), None);
        log.changed(&Event::Removed(Removed { blocks: &blocks[..1], tier: Tier::Gpu }));
        log.changed(&Event::Stored(Stored::prompt(&blocks)));
        assert_eq!(first(moment, blocks[0]), Some(Change::Removed));
        assert_eq!(first(moment, blocks[1]), Some(Change::Stored));
        let moment = Instant::now();
        log.changed(&Event::Cleared);
        assert_eq!(first(moment, blocks[1]), Some(Change::Cleared));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let log = ChangeLog::default();
        let blocks: Vec<_> = (1..=1000).map(BlockHash::new).collect();
        (0..100).for_each(|_| log.changed(&Event::Stored(Stored::prompt(&blocks))));
        assert!(log.0.lock().entries.len() <= MAX_ENTRIES);
    }
}
