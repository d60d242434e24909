//! Which requests began, and how often each ended.
//!
//! The rule that must never break is the one it checks: a request that began ends exactly once.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;

/// The number of a request in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a number")]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "load-{}", self.0)
    }
}

/// Beginnings and ends.
#[derive(Debug, Default)]
pub struct Ledger {
    counts: Mutex<BTreeMap<RequestId, Counts>>,
}

impl Ledger {
    /// Begins a request under a number of its own.
    pub fn begin(&self) -> RequestId {
        let mut counts = self.counts.lock();
        let id = RequestId(counts.last_key_value().map_or(0, |(last, _)| last.0 + 1));
        counts.insert(id, Counts { begun: 1, ended: 0 });
        id
    }

    /// Ends it.
    pub fn end(&self, id: RequestId) {
        self.counts.lock().entry(id).or_default().ended += 1;
    }

    /// What does not add up.
    #[must_use]
    pub fn audit(&self) -> Audit {
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

/// What a ledger has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Requests that began.
    pub begun: usize,
    /// Those without an end.
    pub never_ended: Vec<RequestId>,
    /// Those with more than one.
    pub ended_again: Vec<RequestId>,
    /// Ends of nothing.
    pub never_begun: Vec<RequestId>,
}

impl Audit {
    /// Whether every request ended exactly once.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.never_ended.is_empty() && self.ended_again.is_empty() && self.never_begun.is_empty()
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
    fn a_ledger_in_order_has_nothing_to_say() {
        let ledger = Ledger::default();
        let ids = [ledger.begin(), ledger.begin(), ledger.begin()];
        assert!(!ledger.audit().holds());
        ids.iter().rev().for_each(|id| ledger.end(*id));
        assert!(ledger.audit().holds());
        assert_eq!(ledger.audit().begun, 3);
    }

    #[test]
    fn what_never_ended_ended_twice_or_never_began_is_named() {
        let ledger = Ledger::default();
        let (open, twice) = (ledger.begin(), ledger.begin());
        ledger.end(twice);
        ledger.end(twice);
        ledger.end(RequestId(77));
        let audit = ledger.audit();
        assert_eq!(
            (audit.never_ended, audit.ended_again, audit.never_begun),
            (vec![open], vec![twice], vec![RequestId(77)])
        );
    }
}
