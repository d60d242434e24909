//! Request ledger: which pod ran which request, from when to when, and how that ended.
//!
//! One ledger serves a fleet, so that what a gateway says of its requests can be compared with what pods did. Invariant: an
//! execution that began ends exactly once, at the latest when its pod is gone.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

/// The executions of all pods that were given it. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RequestLedger {
    executions: Arc<Mutex<Vec<Execution>>>,
}

/// One run of a request on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// Its `x-request-id`.
    pub request: String,
    /// The pod.
    pub pod: String,
    /// Whether it only prefills, for another pod to decode.
    pub prefills: bool,
    /// When it was queued.
    pub begun: Instant,
    /// When and how it ended; none while it waits or runs.
    pub ended: Option<(Instant, ExecutionEnd)>,
}

/// How a run of a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecutionEnd {
    /// Every token was generated.
    Finished,
    /// Whoever asked went away.
    Aborted,
    /// The pod died.
    Lost,
}

impl RequestLedger {
    /// All executions, in the order of their beginnings.
    #[must_use]
    pub fn executions(&self) -> Vec<Execution> {
        self.executions.lock().clone()
    }

    /// How many executions a pod has finished that it began since then.
    #[must_use]
    pub fn finished_since(&self, pod: &str, since: Instant) -> usize {
        let executions = self.executions.lock();
        let recent = executions.iter().rev().take_while(|execution| execution.begun >= since);
        recent.filter(|execution| execution.pod == pod && execution.has_finished()).count()
    }

    /// Begins an execution.
    pub(super) fn begin(&self, request: &str, pod: &str, prefills: bool) -> LedgerEntry {
        let mut executions = self.executions.lock();
        let (request, pod) = (request.to_owned(), pod.to_owned());
        executions.push(Execution { request, pod, prefills, begun: Instant::now(), ended: None });
        LedgerEntry { ledger: self.clone(), at: executions.len() - 1, end: ExecutionEnd::Lost }
    }
}

impl Execution {
    /// Whether every token was generated.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        matches!(self.ended, Some((_, ExecutionEnd::Finished)))
    }
}

/// An execution under way. Dropped, it has ended: it is lost, unless [`Self::end`] said otherwise.
#[derive(Debug)]
pub(super) struct LedgerEntry {
    ledger: RequestLedger,
    at: usize,
    end: ExecutionEnd,
}

impl LedgerEntry {
    /// Ends it.
    pub(super) fn end(mut self, end: ExecutionEnd) {
        self.end = end;
    }
}

impl Drop for LedgerEntry {
    fn drop(&mut self) {
        if let Some(execution) = self.ledger.executions.lock().get_mut(self.at) {
            execution.ended = Some((Instant::now(), self.end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_ends_once_and_is_lost_unless_somebody_says_how() {
        let ledger = RequestLedger::default();
        let [finished, aborted, lost] = ["a", "b", "c"].map(|id| ledger.begin(id, "pod", false));
        assert!(ledger.executions().iter().all(|execution| execution.ended.is_none()));
        finished.end(ExecutionEnd::Finished);
        aborted.end(ExecutionEnd::Aborted);
        drop(lost);
        let ends: Vec<_> = ledger.executions().iter().map(|execution| execution.ended.unwrap().1).collect();
        assert_eq!(ends, [ExecutionEnd::Finished, ExecutionEnd::Aborted, ExecutionEnd::Lost]);
    }

    #[test]
    fn what_a_pod_finished_is_counted_from_a_time_on() {
        let ledger = RequestLedger::default();
        ledger.begin("before", "pod", false).end(ExecutionEnd::Finished);
        let since = ledger.begin("at once", "pod", false);
        let time = ledger.executions()[1].begun;
        since.end(ExecutionEnd::Finished);
        ledger.begin("elsewhere", "other", false).end(ExecutionEnd::Finished);
        ledger.begin("lost", "pod", false).end(ExecutionEnd::Lost);
        // The clock may have stood still between the first two.
        assert!((1..=2).contains(&ledger.finished_since("pod", time)));
        assert_eq!(ledger.finished_since("other", time), 1);
    }
}
