//! Invariant checker: a request that began ends exactly once.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;

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
    counts: Mutex<BTreeMap<RequestId, Counts>>,
}

impl RequestTracker {
    /// Begins a request under a number of its own.
    pub(crate) fn begin(&self) -> RequestId {
        let mut counts = self.counts.lock();
        let id = RequestId(counts.last_key_value().map_or(0, |(last, _)| last.0 + 1));
        counts.insert(id, Counts { begun: 1, ended: 0 });
        id
    }

    /// Ends it.
    pub(crate) fn end(&self, id: RequestId) {
        self.counts.lock().entry(id).or_default().ended += 1;
    }

    /// What does not add up.
    pub(crate) fn audit(&self) -> Audit {
        let counts = self.counts.lock();
        let which = |odd: fn(&Counts) -> bool| counts.iter().filter(|(_, c)| odd(c)).map(|(id, _)| *id).collect();
        Audit {
            begun: counts.values().map(|c| c.begun).sum(),
            never_ended: which(|c| c.begun > 0 && c.ended == 0),
            ended_again: which(|c| c.ended > 1),
            never_begun: which(|c| c.begun == 0),
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

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    begun: usize,
    ended: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_end_once_pass_the_audit() {
        let tracker = RequestTracker::default();
        let ids = [tracker.begin(), tracker.begin(), tracker.begin()];
        assert!(!tracker.audit().violations().is_empty());
        ids.iter().rev().for_each(|id| tracker.end(*id));
        assert!(tracker.audit().violations().is_empty());
        assert_eq!(tracker.audit().begun, 3);
    }

    #[test]
    fn what_never_ended_ended_twice_or_never_began_is_named() {
        let tracker = RequestTracker::default();
        let (open, twice) = (tracker.begin(), tracker.begin());
        tracker.end(twice);
        tracker.end(twice);
        tracker.end(RequestId(77));
        let audit = tracker.audit();
        assert_eq!(
            (audit.never_ended, audit.ended_again, audit.never_begun),
            (vec![open], vec![twice], vec![RequestId(77)])
        );
    }
}
