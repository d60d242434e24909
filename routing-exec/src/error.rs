//! Why a request ended without a pod's answer, and what its client is told.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use crate::failure::Failure;
use crate::hook::HookError;

/// Why a request ended without a pod's whole answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The plan names nobody, or nobody that is not ruled out already. An operator's fleet is too small or too ill.
    #[error("no pod is available for step `{step}`")]
    NoCandidates {
        /// The step.
        step: Box<str>,
    },
    /// The last pod that could be asked failed.
    #[error("step `{step}` failed: {failure}")]
    StepFailed {
        /// The step.
        step: Box<str>,
        /// What its last pod did.
        failure: Failure,
    },
    /// The answer broke off after its client had some of it.
    #[error("the answer broke off: {0}")]
    BrokenOff(Failure),
    /// The time for the whole request is up.
    #[error("the request's deadline passed")]
    Deadline,
    /// The host ended the request.
    #[error("the request was cancelled")]
    Cancelled,
    /// More retries than the host allows; the pod's failure stands.
    #[error("step `{step}` failed, and retries are used up: {failure}")]
    NoBudget {
        /// The step.
        step: Box<str>,
        /// What its pod did.
        failure: Failure,
    },
    /// The request cannot be handed from one pod to the next.
    #[error(transparent)]
    Handoff(#[from] crate::handoff::HandoffError),
    /// A hook of the host's said no.
    #[error(transparent)]
    Hook(#[from] HookError),
}

impl RunError {
    /// The status that a client gets, if it has not had one: always one of an error, 502 where somebody gave another.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        let status = match self {
            Self::NoCandidates { .. } => 503,
            Self::StepFailed { failure, .. } | Self::NoBudget { failure, .. } | Self::BrokenOff(failure) => {
                failure.status()
            }
            Self::Deadline => 504,
            Self::Cancelled => 503,
            Self::Handoff(error) => error.status(),
            Self::Hook(error) => error.status.get(),
        };
        let status = StatusCode::from_u16(status).ok();
        status.filter(|status| status.is_client_error() || status.is_server_error()).unwrap_or(StatusCode::BAD_GATEWAY)
    }

    /// Whether the same request may do better later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.status().is_server_error()
    }

    /// A short name for the kind of error, for clients that look for one.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoCandidates { .. } => "no_pod_available",
            Self::StepFailed { .. } => "pod_failed",
            Self::BrokenOff(_) => "answer_broke_off",
            Self::Deadline => "deadline_passed",
            Self::Cancelled => "cancelled",
            Self::NoBudget { .. } => "retries_used_up",
            Self::Handoff(_) => "handoff_failed",
            Self::Hook(_) => "refused",
        }
    }

    /// The error as a body in the form that clients of the OpenAI API know.
    pub(crate) fn body(&self) -> String {
        let mut body = r#"{"error":{"message":"#.to_owned();
        json_edit::write_string(&self.to_string(), &mut body);
        body.push_str(r#","type":"#);
        json_edit::write_string(self.code(), &mut body);
        body.push_str(&format!(r#","code":{}}}}}"#, self.status().as_u16()));
        body
    }

    /// The answer that a client gets who has had nothing yet.
    pub(crate) fn answer(&self, retry_after: Duration) -> Response<Bytes> {
        let mut answer = Response::new(Bytes::from(self.body()));
        *answer.status_mut() = self.status();
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            // Whole seconds, and never none: a client that waits no time comes back at once.
            let seconds = retry_after.as_secs().max(1);
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}
