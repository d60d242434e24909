//! What clients are told when no pod answers them, in the form of OpenAI's errors.

use axum::body::Body;
use axum::response::Response;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

/// An error for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// A short name that programs look for.
    pub(super) code: &'static str,
    pub(super) message: String,
    /// Whether the connection is to be closed after it.
    pub(super) close: bool,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), close: false }
    }

    /// The client asked for something that makes no sense.
    pub(super) fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// The gateway stops: somebody else is to be asked.
    pub(super) fn draining() -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "the gateway is stopping");
        Self { close: true, ..refusal }
    }

    /// The gateway has its hands full.
    pub(super) fn busy(limit: usize) -> Self {
        let message = format!("{limit} requests are under way, and more are not taken");
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
        let json: serde_json::Value = serde_json::from_str(&Refusal::bad("x", "it \"is\" wrong").json()).unwrap();
        assert_eq!(json["error"]["message"], "it \"is\" wrong");
        assert_eq!((&json["error"]["code"], &json["error"]["type"]), (&"x".into(), &"invalid_request_error".into()));
    }

    #[test]
    fn who_is_to_come_back_is_told_when_and_who_is_to_leave_is_told_so() {
        let busy = Refusal::busy(3).response();
        assert_eq!((busy.status().as_u16(), &busy.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        assert!(!busy.headers().contains_key("connection"));
        assert_eq!(Refusal::draining().response().headers()["connection"], "close");
    }
}
