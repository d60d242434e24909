//! The gateway's own error responses, in the format of the request's API.

use axum::body::Body;
use axum::response::Response;
pub(super) use pointsman::ApiError;
use routing_exec::handoff::Api;

/// 503: the gateway is stopping; the connection is closed.
pub(super) fn draining() -> ApiError {
    ApiError::unavailable("draining", "the gateway is stopping").closing()
}

/// 503: the limit of requests in flight is reached.
pub(super) fn busy(limit: usize) -> ApiError {
    ApiError::unavailable("busy", format!("{limit} requests are in flight, which is the limit"))
}

/// An error as axum's response, as clients of the API read it.
pub(super) fn response(error: &ApiError, api: Api) -> Response {
    error.response_for(api).map(Body::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_has_retry_after_and_draining_closes_the_connection() {
        let busy = response(&busy(3), Api::Chat);
        assert_eq!((busy.status().as_u16(), &busy.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        assert!(!busy.headers().contains_key("connection"));
        assert_eq!(response(&draining(), Api::Chat).headers()["connection"], "close");
    }
}
