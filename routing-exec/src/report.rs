//! Dispatch report: the outcome of a dispatch and of each attempt, as data.

use std::sync::Arc;
use std::time::Instant;

use routing_core::Pod;

use crate::error::DispatchError;
use crate::failure::Failure;
use crate::usage::TokenUsage;

/// The outcome of a dispatch, attempt by attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchReport {
    /// How the dispatch ended.
    pub outcome: DispatchOutcome,
    /// Every attempt, in order.
    pub attempts: Vec<AttemptRecord>,
    /// Steps that were skipped because their pods failed.
    pub skipped: Vec<Arc<str>>,
    /// Handoffs that were dropped because the prefill pod's response lacked parameters.
    pub handoffs_dropped: u32,
    /// New plans that were requested.
    pub replans: u32,
    /// Bytes forwarded to the client.
    pub bytes: u64,
}

impl DispatchReport {
    /// A report without attempts, for executors that make none.
    #[must_use]
    pub fn new(outcome: DispatchOutcome) -> Self {
        let (attempts, skipped) = (Vec::new(), Vec::new());
        Self { outcome, attempts, skipped, handoffs_dropped: 0, replans: 0, bytes: 0 }
    }
}

impl AttemptRecord {
    /// A complete attempt with a usage, for executors and tests that make their own reports.
    #[must_use]
    pub fn completed(step: Arc<str>, pod: Pod, at: Instant, usage: Option<TokenUsage>) -> Self {
        let (ended, status, outcome) = (Some(at), Some(200), AttemptOutcome::Completed);
        Self { ended, status, usage, outcome, ..Self::begun(step, pod, at) }
    }
}

/// How a dispatch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DispatchOutcome {
    /// The client has the complete response of a pod, with this status. It may be an error that no other pod would change, or
    /// the last candidate's.
    Completed(u16),
    /// The client got this error, as a response or as the last event of its stream.
    Failed(DispatchError),
    /// The client disconnected.
    ClientDisconnected,
    /// The embedding program cancelled it, and the client got an error.
    Cancelled,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The name of its step.
    pub step: Arc<str>,
    /// Its pod.
    pub pod: Pod,
    /// When it was sent.
    pub sent: Instant,
    /// When the head of its response arrived.
    pub head: Option<Instant>,
    /// When the first byte of its body arrived.
    pub first_byte: Option<Instant>,
    /// When it was over.
    pub ended: Option<Instant>,
    /// Bytes of its body.
    pub bytes: u64,
    /// The status of its response.
    pub status: Option<u16>,
    /// Token usage by its response, as far as that was read.
    pub usage: Option<TokenUsage>,
    /// How it ended.
    pub outcome: AttemptOutcome,
}

impl AttemptRecord {
    pub(crate) fn begun(step: Arc<str>, pod: Pod, sent: Instant) -> Self {
        let (head, first_byte, ended, status, usage) = (None, None, None, None, None);
        Self { step, pod, sent, head, first_byte, ended, bytes: 0, status, usage, outcome: AttemptOutcome::Pending }
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// It is in flight.
    Pending,
    /// Its response is complete.
    Completed,
    /// It failed.
    Failed(Failure),
    /// It was cancelled through no fault of the pod.
    Cancelled,
}
