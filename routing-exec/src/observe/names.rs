//! Label values of spans and metrics. Cardinality is bounded: of what a client wrote only the model is among them.

use std::borrow::Cow;
use std::time::Duration;

use crate::failure::Failure;
use crate::report::{AttemptOutcome, DispatchOutcome, DispatchReport};

/// OpenTelemetry's attributes of a request.
///
/// # Examples
///
/// ```
/// use routing_exec::observe::RequestLabels;
///
/// let about = RequestLabels::new("chat").model("llama-3-8b");
/// assert_eq!(format!("{about:?}"), r#"RequestLabels { operation: "chat", model: Some("llama-3-8b") }"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLabels {
    pub(super) operation: Cow<'static, str>,
    pub(super) model: Option<Cow<'static, str>>,
}

impl RequestLabels {
    /// A request of an operation: `chat`, `text_completion`, `embeddings`, `generate_content`.
    #[must_use]
    pub fn new(operation: impl Into<Cow<'static, str>>) -> Self {
        Self { operation: operation.into(), model: None }
    }

    /// Sets the model. Only for models that the caller serves: clients may make up any number of names.
    #[must_use]
    pub fn model(self, model: impl Into<Cow<'static, str>>) -> Self {
        Self { model: Some(model.into()), ..self }
    }
}

/// The outcome of a dispatch.
pub(super) fn dispatch_outcome(outcome: &DispatchOutcome) -> &'static str {
    match outcome {
        DispatchOutcome::Completed(_) => "completed",
        DispatchOutcome::Failed(_) => "failed",
        DispatchOutcome::ClientDisconnected => "client_disconnected",
        DispatchOutcome::Cancelled => "cancelled",
    }
}

/// The `error.type` of a dispatch, if it failed.
pub(super) fn error_type(outcome: &DispatchOutcome) -> Option<Cow<'static, str>> {
    match outcome {
        DispatchOutcome::Completed(status @ 400..) => Some(status.to_string().into()),
        DispatchOutcome::Completed(_) => None,
        DispatchOutcome::Failed(error) => Some(error.code().into()),
        DispatchOutcome::ClientDisconnected | DispatchOutcome::Cancelled => Some(dispatch_outcome(outcome).into()),
    }
}

/// The outcome of an attempt.
pub(super) fn attempt_outcome(outcome: &AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Pending => "pending",
        AttemptOutcome::Completed => "completed",
        AttemptOutcome::Cancelled => "cancelled",
        AttemptOutcome::Failed(failure) => match failure {
            Failure::Connect(_) => "connect_failure",
            Failure::FirstByteTimeout => "first_byte_timeout",
            Failure::IdleTimeout => "idle_timeout",
            Failure::Status(_) => "status",
            Failure::Truncated(_) => "truncated",
            Failure::ErrorEvent => "error_event",
            Failure::ResponseTooLarge => "response_too_large",
            Failure::BreakerOpen => "breaker_open",
        },
    }
}

/// The duration of a dispatch, from its first attempt; `None` without one.
pub(super) fn duration(report: &DispatchReport) -> Option<Duration> {
    let ended = report.attempts.iter().filter_map(|attempt| attempt.ended).max()?;
    Some(ended.saturating_duration_since(report.attempts.first()?.sent))
}

/// The client's time to first byte, failed attempts and other legs included.
pub(super) fn time_to_first_byte(report: &DispatchReport) -> Option<Duration> {
    let last = report.attempts.last().filter(|_| report.bytes > 0)?;
    Some(last.first_byte?.saturating_duration_since(report.attempts.first()?.sent))
}
