//! What things are called in spans and metrics. Names stay few: nothing a client wrote is among them but the model.

use std::borrow::Cow;
use std::time::Duration;

use crate::failure::Failure;
use crate::record::{Fate, Outcome, Report};

/// What a request is, in OpenTelemetry's words.
///
/// # Examples
///
/// ```
/// use routing_exec::observe::About;
///
/// let about = About::new("chat").model("llama-3-8b");
/// assert_eq!(format!("{about:?}"), r#"About { operation: "chat", model: Some("llama-3-8b") }"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    pub(super) operation: Cow<'static, str>,
    pub(super) model: Option<Cow<'static, str>>,
}

impl About {
    /// A request for an operation: `chat`, `text_completion`, `embeddings`, `generate_content`.
    #[must_use]
    pub fn new(operation: impl Into<Cow<'static, str>>) -> Self {
        Self { operation: operation.into(), model: None }
    }

    /// The same, of a model. Give it only if the host knows it: a label for each name that clients make up is too many.
    #[must_use]
    pub fn model(self, model: impl Into<Cow<'static, str>>) -> Self {
        Self { model: Some(model.into()), ..self }
    }
}

/// How a request ended.
pub(super) fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed(_) => "completed",
        Outcome::Failed(_) => "failed",
        Outcome::ClientGone => "client_gone",
        Outcome::Cancelled => "cancelled",
    }
}

/// The kind of error that a request ended in, if it did.
pub(super) fn error(outcome: &Outcome) -> Option<Cow<'static, str>> {
    match outcome {
        Outcome::Completed(status @ 400..) => Some(status.to_string().into()),
        Outcome::Completed(_) => None,
        Outcome::Failed(error) => Some(error.code().into()),
        Outcome::ClientGone => Some("client_gone".into()),
        Outcome::Cancelled => Some("cancelled".into()),
    }
}

/// What became of an attempt.
pub(super) fn fate(fate: &Fate) -> &'static str {
    match fate {
        Fate::Pending => "pending",
        Fate::Completed => "completed",
        Fate::Cancelled => "cancelled",
        Fate::Failed(failure) => match failure {
            Failure::Connect(_) => "connect",
            Failure::Silent => "silent",
            Failure::Idle => "idle",
            Failure::Status(_) => "status",
            Failure::Cut(_) => "cut",
            Failure::ErrorEvent => "error_event",
            Failure::TooLong => "too_long",
            Failure::Refused => "refused",
        },
    }
}

/// How long a request took, from when its first attempt was sent; none if none was.
pub(super) fn duration(report: &Report) -> Option<Duration> {
    let ended = report.attempts.iter().filter_map(|attempt| attempt.ended).max()?;
    Some(ended.saturating_duration_since(report.attempts.first()?.sent))
}

/// How long its client waited for a first byte of a pod's, failed attempts and other legs included.
pub(super) fn first_byte(report: &Report) -> Option<Duration> {
    let answering = report.attempts.last().filter(|_| report.bytes > 0)?;
    Some(answering.first_byte?.saturating_duration_since(report.attempts.first()?.sent))
}
