//! Change log: what lately became of a pod's blocks, and when the router heard of it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kv_index::{BlockHash, ChangeObserver, Event, FeedProblem, OutOfStep};
use parking_lot::Mutex;

use crate::Clock;

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Stored,
    Removed,
    /// All of the pod's blocks are gone.
    Cleared,
}

/// The last changes of one pod's blocks, written by its event source.
pub struct ChangeLog {
    changes: Mutex<Changes>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Changes {
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// Whether the pod may hold blocks whose events were lost.
    has_forgotten: bool,
    /// Blocks that were ever announced.
    stored: u64,
    /// When something was heard last.
    heard: Option<Instant>,
    problem: Option<StreamProblem>,
    /// Since when batches are missing.
    gap: Option<Instant>,
    /// How the source is out of step with its engine, and since when it is in whatever way.
    out_of_step: Option<(OutOfStep, Instant)>,
}

/// Why a pod's events are not up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lag {
    Gap,
    OutOfStep(OutOfStep),
}

/// What keeps a pod's blocks from being found, as it was told last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamProblem {
    BlockSize { engine: u32, index: u32 },
    Hashes(String),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    change: Change,
    /// None for all of them.
    block: Option<BlockHash>,
}

impl Changes {
    fn after(&self, moment: Instant) -> impl Iterator<Item = &Entry> {
        self.entries.iter().skip(self.entries.partition_point(|entry| entry.at < moment))
    }
}

impl ChangeLog {
    pub(super) fn new(clock: Clock) -> Self {
        Self { changes: Mutex::default(), clock }
    }

    /// Blocks that were ever announced.
    pub(crate) fn stored(&self) -> u64 {
        self.changes.lock().stored
    }

    /// When something was heard last.
    pub(crate) fn heard(&self) -> Option<Instant> {
        self.changes.lock().heard
    }

    /// What keeps the pod's blocks from being found.
    pub(crate) fn last_problem(&self) -> Option<StreamProblem> {
        self.changes.lock().problem.clone()
    }

    /// Why its events are not up to date, and since when.
    pub(crate) fn lag(&self) -> Option<(Lag, Instant)> {
        let changes = self.changes.lock();
        let out_of_step = changes.out_of_step.map(|(how, since)| (Lag::OutOfStep(how), since));
        out_of_step.or_else(|| changes.gap.map(|since| (Lag::Gap, since)))
    }

    /// The first change of a block after a moment, and when it was heard of.
    pub(super) fn first_after(&self, moment: Instant, block: BlockHash) -> Option<(Change, Instant)> {
        let is_meant = |entry: &&Entry| entry.block.is_none_or(|changed| changed == block);
        self.changes.lock().after(moment).find(is_meant).map(|entry| (entry.change, entry.at))
    }

    /// When it was heard, after a moment at which a block was not held, that it came.
    ///
    /// A cache that is cleared first is no less without it: engines announce that, with what they store next, only in their next
    /// step, so that requests may be decided between the two.
    pub(super) fn stored_after(&self, moment: Instant, block: BlockHash) -> Option<Instant> {
        let changes = self.changes.lock();
        let first = changes.after(moment).find(|entry| entry.block == Some(block))?;
        (first.change == Change::Stored).then_some(first.at)
    }

    /// Whether the pod may hold blocks whose events were lost: until it is cleared.
    pub(super) fn has_forgotten(&self) -> bool {
        self.changes.lock().has_forgotten
    }

    fn push(&self, at: Instant, change: Change, blocks: &[BlockHash]) {
        let mut changes = self.changes.lock();
        changes.has_forgotten &= change != Change::Cleared;
        changes.heard = Some(at);
        if change == Change::Stored {
            changes.stored += blocks.len() as u64;
        }
        // Blocks of another size are not stored, and an engine that begins anew may hash otherwise.
        let is_mended = match changes.problem {
            Some(StreamProblem::BlockSize { .. }) => change == Change::Stored,
            _ => change == Change::Cleared,
        };
        if is_mended {
            changes.problem = None;
        }
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
        let now = (self.clock)();
        match event {
            Event::Stored(stored) => self.push(now, Change::Stored, stored.blocks),
            Event::Removed(removed) => self.push(now, Change::Removed, removed.blocks),
            Event::Cleared => self.push(now, Change::Cleared, &[]),
        }
    }

    fn forgot(&self) {
        self.changes.lock().has_forgotten = true;
    }

    fn problem(&self, problem: FeedProblem<'_>) {
        let mut changes = self.changes.lock();
        changes.heard = Some((self.clock)());
        changes.problem = match problem {
            FeedProblem::BlockSize { engine, index } => Some(StreamProblem::BlockSize { engine, index }),
            FeedProblem::Hashes(why) => Some(StreamProblem::Hashes(why.to_string())),
            _ => return,
        };
    }

    fn gap(&self, is_open: bool) {
        let mut changes = self.changes.lock();
        changes.gap = is_open.then(|| changes.gap.unwrap_or_else(|| (self.clock)()));
    }

    fn out_of_step(&self, how: Option<OutOfStep>) {
        let mut changes = self.changes.lock();
        let (now, since) = ((self.clock)(), changes.out_of_step.map(|(_, since)| since));
        changes.out_of_step = how.map(|how| (how, since.unwrap_or(now)));
        if how.is_none() {
            // An engine that publishes is there, whether or not it has something to say.
            changes.heard = Some(now);
        }
    }
}

impl std::fmt::Debug for ChangeLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.changes.lock().fmt(f)
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
        let (log, blocks) = (ChangeLog::new(std::sync::Arc::new(Instant::now)), [BlockHash::new(1), BlockHash::new(2)]);
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
        log.changed(&Event::Stored(Stored::prompt(&blocks[..1])));
        assert!(log.stored_after(moment, blocks[0]).is_some());
        assert!(log.stored_after(moment, blocks[1]).is_none());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let log = ChangeLog::new(std::sync::Arc::new(Instant::now));
        let blocks: Vec<_> = (1..=1000).map(BlockHash::new).collect();
        (0..100).for_each(|_| log.changed(&Event::Stored(Stored::prompt(&blocks))));
        assert!(log.changes.lock().entries.len() <= MAX_ENTRIES);
    }
}
