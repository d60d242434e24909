//! Dispatch errors, and their responses in the form of the OpenAI API.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use crate::failure::Failure;
use crate::hook::HookError;

/// Why a dispatch ended without a complete response of a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError {
    /// The plan has no candidates that are not excluded. The operator's fleet is too small or unhealthy.
    #[error("no pod is available for step `{step}`")]
    NoCandidates {
        /// The step.
        step: Box<str>,
    },
    /// The step's last candidate failed.
    #[error("step `{step}` failed: {failure}")]
    StepFailed {
        /// The step.
        step: Box<str>,
        /// The last candidate's failure.
        failure: Failure,
    },
    /// The response was truncated after the client got some of it.
    #[error("the response ended early: {0}")]
    Truncated(Failure),
    /// The request's deadline passed.
    #[error("the request's deadline passed")]
    DeadlineExceeded,
    /// The embedding program cancelled the request.
    #[error("the request was cancelled")]
    Cancelled,
    /// The attempt failed, and the retry budget is exhausted.
    #[error("step `{step}` failed, and the retry budget is exhausted: {failure}")]
    RetryBudgetExhausted {
        /// The step.
        step: Box<str>,
        /// The attempt's failure.
        failure: Failure,
    },
    /// The request cannot be handed off.
    #[error(transparent)]
    Handoff(#[from] crate::handoff::HandoffError),
    /// A hook rejected the request or its response.
    #[error(transparent)]
    Hook(#[from] HookError),
}

impl DispatchError {
    /// The client's status, if its response has not begun: 4xx or 5xx, and 502 where a hook gave another.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        let status = match self {
            Self::NoCandidates { .. } | Self::Cancelled => 503,
            Self::StepFailed { failure, .. }
            | Self::RetryBudgetExhausted { failure, .. }
            | Self::Truncated(failure) => failure.status(),
            Self::DeadlineExceeded => 504,
            Self::Handoff(error) => error.status(),
            Self::Hook(error) => error.status.get(),
        };
        let status = StatusCode::from_u16(status).ok();
        status.filter(|status| status.is_client_error() || status.is_server_error()).unwrap_or(StatusCode::BAD_GATEWAY)
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.status().is_server_error()
    }

    /// The error's `type` in a response, and its label in metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoCandidates { .. } => "no_pod_available",
            Self::StepFailed { .. } => "pod_failed",
            Self::Truncated(_) => "response_truncated",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Cancelled => "cancelled",
            Self::RetryBudgetExhausted { .. } => "retry_budget_exhausted",
            Self::Handoff(_) => "handoff_failed",
            Self::Hook(_) => "rejected_by_hook",
        }
    }

    /// The error as a body in the form of the OpenAI API.
    pub(crate) fn body(&self) -> String {
        let mut body = r#"{"error":{"message":"#.to_owned();
        json_edit::write_string(&self.to_string(), &mut body);
        body.push_str(r#","type":"#);
        json_edit::write_string(self.code(), &mut body);
        body.push_str(&format!(r#","code":{}}}}}"#, self.status().as_u16()));
        body
    }

    /// The response of a client that has got nothing yet.
    pub(crate) fn response(&self, retry_after: Duration) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.body()));
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            // Whole seconds, and never none: a client that waits no time comes back at once.
            let seconds = retry_after.as_secs().max(1);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
