//! Request log: totals, a time series, the last decisions, and requests in flight.
//!
//! One lock, held for a few stores, three times a request.

mod entry;
mod time_series;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use routing_core::flow::FlowTrace;
use routing_core::{Role, Trace};
use routing_exec::{DispatchOutcome, DispatchReport};
use serde::Serialize;

use pointsman::Audited;

pub(super) use self::entry::{ActiveRequest, Decision, Ended, Stage};
pub use self::time_series::Sample;
use self::time_series::TimeSeries;
use super::histogram::Histogram;

pub(super) struct RequestLog {
    started: Instant,
    inner: Mutex<Inner>,
}

/// Counters since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// Requests routed.
    pub requests: u64,
    /// Requests in flight, including those being read. The log does not count them: whoever shows the totals does.
    pub in_flight: usize,
    /// Requests completed by a pod.
    pub completed: u64,
    /// Requests that a pod answered with an error of the client's (4xx).
    pub client_errors: u64,
    /// Requests that ended in an error.
    pub failed: u64,
    /// Requests cancelled by their client.
    pub cancelled: u64,
    /// Requests rejected before dispatch.
    pub rejected: u64,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Prompt tokens that the chosen pod was known to hold.
    pub cached_tokens: u64,
    /// Decisions by model and profile.
    #[serde(skip)]
    pub(super) decisions: BTreeMap<(Arc<str>, Arc<str>), u64>,
    /// Time to first token.
    #[serde(skip)]
    pub(super) ttft: Histogram,
}

#[derive(Default)]
struct Inner {
    totals: Totals,
    series: TimeSeries,
    decisions: VecDeque<Decision>,
    active: BTreeMap<u64, ActiveRequest>,
    next: u64,
}

impl Inner {
    /// Keeps a decision as the last one.
    fn keep(&mut self, decision: Decision) {
        if self.decisions.len() == MAX_DECISIONS {
            self.decisions.pop_front();
        }
        self.decisions.push_back(decision);
    }
}

impl RequestLog {
    pub(super) fn new(started: Instant) -> Self {
        Self { started, inner: Mutex::default() }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Records a decision and returns its key.
    pub(super) fn record_decision(&self, decision: Decision) -> u64 {
        let mut inner = self.inner.lock();
        let key = inner.next;
        inner.next += 1;
        inner.totals.requests += 1;
        inner.totals.prompt_tokens += decision.prompt_tokens;
        inner.totals.cached_tokens += decision.expected_tokens;
        let decider = (Arc::clone(&decision.model), Arc::clone(&decision.profile));
        *inner.totals.decisions.entry(decider).or_default() += 1;
        inner.series.record_decision(decision.prompt_tokens, decision.expected_tokens);
        inner.active.insert(key, ActiveRequest::new(decision.id.clone(), decision.at));
        inner.keep(Decision { key, ..decision });
        key
    }

    /// Records a request that flow control shed, among the decisions: none was made for good.
    pub(super) fn record_shed(&self, decision: Decision, flow: &FlowTrace, why: &'static str) {
        let mut trace = Trace::default();
        trace.flow = Some(flow.clone());
        let (id, total) = (Arc::clone(&decision.id), decision.at.elapsed());
        let ended = Ended { id, outcome: format!("shed: {why}"), pod: None, ttft: None, total };
        let mut inner = self.inner.lock();
        let key = inner.next;
        inner.next += 1;
        inner.keep(Decision { key, trace: Some(Arc::new(trace)), ended: Some(ended), ..decision });
    }

    /// Records a request rejected before dispatch.
    pub(super) fn record_rejection(&self) {
        self.inner.lock().totals.rejected += 1;
    }

    /// Records a dispatch to a pod.
    pub(super) fn record_dispatch(&self, key: u64, pod: Arc<str>, role: Role, prefilled: bool) {
        if let Some(request) = self.inner.lock().active.get_mut(&key) {
            request.pod = Some(pod);
            request.stage = if role == Role::Decode && prefilled { Stage::Decode } else { Stage::Prefill };
        }
    }

    /// Records the first byte of the response.
    pub(super) fn record_first_byte(&self, key: u64) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let Some(request) = inner.active.get_mut(&key) else { return };
        request.stage = Stage::Streaming;
        if request.ttft.is_some() {
            return;
        }
        let ttft = request.began.elapsed();
        request.ttft = Some(ttft);
        inner.series.record_first_byte(ttft);
    }

    /// The last pod of a request in flight or among the last decisions.
    pub(super) fn last_pod(&self, key: u64) -> Option<Arc<str>> {
        let inner = self.inner.lock();
        let kept = || inner.decisions.iter().rev().find(|decision| decision.key == key)?.ended.as_ref()?.pod.clone();
        inner.active.get(&key).map_or_else(kept, |request| request.pod.clone())
    }

    /// Records the end of a request.
    /// Returns how it ended; none if it had ended before.
    pub(super) fn record_outcome(&self, key: u64, report: &DispatchReport, audited: Option<Audited>) -> Option<Ended> {
        let mut inner = self.inner.lock();
        let request = inner.active.remove(&key)?;
        let (outcome, count) = match &report.outcome {
            DispatchOutcome::Completed(status @ 500..) => (format!("completed {status}"), &mut inner.totals.failed),
            DispatchOutcome::Completed(status @ 400..) => {
                (format!("completed {status}"), &mut inner.totals.client_errors)
            }
            DispatchOutcome::Completed(status) => (format!("completed {status}"), &mut inner.totals.completed),
            DispatchOutcome::Failed(error) => (format!("failed: {}", error.code()), &mut inner.totals.failed),
            DispatchOutcome::ClientDisconnected => ("client disconnected".to_owned(), &mut inner.totals.cancelled),
            _ => ("cancelled".to_owned(), &mut inner.totals.cancelled),
        };
        *count += 1;
        // The first byte of an error is no token.
        let ttft = request.ttft.filter(|_| report.time_to_first_token().is_some());
        ttft.into_iter().for_each(|ttft| inner.totals.ttft.record(ttft));
        let ended = Ended { id: request.id, outcome, pod: request.pod, ttft, total: request.began.elapsed() };
        if let Some(decision) = inner.decisions.iter_mut().rev().find(|decision| decision.key == key) {
            (decision.ended, decision.audited) = (Some(ended.clone()), audited);
        }
        Some(ended)
    }

    /// Ends the current second.
    pub(super) fn tick(&self) {
        let t = self.started.elapsed().as_secs();
        self.inner.lock().series.tick(t);
    }

    pub(super) fn totals(&self) -> Totals {
        self.inner.lock().totals.clone()
    }

    pub(super) fn series(&self) -> Vec<Sample> {
        self.inner.lock().series.samples()
    }

    /// The last decisions, newest first.
    pub(super) fn decisions(&self) -> Vec<Decision> {
        self.inner.lock().decisions.iter().rev().cloned().collect()
    }

    /// Requests in flight, oldest first, up to a limit.
    pub(super) fn active(&self, limit: usize) -> Vec<ActiveRequest> {
        self.inner.lock().active.values().take(limit).cloned().collect()
    }

    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}

const MAX_DECISIONS: usize = 50;

#[cfg(test)]
mod tests;
