//! What a run did, and how long parts of it took.
//!
//! Counts and timings are kept apart: the counts depend on the options alone, the timings on the machine too.

use std::time::Duration;

use kv_index::ApplyStats;

/// What happened. Equal options without a time limit give equal counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Turns that began.
    pub turns: usize,
    /// Requests routed, those routed again included.
    pub requests: usize,
    /// Requests routed again, because their engine started anew or its pod was retired.
    pub rerouted: usize,
    /// Requests that went past the deepest pods, because those had too much to do.
    pub diverted: usize,
    /// Tokens of all routed prompts.
    pub tokens: usize,
    /// Whole prompt blocks of the requests that engines admitted.
    pub blocks_asked: usize,
    /// How many of them the engines had in their caches.
    pub blocks_hit: usize,
    /// Look-ups in the table by all searches.
    pub probes: usize,
    /// Searches compared with a scan on the way.
    pub spot_checks: usize,
    /// How many of those differed.
    pub spot_mismatches: usize,
    /// Blocks entered before their engine reported them.
    pub speculated: usize,
    /// Speculated blocks that ran out unconfirmed.
    pub expired: usize,
    /// What came from the engines.
    pub events: EventCounts,
    /// Engines started anew.
    pub restarts: usize,
    /// Pods retired.
    pub retired: usize,
    /// Pods swept, their ids free again.
    pub swept: usize,
    /// Pods whose last packets were lost, as their digests showed.
    pub healed: usize,
}

/// What came from the engines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCounts {
    /// Batches applied.
    pub batches: usize,
    /// Reports of blocks that came.
    pub stored: usize,
    /// Reports of a copy that left.
    pub removed: usize,
    /// Reports of an empty cache.
    pub cleared: usize,
    /// What they changed, in blocks.
    pub applied: ApplyStats,
    /// Batches that had been applied before.
    pub duplicates: usize,
    /// Batches from an earlier life of their engine.
    pub stale: usize,
    /// Batches that came with others missing before them.
    pub gaps: usize,
    /// Batches that were asked for again.
    pub asked_again: usize,
    /// Gaps that the engine could no longer fill.
    pub given_up: usize,
    /// Batches that showed a new life of their engine.
    pub restarts: usize,
    /// Batches of a retired pod, refused.
    pub late: usize,
}

impl EventCounts {
    /// Reports of every kind.
    #[must_use]
    pub fn total(&self) -> usize {
        self.stored + self.removed + self.cleared
    }
}

/// How long parts of a run took.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    /// Nanoseconds of each search, hashing the prompt as far as needed included.
    searches: Vec<u32>,
    /// Spent by feeds.
    pub feeding: Duration,
    /// The whole run.
    pub total: Duration,
}

impl Timings {
    /// Notes one search.
    pub fn searched(&mut self, time: Duration) {
        self.searches.push(u32::try_from(time.as_nanos()).unwrap_or(u32::MAX));
    }

    /// Orders the searches, so that [`Self::search_percentile`] can be asked.
    pub fn close(&mut self, total: Duration) {
        self.searches.sort_unstable();
        self.total = total;
    }

    /// Searches noted.
    #[must_use]
    pub fn searches(&self) -> usize {
        self.searches.len()
    }

    /// The time that `percent` of the searches did not exceed, in nanoseconds.
    #[must_use]
    pub fn search_percentile(&self, percent: usize) -> u32 {
        let rank = (self.searches.len() * percent).div_ceil(100).max(1);
        self.searches.get(rank - 1).copied().unwrap_or(0)
    }
}

/// Both.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// What happened.
    pub counts: Counts,
    /// How long it took.
    pub timings: Timings,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let mut timings = Timings::default();
        assert_eq!(timings.search_percentile(99), 0);
        for nanos in (1..=200).rev() {
            timings.searched(Duration::from_nanos(nanos));
        }
        timings.close(Duration::ZERO);
        assert_eq!((timings.search_percentile(50), timings.search_percentile(99)), (100, 198));
        assert_eq!((timings.search_percentile(0), timings.search_percentile(100)), (1, 200));
    }
}
