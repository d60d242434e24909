//! Error responses in the form of OpenAI's API, and of Anthropic's for its clients.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use routing_core::flow::FlowTrace;
use routing_exec::handoff::Api;
use routing_exec::{anthropic_error, error_body};

/// An error for a client, as OpenAI's API has them.
///
/// # Examples
///
/// ```
/// use pointsman::ApiError;
///
/// let error = ApiError::unknown_model("gpt-7");
/// assert_eq!(error.status.as_u16(), 404);
/// assert!(error.json().contains(r#""code":"model_not_found""#));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ApiError {
    /// The status of the response.
    pub status: StatusCode,
    /// What programs tell errors apart by.
    pub code: &'static str,
    /// What people read.
    pub message: String,
    /// Whether the connection is closed after it: something of the request was not read.
    pub close: bool,
    /// When to come again, if that is known; a second for a 503, if not.
    pub retry_after: Option<Duration>,
    /// What flow control did to the request, if it was shed: behind whom it waited, why and for how long.
    pub shed: Option<Arc<FlowTrace>>,
}

impl ApiError {
    /// An error after which the connection stays open.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), close: false, retry_after: None, shed: None }
    }

    /// 400.
    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 404: no model of this name is served.
    #[must_use]
    pub fn unknown_model(name: &str) -> Self {
        // A client's own text, and never too much of it.
        let name: String = name.chars().take(100).collect();
        Self::new(StatusCode::NOT_FOUND, "model_not_found", format!("the model `{name}` does not exist"))
    }

    /// 503: no pod can be chosen.
    pub fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    /// The same, closing the connection.
    #[must_use]
    pub fn closing(self) -> Self {
        Self { close: true, ..self }
    }

    /// The same, with when to come again.
    #[must_use]
    pub fn retry_after(self, time: Duration) -> Self {
        Self { retry_after: Some(time), ..self }
    }

    /// The body.
    #[must_use]
    pub fn json(&self) -> String {
        error_body(self.status, self.code, &self.message)
    }

    /// The body as clients of an API read it.
    #[must_use]
    pub fn json_for(&self, api: Api) -> String {
        if api.is_anthropic() { anthropic_error(self.status, &self.message) } else { self.json() }
    }

    /// The response.
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        self.response_for(Api::default())
    }

    /// The response as clients of an API read it.
    #[must_use]
    pub fn response_for(&self, api: Api) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.json_for(api)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let soon = || (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(Duration::from_secs(1));
        if let Some(time) = self.retry_after.or_else(soon) {
            headers.insert(RETRY_AFTER, HeaderValue::from(time.as_secs_f64().ceil() as u64));
        }
        if self.code == UNSUPPORTED_ENCODING {
            // RFC 9110: what would have been taken.
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// The code of a body in an encoding that is not understood.
pub(crate) const UNSUPPORTED_ENCODING: &str = "unsupported_content_encoding";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_form_of_openais() {
        let error = ApiError::bad_request("x", "it \"is\" wrong").json();
        let json: serde_json::Value = serde_json::from_str(&error).unwrap();
        assert_eq!(json["error"]["message"], "it \"is\" wrong");
        assert_eq!((&json["error"]["code"], &json["error"]["type"]), (&"x".into(), &"invalid_request_error".into()));
        let unavailable = ApiError::unavailable("busy", "later").closing().response();
        assert_eq!((unavailable.status().as_u16(), unavailable.headers().len()), (503, 3));
    }

    #[test]
    fn anthropics_clients_get_the_form_of_theirs() {
        let error = ApiError::unknown_model("x");
        let json: serde_json::Value = serde_json::from_str(&error.json_for(Api::Messages)).unwrap();
        assert_eq!((&json["type"], &json["error"]["type"]), (&"error".into(), &"not_found_error".into()));
        assert_eq!(error.json_for(Api::Responses), error.json());
    }
}
