//! Error bodies in the form of OpenAI's API. Whoever answers a client in its own name writes them here, so that they are alike.

use http::StatusCode;

/// The body of an error: `{"error":{"message","type","param","code"}}`, with a code that programs tell errors apart by.
///
/// Its `type` is `invalid_request_error` for a 4xx, and `server_error` otherwise.
///
/// # Examples
///
/// ```
/// use http::StatusCode;
/// use routing_exec::error_body;
///
/// let body = error_body(StatusCode::NOT_FOUND, "model_not_found", "no model \"x\"");
/// let expected = r#"{"error":{"message":"no model \"x\"","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#;
/// assert_eq!(body, expected);
/// ```
#[must_use]
pub fn error_body(status: StatusCode, code: &str, message: &str) -> String {
    let kind = if status.is_client_error() { OF_THE_REQUEST } else { "server_error" };
    let mut body = r#"{"error":{"message":"#.to_owned();
    json_edit::write_string(message, &mut body);
    body.push_str(r#","type":""#);
    body.push_str(kind);
    body.push_str(r#"","param":null,"code":"#);
    json_edit::write_string(code, &mut body);
    body.push_str("}}");
    body
}

/// The `type` of errors that are the request's own.
pub(crate) const OF_THE_REQUEST: &str = "invalid_request_error";
