//! Errors as vLLM's server writes them.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;

use super::response_body::Kind;

/// What is wrong, for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl ApiError {
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into() }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, message: message.into() }
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, message: message.into() }
    }
}

impl ApiError {
    /// The response as clients of an API read it.
    pub(super) fn of_kind(self, kind: Kind) -> Response {
        if kind != Kind::Messages {
            return self.into_response();
        }
        let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": self.message}});
        (self.status, Json(error)).into_response()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let kind = match self.status {
            StatusCode::BAD_REQUEST => "BadRequestError",
            StatusCode::NOT_FOUND => "NotFoundError",
            _ => "InternalServerError",
        };
        let error = json!({"message": self.message, "type": kind, "param": null, "code": self.status.as_u16()});
        (self.status, Json(json!({ "error": error }))).into_response()
    }
}
