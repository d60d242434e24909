//! Dispatch report: the outcome of a dispatch and of each attempt, as data.

use std::sync::Arc;
use std::time::{Duration, Instant};

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

    /// The client's time to first token, failed attempts and other legs included. The first token is taken to be in the first byte;
    /// an error has none.
    #[must_use]
    pub fn time_to_first_token(&self) -> Option<Duration> {
        let last = self.attempts.last().filter(|last| self.bytes > 0 && last.has_tokens())?;
        Some(last.first_byte?.saturating_duration_since(self.attempts.first()?.sent))
    }
}

impl AttemptRecord {
    /// A complete attempt with a usage, for executors and tests that make their own reports.
    #[must_use]
    pub fn completed(step: Arc<str>, pod: Pod, at: Instant, usage: Option<TokenUsage>) -> Self {
        let (ended, status, outcome) = (Some(at), Some(200), AttemptOutcome::Completed);
        Self { ended, status, usage, outcome, ..Self::begun(step, pod, at) }
    }

    /// How it ended, as metrics and logs call it. A complete response that is an error is `client_error` or `server_error`.
    #[must_use]
    pub fn outcome_name(&self) -> &'static str {
        match &self.outcome {
            AttemptOutcome::Pending => "pending",
            AttemptOutcome::Completed => completed(self.status.unwrap_or(200)),
            AttemptOutcome::Cancelled => "cancelled",
            AttemptOutcome::Failed(failure) => failure.name(),
        }
    }

    /// The pod's time to first token, which is taken to be in the first byte; an error has none.
    #[must_use]
    pub fn time_to_first_token(&self) -> Option<Duration> {
        Some(self.first_byte.filter(|_| self.has_tokens())?.saturating_duration_since(self.sent))
    }

    /// Whether its response had tokens, as far as can be told.
    fn has_tokens(&self) -> bool {
        let is_success = self.status.is_some_and(|status| (200..300).contains(&status));
        let generated = self.usage.and_then(|usage| usage.completion_tokens);
        let is_error = self.outcome == AttemptOutcome::Failed(Failure::ErrorEvent);
        is_success && self.bytes > 0 && generated != Some(0) && !is_error
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

impl DispatchOutcome {
    /// Its name in metrics and logs. A complete response that is an error is `client_error` or `server_error`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed(status) => completed(*status),
            Self::Failed(_) => "failed",
            Self::ClientDisconnected => "client_disconnected",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A complete response, by its status: what the client is to blame for, or the pod, is no completion.
fn completed(status: u16) -> &'static str {
    match status {
        400..=499 => "client_error",
        500.. => "server_error",
        _ => "completed",
    }
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

#[cfg(test)]
mod tests {
    use kv_index::{Config, Index};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn an_error_is_no_completion_and_has_no_first_token() {
        let (index, now): (Index, _) = (Index::new(Config::default()), Instant::now());
        let pod = index.join("a").expect("a pod");
        let answered = |status, generated, outcome: AttemptOutcome| {
            let usage = TokenUsage { completion_tokens: generated, ..TokenUsage::new(9, 0) };
            let first_byte = Some(now + Duration::from_secs(2));
            let begun = AttemptRecord::begun("decode".into(), pod, now);
            AttemptRecord { status, bytes: 10, usage: Some(usage), first_byte, outcome, ..begun }
        };
        let failed = |failure| AttemptOutcome::Failed(failure);
        for (status, generated, outcome, name, has_tokens) in [
            (200, None, AttemptOutcome::Completed, "completed", true),
            (200, Some(3), AttemptOutcome::Cancelled, "cancelled", true),
            (200, Some(0), AttemptOutcome::Completed, "completed", false),
            (404, None, AttemptOutcome::Completed, "client_error", false),
            (500, None, AttemptOutcome::Completed, "server_error", false),
            (500, None, failed(Failure::Status(500)), "status", false),
            (200, None, failed(Failure::ErrorEvent), "error_event", false),
            (200, None, failed(Failure::IdleTimeout), "idle_timeout", true),
        ] {
            let attempt = answered(Some(status), generated, outcome);
            assert_eq!(attempt.outcome_name(), name);
            let first = has_tokens.then_some(Duration::from_secs(2));
            assert_eq!(attempt.time_to_first_token(), first, "{status} {name}");
            let report = DispatchReport {
                bytes: 10,
                attempts: vec![attempt],
                ..DispatchReport::new(DispatchOutcome::Completed(status))
            };
            assert_eq!(report.time_to_first_token(), first, "{status} {name}");
        }
        let names = [200, 422, 503].map(|status| DispatchOutcome::Completed(status).name());
        assert_eq!(names, ["completed", "client_error", "server_error"]);
    }
}
