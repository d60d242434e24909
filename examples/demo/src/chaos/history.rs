//! History of a run: what clients and pods recorded, on one clock.

use std::sync::Arc;
use std::time::Duration;

use pointsman_engine_sim::RequestLedger;
use tokio::time::Instant;

use super::timeline::{ExecutionSpan, RequestSpan};
use crate::load_generator::RequestTracker;

/// Requests and executions, in the order of their beginnings.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) requests: Vec<RequestSpan>,
    pub(super) executions: Vec<ExecutionSpan>,
}

impl History {
    /// All of it, by times since `begun`. Pods are numbered as they are named.
    pub(super) fn gather(tracker: &Arc<RequestTracker>, ledger: &RequestLedger, begun: Instant) -> Self {
        let requests = tracker.records().into_iter().map(|record| RequestSpan {
            id: record.id.to_string(),
            begun: record.begun.saturating_duration_since(begun),
            ended: record.ended.saturating_duration_since(begun),
            outcome: record.outcome,
        });
        let since = |time: std::time::Instant| time.saturating_duration_since(begun.into_std());
        let executions = ledger.executions().into_iter().map(|execution| ExecutionSpan {
            pod: execution.pod.trim_start_matches("pod-").parse().unwrap_or(usize::MAX),
            prefills: execution.prefills,
            begun: since(execution.begun),
            ended: execution.ended.map(|(at, end)| (since(at), end)),
            request: execution.request,
        });
        Self { requests: requests.collect(), executions: executions.collect() }
    }

    /// What began before a time.
    pub(super) fn until(&self, end: Duration) -> Self {
        Self {
            requests: self.requests.iter().filter(|request| request.begun < end).cloned().collect(),
            executions: self.executions.iter().filter(|execution| execution.begun < end).cloned().collect(),
        }
    }
}
