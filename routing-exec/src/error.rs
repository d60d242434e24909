//! Dispatch errors, and their responses in the form of the OpenAI API.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use crate::error_body::error_body;
use crate::failure::Failure;
use crate::handoff::Api;
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
    /// The request took longer in all than the policy allows ([`DispatchPolicy::request_timeout`](crate::DispatchPolicy)).
    #[error("the request took longer than {} s in all", .0.as_secs_f64())]
    RequestTimeout(Duration),
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
    /// The plan has a step that the dialect cannot carry. Nothing was sent.
    #[error(transparent)]
    Role(#[from] crate::handoff::RoleNotCarried),
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
            Self::DeadlineExceeded | Self::RequestTimeout(_) => 504,
            Self::Role(_) => 501,
            Self::Handoff(error) => error.status(),
            Self::Hook(error) => error.status.get(),
        };
        let status = StatusCode::from_u16(status).ok();
        status.filter(|status| status.is_client_error() || status.is_server_error()).unwrap_or(StatusCode::BAD_GATEWAY)
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.status().is_server_error() && !matches!(self, Self::Role(_))
    }

    /// Whether the time of the whole request is up, through no fault of a pod.
    pub(crate) fn is_total_bound(&self) -> bool {
        matches!(self, Self::DeadlineExceeded | Self::RequestTimeout(_))
    }

    /// The error's `code` in a response, and its label in metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoCandidates { .. } => "no_pod_available",
            Self::StepFailed { failure: Failure::LocalResources(_), .. } => "out_of_local_resources",
            Self::StepFailed { .. } => "pod_failed",
            Self::Truncated(_) => "response_truncated",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::RequestTimeout(_) => "request_timeout",
            Self::Cancelled => "cancelled",
            Self::RetryBudgetExhausted { .. } => "retry_budget_exhausted",
            Self::Role(_) => "role_not_carried",
            Self::Handoff(_) => "handoff_failed",
            Self::Hook(_) => "rejected_by_hook",
        }
    }

    /// The error as a body in the form of the OpenAI API, or of Anthropic's to its clients.
    pub(crate) fn body(&self, api: Api) -> String {
        if api.is_anthropic() {
            return anthropic_error(self.status(), &self.to_string());
        }
        error_body(self.status(), self.code(), &self.to_string())
    }

    /// The response of a client that has got nothing yet.
    pub(crate) fn response(&self, api: Api, retry_after: Duration) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.body(api)));
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if matches!(self.status(), StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            // Whole seconds, and never none: a client that waits no time comes back at once.
            let seconds = retry_after.as_secs().max(1);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The body of an error in the form of Anthropic's API, with the type that it has for the status.
///
/// # Examples
///
/// ```
/// use http::StatusCode;
///
/// let error = routing_exec::anthropic_error(StatusCode::NOT_FOUND, "no such model");
/// assert_eq!(error, r#"{"type":"error","error":{"type":"not_found_error","message":"no such model"}}"#);
/// ```
#[must_use]
pub fn anthropic_error(status: StatusCode, message: &str) -> String {
    let kind = match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        400..500 => "invalid_request_error",
        _ => "api_error",
    };
    let mut body = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"#);
    json_edit::write_string(message, &mut body);
    body.push_str("}}");
    body
}
