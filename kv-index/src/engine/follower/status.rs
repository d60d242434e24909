//! State and counters of a follower, as plain data.

use std::time::Instant;

use crate::feeds::BatchOutcome;

/// Where a follower stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "dashboards name each of them")]
pub enum FollowerState {
    /// No subscription: live events are missed. Replays may bring them late.
    #[default]
    Connecting,
    /// No gap is known.
    Live,
    /// Events are missing and have been requested.
    Replaying,
    /// Events are missing for good: with the next batch the pod starts from nothing.
    Lost,
}

/// State and counters of a follower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowerStatus {
    /// Where it stands.
    pub state: FollowerState,
    /// Batches that were applied.
    pub batches: u64,
    /// Batches that came before one that was missing.
    pub gaps: u64,
    /// Requests for what was missing, or to see whether something is.
    pub replays: u64,
    /// Gaps that were given up, each at the cost of what was known.
    pub lost: u64,
    /// Batches that came again.
    pub duplicates: u64,
    /// Batches of an earlier incarnation of the engine.
    pub stale: u64,
    /// Batches of another stream than this pod's.
    pub foreign: u64,
    /// Restarts of the engine that were seen, each at the cost of what was known.
    pub restarts: u64,
    /// Events that lost something on their way into the index, for any [reason](crate::engine::DropReason).
    pub dropped: u64,
    /// Messages that could not be read or did not fit, and connections whose peer broke the protocol.
    pub errors: u64,
    /// Subscriptions that were made.
    pub connections: u64,
    /// When the last batch came, whatever became of it.
    pub last_batch: Option<Instant>,
}

impl FollowerStatus {
    pub(super) fn count(&mut self, outcome: BatchOutcome, now: Instant) {
        match outcome {
            BatchOutcome::Applied(_) => self.batches += 1,
            BatchOutcome::Restarted(_) => {
                self.restarts += 1;
                self.batches += 1;
            }
            BatchOutcome::GapSkipped(_) => {
                self.lost += 1;
                self.batches += 1;
            }
            BatchOutcome::Gap { restarted, .. } => {
                self.restarts += u64::from(restarted);
                self.gaps += 1;
            }
            BatchOutcome::Duplicate => self.duplicates += 1,
            BatchOutcome::Stale => self.stale += 1,
            BatchOutcome::Foreign => self.foreign += 1,
        }
        self.last_batch = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::ApplyStats;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any moment does to count from")]
    fn each_verdict_has_a_count_of_its_own() {
        let (mut status, now) = (FollowerStatus::default(), Instant::now());
        let stats = ApplyStats::default();
        for outcome in [
            BatchOutcome::Applied(stats),
            BatchOutcome::Restarted(stats),
            BatchOutcome::GapSkipped(stats),
            BatchOutcome::Gap { from: 1, to: 2, restarted: true },
            BatchOutcome::Duplicate,
            BatchOutcome::Duplicate,
            BatchOutcome::Stale,
            BatchOutcome::Foreign,
        ] {
            status.count(outcome, now);
        }
        assert_eq!((status.batches, status.restarts, status.lost, status.gaps), (3, 2, 1, 1));
        assert_eq!((status.duplicates, status.stale, status.foreign), (2, 1, 1));
    }
}
