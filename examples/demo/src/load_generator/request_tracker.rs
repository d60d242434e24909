//! Request history: when each request began and how it ended; and whether each ended exactly once.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::failure::Failure;

/// The number of a request in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "load-{}", self.0)
    }
}

/// Starts and ends of requests.
#[derive(Debug, Default)]
pub(crate) struct RequestTracker {
    entries: Mutex<BTreeMap<RequestId, Entry>>,
}

/// How a request ended, as its client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// By a whole answer.
    Answered,
    /// The client went away before.
    Left,
    /// Without one.
    Failed(Failure),
}

/// A request that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestRecord {
    pub(crate) id: RequestId,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    pub(crate) outcome: Outcome,
}

impl RequestTracker {
    /// Begins a request under a number of its own.
    pub(crate) fn begin(&self) -> RequestId {
        let mut entries = self.entries.lock();
        let id = RequestId(entries.last_key_value().map_or(0, |(last, _)| last.0 + 1));
        entries.insert(id, Entry { begun: Some(Instant::now()), ..Entry::default() });
        id
    }

    /// Ends it.
    pub(crate) fn end(&self, id: RequestId, outcome: Outcome) {
        let mut entries = self.entries.lock();
        let entry = entries.entry(id).or_default();
        entry.ends += 1;
        entry.ended = Some((Instant::now(), outcome));
    }

    /// The requests that have ended, in the order of their beginnings.
    pub(crate) fn records(&self) -> Vec<RequestRecord> {
        let record = |(id, entry): (&RequestId, &Entry)| {
            let ((ended, outcome), begun) = (entry.ended.clone()?, entry.begun?);
            Some(RequestRecord { id: *id, begun, ended, outcome })
        };
        self.entries.lock().iter().filter_map(record).collect()
    }

    /// What does not add up.
    pub(crate) fn audit(&self) -> Audit {
        let entries = self.entries.lock();
        let which = |odd: fn(&Entry) -> bool| entries.iter().filter(|(_, e)| odd(e)).map(|(id, _)| *id).collect();
        Audit {
            begun: entries.values().filter(|entry| entry.begun.is_some()).count(),
            never_ended: which(|entry| entry.begun.is_some() && entry.ends == 0),
            ended_again: which(|entry| entry.ends > 1),
            never_begun: which(|entry| entry.begun.is_none()),
        }
    }
}

/// Violations of the invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Audit {
    /// Requests that began.
    pub(crate) begun: usize,
    /// Those without an end.
    pub(crate) never_ended: Vec<RequestId>,
    /// Those with more than one.
    pub(crate) ended_again: Vec<RequestId>,
    /// Ends of nothing.
    pub(crate) never_begun: Vec<RequestId>,
}

impl Audit {
    /// Every violation with its count; empty if every request ended exactly once.
    pub(crate) fn violations(&self) -> Vec<String> {
        let counts = [
            ("never ended", self.never_ended.len()),
            ("ended again", self.ended_again.len()),
            ("never begun", self.never_begun.len()),
        ];
        counts.iter().filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{count} {kind}")).collect()
    }
}

#[derive(Clone, Debug, Default)]
struct Entry {
    begun: Option<Instant>,
    ends: usize,
    /// The last end.
    ended: Option<(Instant, Outcome)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_end_once_pass_the_audit() {
        let tracker = RequestTracker::default();
        let ids = [tracker.begin(), tracker.begin(), tracker.begin()];
        assert!(!tracker.audit().violations().is_empty());
        ids.iter().rev().for_each(|id| tracker.end(*id, Outcome::Answered));
        assert!(tracker.audit().violations().is_empty());
        assert_eq!(tracker.audit().begun, 3);
        let records = tracker.records();
        assert_eq!(records.iter().map(|record| record.id).collect::<Vec<_>>(), ids);
        assert!(records.iter().all(|record| record.begun <= record.ended && record.outcome == Outcome::Answered));
    }

    #[test]
    fn what_never_ended_ended_twice_or_never_began_is_named() {
        let tracker = RequestTracker::default();
        let (open, twice) = (tracker.begin(), tracker.begin());
        tracker.end(twice, Outcome::Left);
        tracker.end(twice, Outcome::Answered);
        tracker.end(RequestId(77), Outcome::Answered);
        let audit = tracker.audit();
        assert_eq!(
            (audit.never_ended, audit.ended_again, audit.never_begun),
            (vec![open], vec![twice], vec![RequestId(77)])
        );
    }
}
