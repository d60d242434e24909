//! Error responses in the format of OpenAI's API.

use axum::body::Body;
use axum::response::Response;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

/// An error for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ErrorResponse {
    pub(super) status: StatusCode,
    /// Machine-readable code.
    pub(super) code: &'static str,
    pub(super) message: String,
    /// Whether the connection is closed after it.
    pub(super) close: bool,
}

impl ErrorResponse {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), close: false }
    }

    /// 400.
    pub(super) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 503: the gateway is stopping; the connection is closed.
    pub(super) fn draining() -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "the gateway is stopping");
        Self { close: true, ..error }
    }

    /// 503: the limit of requests in flight is reached.
    pub(super) fn busy(limit: usize) -> Self {
        let message = format!("{limit} requests are in flight, which is the limit");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }

    pub(super) fn json(&self) -> String {
        let kind = if self.status.is_client_error() { "invalid_request_error" } else { "server_error" };
        let error = serde_json::json!({"message": self.message, "type": kind, "param": null, "code": self.code});
        serde_json::json!({ "error": error }).to_string()
    }

    pub(super) fn response(&self) -> Response {
        let mut response = Response::new(Body::from(self.json()));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.close {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_form_of_openais() {
        let json: serde_json::Value =
            serde_json::from_str(&ErrorResponse::bad_request("x", "it \"is\" wrong").json()).unwrap();
        assert_eq!(json["error"]["message"], "it \"is\" wrong");
        assert_eq!((&json["error"]["code"], &json["error"]["type"]), (&"x".into(), &"invalid_request_error".into()));
    }

    #[test]
    fn busy_has_retry_after_and_draining_closes_the_connection() {
        let busy = ErrorResponse::busy(3).response();
        assert_eq!((busy.status().as_u16(), &busy.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        assert!(!busy.headers().contains_key("connection"));
        assert_eq!(ErrorResponse::draining().response().headers()["connection"], "close");
    }
}
