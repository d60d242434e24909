//! What became of requests: totals, a figure a second, the last decisions, and what is under way.
//!
//! One lock, held for a few stores: three times a request.

mod entry;
mod seconds;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use routing_core::{Pod, Role};
use routing_exec::{DispatchOutcome, DispatchReport};

pub(super) use self::entry::{Decision, Flow, Stage};
pub use self::seconds::Second;
use self::seconds::Seconds;

pub(super) struct Book {
    started: Instant,
    pages: Mutex<Pages>,
}

/// What is counted from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) requests: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    /// Clients that left.
    pub(super) cancelled: u64,
    /// Requests that no pod was asked for.
    pub(super) refused: u64,
    pub(super) prompt_tokens: u64,
    /// Those of them that the index knew the pod to hold.
    pub(super) cached_tokens: u64,
    /// By profile: decisions.
    pub(super) decisions: BTreeMap<Arc<str>, u64>,
    /// First bytes by how long they took: one for each of [`TTFT_BOUNDS`], and one beyond.
    pub(super) ttft: [u64; TTFT_BOUNDS.len() + 1],
    pub(super) ttft_micros: u64,
}

/// The bounds of the histogram of first bytes, in seconds.
pub(super) const TTFT_BOUNDS: [f64; 11] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

#[derive(Default)]
struct Pages {
    totals: Totals,
    seconds: Seconds,
    decisions: VecDeque<Decision>,
    flows: BTreeMap<u64, Flow>,
    next: u64,
}

impl Book {
    pub(super) fn new(started: Instant) -> Self {
        Self { started, pages: Mutex::default() }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// A request was decided on; the number it goes by.
    pub(super) fn decided(&self, decision: Decision) -> u64 {
        let mut pages = self.pages.lock();
        let key = pages.next;
        pages.next += 1;
        pages.totals.requests += 1;
        pages.totals.prompt_tokens += decision.prompt_tokens;
        pages.totals.cached_tokens += decision.matched_tokens;
        *pages.totals.decisions.entry(Arc::clone(&decision.serving.profile)).or_default() += 1;
        pages.seconds.decided(decision.prompt_tokens, decision.matched_tokens);
        pages.flows.insert(key, Flow::new(decision.id.clone(), decision.at));
        if pages.decisions.len() == MOST_DECISIONS {
            pages.decisions.pop_front();
        }
        pages.decisions.push_back(Decision { key, ..decision });
        key
    }

    /// A request was answered without any pod.
    pub(super) fn refused(&self) {
        self.pages.lock().totals.refused += 1;
    }

    /// A pod is asked.
    pub(super) fn asked(&self, key: u64, pod: Pod, role: Role, prefilled: bool) {
        if let Some(flow) = self.pages.lock().flows.get_mut(&key) {
            flow.pod = Some(pod);
            flow.stage = if role == Role::Decode && prefilled { Stage::Decode } else { Stage::Prefill };
        }
    }

    /// The pod that answers the client has begun.
    pub(super) fn first_byte(&self, key: u64) {
        let mut pages = self.pages.lock();
        let pages = &mut *pages;
        let Some(flow) = pages.flows.get_mut(&key) else { return };
        flow.stage = Stage::Streaming;
        if flow.ttft.is_some() {
            return;
        }
        let ttft = flow.began.elapsed();
        flow.ttft = Some(ttft);
        pages.totals.ttft[TTFT_BOUNDS.iter().take_while(|bound| ttft.as_secs_f64() > **bound).count()] += 1;
        pages.totals.ttft_micros += ttft.as_micros() as u64;
        pages.seconds.first_byte(ttft);
    }

    /// The pod that was asked last, of a request that is under way or among the last decisions.
    pub(super) fn last_pod(&self, key: u64) -> Option<Pod> {
        let pages = self.pages.lock();
        let kept = || pages.decisions.iter().rev().find(|decision| decision.key == key)?.answered_by;
        pages.flows.get(&key).map_or_else(kept, |flow| flow.pod)
    }

    /// A request is over.
    pub(super) fn finished(&self, key: u64, report: &DispatchReport) {
        let mut pages = self.pages.lock();
        let Some(flow) = pages.flows.remove(&key) else { return };
        let (outcome, count) = match &report.outcome {
            DispatchOutcome::Completed(status @ 500..) => (format!("completed {status}"), &mut pages.totals.failed),
            DispatchOutcome::Completed(status) => (format!("completed {status}"), &mut pages.totals.completed),
            DispatchOutcome::Failed(error) => (format!("failed: {}", error.code()), &mut pages.totals.failed),
            DispatchOutcome::ClientDisconnected => ("client disconnected".to_owned(), &mut pages.totals.cancelled),
            _ => ("cancelled".to_owned(), &mut pages.totals.cancelled),
        };
        *count += 1;
        if let Some(decision) = pages.decisions.iter_mut().rev().find(|decision| decision.key == key) {
            decision.outcome = Some(outcome);
            decision.answered_by = flow.pod;
            (decision.ttft, decision.total) = (flow.ttft, Some(flow.began.elapsed()));
        }
    }

    /// A second is over.
    pub(super) fn tick(&self) {
        let t = self.started.elapsed().as_secs();
        self.pages.lock().seconds.tick(t);
    }

    pub(super) fn totals(&self) -> Totals {
        self.pages.lock().totals.clone()
    }

    pub(super) fn series(&self) -> Vec<Second> {
        self.pages.lock().seconds.series()
    }

    /// The last decisions, newest first.
    pub(super) fn decisions(&self) -> Vec<Decision> {
        self.pages.lock().decisions.iter().rev().cloned().collect()
    }

    /// What is under way, oldest first, at most so many.
    pub(super) fn flows(&self, most: usize) -> Vec<Flow> {
        self.pages.lock().flows.values().take(most).cloned().collect()
    }

    /// How long a first byte took, in whole and by request, for those that look at means.
    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}

const MOST_DECISIONS: usize = 50;

#[cfg(test)]
mod tests;
