//! Request log: totals, a time series, the last decisions, and requests in flight.
//!
//! One lock, held for a few stores, three times a request.

mod entry;
mod time_series;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use routing_core::{Pod, Role};
use routing_exec::{DispatchOutcome, DispatchReport};
use serde::Serialize;

use super::cache_audit::Audited;

pub(super) use self::entry::{ActiveRequest, Decision, Ended, Stage};
pub use self::time_series::Sample;
use self::time_series::TimeSeries;

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
    /// Decisions by profile.
    #[serde(skip)]
    pub(super) decisions: BTreeMap<Arc<str>, u64>,
    /// Histogram of the time to first token: a count for each of [`TTFT_BUCKETS`], and one beyond.
    #[serde(skip)]
    pub(super) ttft: [u64; TTFT_BUCKETS.len() + 1],
    #[serde(skip)]
    pub(super) ttft_micros: u64,
}

/// Upper bounds of the buckets, in seconds.
pub(super) const TTFT_BUCKETS: [f64; 11] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

#[derive(Default)]
struct Inner {
    totals: Totals,
    series: TimeSeries,
    decisions: VecDeque<Decision>,
    active: BTreeMap<u64, ActiveRequest>,
    next: u64,
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
        *inner.totals.decisions.entry(Arc::clone(&decision.live_config.profile)).or_default() += 1;
        inner.series.record_decision(decision.prompt_tokens, decision.expected_tokens);
        inner.active.insert(key, ActiveRequest::new(decision.id.clone(), decision.at));
        if inner.decisions.len() == MAX_DECISIONS {
            inner.decisions.pop_front();
        }
        inner.decisions.push_back(Decision { key, ..decision });
        key
    }

    /// Records a request rejected before dispatch.
    pub(super) fn record_rejection(&self) {
        self.inner.lock().totals.rejected += 1;
    }

    /// Records a dispatch to a pod.
    pub(super) fn record_dispatch(&self, key: u64, pod: Pod, role: Role, prefilled: bool) {
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
        inner.totals.ttft[TTFT_BUCKETS.iter().take_while(|bound| ttft.as_secs_f64() > **bound).count()] += 1;
        inner.totals.ttft_micros += ttft.as_micros() as u64;
        inner.series.record_first_byte(ttft);
    }

    /// The last pod of a request in flight or among the last decisions.
    pub(super) fn last_pod(&self, key: u64) -> Option<Pod> {
        let inner = self.inner.lock();
        let kept = || inner.decisions.iter().rev().find(|decision| decision.key == key)?.ended.as_ref()?.pod;
        inner.active.get(&key).map_or_else(kept, |request| request.pod)
    }

    /// Records the end of a request.
    /// Returns how it ended; none if it had ended before.
    pub(super) fn record_outcome(&self, key: u64, report: &DispatchReport, audited: Option<Audited>) -> Option<Ended> {
        let mut inner = self.inner.lock();
        let request = inner.active.remove(&key)?;
        let (outcome, count) = match &report.outcome {
            DispatchOutcome::Completed(status @ 500..) => (format!("completed {status}"), &mut inner.totals.failed),
            DispatchOutcome::Completed(status) => (format!("completed {status}"), &mut inner.totals.completed),
            DispatchOutcome::Failed(error) => (format!("failed: {}", error.code()), &mut inner.totals.failed),
            DispatchOutcome::ClientDisconnected => ("client disconnected".to_owned(), &mut inner.totals.cancelled),
            _ => ("cancelled".to_owned(), &mut inner.totals.cancelled),
        };
        *count += 1;
        let ended =
            Ended { id: request.id, outcome, pod: request.pod, ttft: request.ttft, total: request.began.elapsed() };
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
