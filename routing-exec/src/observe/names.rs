//! Label values of spans and metrics. Cardinality is bounded: of what a client wrote only the model is among them.

use std::borrow::Cow;
use std::time::Duration;

use crate::report::{DispatchOutcome, DispatchReport};

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

/// The `error.type` of a dispatch, if it failed.
pub(super) fn error_type(outcome: &DispatchOutcome) -> Option<Cow<'static, str>> {
    match outcome {
        DispatchOutcome::Completed(status @ 400..) => Some(status.to_string().into()),
        DispatchOutcome::Completed(_) => None,
        DispatchOutcome::Failed(error) => Some(error.code().into()),
        DispatchOutcome::ClientDisconnected | DispatchOutcome::Cancelled => Some(outcome.name().into()),
    }
}

/// The duration of a dispatch, from its first attempt; `None` without one.
pub(super) fn duration(report: &DispatchReport) -> Option<Duration> {
    let ended = report.attempts.iter().filter_map(|attempt| attempt.ended).max()?;
    Some(ended.saturating_duration_since(report.attempts.first()?.sent))
}
