//! Health and counters of one event source: lock-free, written by the source, read by metrics and the admin page.
//!
//! The rule that must never break: a source never says that it is live while it knows that something is missing.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use kv_index::BatchOutcome;
use serde::Serialize;

/// Status and counters of one event source.
#[derive(Debug)]
pub struct SourceStatus {
    source: &'static str,
    began: Instant,
    state: AtomicU8,
    batches: AtomicU64,
    gaps: AtomicU64,
    replays: AtomicU64,
    lost: AtomicU64,
    duplicates: AtomicU64,
    stale: AtomicU64,
    foreign: AtomicU64,
    restarts: AtomicU64,
    errors: AtomicU64,
    /// Microseconds since `began`, plus one; 0 before the first batch.
    last: AtomicU64,
}

impl SourceStatus {
    /// Of a source of this name, such as `zmq`, that is connecting.
    #[must_use]
    pub fn new(source: &'static str) -> Self {
        Self {
            source,
            began: Instant::now(),
            state: AtomicU8::new(SourceState::Connecting as u8),
            batches: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            replays: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            foreign: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }

    /// Sets the state.
    pub fn set(&self, state: SourceState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Counts a batch by its outcome.
    pub fn count(&self, outcome: BatchOutcome) {
        let restarted = matches!(outcome, BatchOutcome::Restarted(_) | BatchOutcome::Gap { restarted: true, .. });
        self.restarts.fetch_add(u64::from(restarted), Ordering::Relaxed);
        let counter = match outcome {
            BatchOutcome::Applied(_) | BatchOutcome::Restarted(_) => &self.batches,
            BatchOutcome::GapSkipped(_) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                &self.batches
            }
            BatchOutcome::Gap { .. } => &self.gaps,
            BatchOutcome::Stale => &self.stale,
            BatchOutcome::Foreign => &self.foreign,
            _ => &self.duplicates,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let since = self.began.elapsed().as_micros() as u64;
        self.last.store(since + 1, Ordering::Relaxed);
    }

    /// Counts a request for missing events.
    pub fn replay(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a message that could not be read.
    pub fn error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> SourceState {
        SourceState::ALL[usize::from(self.state.load(Ordering::Relaxed))]
    }

    /// Everything as plain data.
    #[must_use]
    pub fn view(&self) -> SourceView {
        let last = self.last.load(Ordering::Relaxed).checked_sub(1);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SourceView {
            source: self.source,
            state: self.state(),
            batches: read(&self.batches),
            gaps: read(&self.gaps),
            replays: read(&self.replays),
            lost: read(&self.lost),
            duplicates: read(&self.duplicates),
            stale: read(&self.stale),
            foreign: read(&self.foreign),
            restarts: read(&self.restarts),
            dropped: 0,
            errors: read(&self.errors),
            age_s: last.map(|last| (self.began.elapsed().as_secs_f64() - last as f64 / 1e6).max(0.0)),
        }
    }
}

/// State of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "metrics and the page name each of them")]
pub enum SourceState {
    /// There is no source.
    #[default]
    Off,
    /// No connection: events may be missed.
    Connecting,
    /// No gap is known.
    Live,
    /// Events are missing and have been requested.
    Replaying,
    /// Events are missing for good: with the next batch the pod starts from nothing.
    Lost,
}

impl SourceState {
    /// Every state, in order of their numbers.
    const ALL: [Self; 5] = [Self::Off, Self::Connecting, Self::Live, Self::Replaying, Self::Lost];
}

/// Snapshot of a source's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SourceView {
    /// `zmq`, `pushed` or `none`.
    pub source: &'static str,
    /// Its state.
    pub state: SourceState,
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
    /// Batches of another stream than the pod's.
    pub foreign: u64,
    /// Restarts of the engine that were seen, each at the cost of what was known.
    pub restarts: u64,
    /// Events that lost something on their way into the index; of pushed events a reporter knows.
    pub dropped: u64,
    /// Messages that could not be read or did not fit.
    pub errors: u64,
    /// Seconds since the last batch; none before the first.
    pub age_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_as_it_was_said() {
        let status = SourceStatus::new("zmq");
        assert_eq!(status.state(), SourceState::Connecting);
        for state in SourceState::ALL {
            status.set(state);
            assert_eq!(status.state(), state);
        }
    }

    #[test]
    fn the_view_is_what_the_page_reads() {
        let status = SourceStatus::new("zmq");
        assert_eq!(status.view().age_s, None);
        status.set(SourceState::Live);
        status.count(BatchOutcome::Gap { from: 1, to: 2, restarted: true });
        status.count(BatchOutcome::Duplicate);
        status.count(BatchOutcome::Stale);
        status.replay();
        status.error();
        let view = status.view();
        assert!(view.age_s.is_some());
        let json = serde_json::to_value(SourceView { age_s: Some(0.5), ..view }).unwrap();
        let expected = serde_json::json!({"source": "zmq", "state": "live", "batches": 0, "gaps": 1, "replays": 1, "lost": 0,
            "duplicates": 1, "stale": 1, "foreign": 0, "restarts": 1, "dropped": 0, "errors": 1, "age_s": 0.5});
        assert_eq!(json, expected);
    }
}
