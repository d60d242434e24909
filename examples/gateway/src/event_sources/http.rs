//! HTTP event source: `/internal/events` takes batches, `/internal/sync` digests and inventories, with a bearer token.
//!
//! The rule: a request that is not answered 200 has changed nothing. The token is checked first, then content type and length,
//! and only then is the body read, up to the limit.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
pub use pointsman_example_common::bearer_token::Token;
use serde::de::DeserializeOwned;

use pointsman_reporter::event_ingest::{EventIngest, IngestError};
use pointsman_reporter::wire::bounds::Bounded;
use pointsman_reporter::wire::{Ack, DecodeError, EventBatch, Malformed, Message, decode};

/// Limits of a request body.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BodyLimits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Timeout of a body.
    pub body_timeout: Duration,
}

impl Default for BodyLimits {
    /// 2 MiB in ten seconds; the largest message there is has one.
    fn default() -> Self {
        Self { body_bytes: 2 << 20, body_timeout: Duration::from_secs(10) }
    }
}

impl BodyLimits {
    /// Bounds the bytes of a body.
    #[must_use]
    pub const fn body_bytes(self, bytes: usize) -> Self {
        Self { body_bytes: bytes, ..self }
    }
}

/// The internal endpoints of a gateway.
pub fn routes(ingest: Arc<EventIngest>, limits: BodyLimits, token: Token) -> Router {
    Router::new().route("/internal/events", post(events)).route("/internal/sync", post(sync)).with_state(Endpoint {
        ingest,
        limits,
        token,
    })
}

#[derive(Clone)]
struct Endpoint {
    ingest: Arc<EventIngest>,
    limits: BodyLimits,
    token: Token,
}

async fn events(State(endpoint): State<Endpoint>, request: Request<Body>) -> Result<Json<Ack>, Rejection> {
    let batch: EventBatch = endpoint.read(request).await?;
    Ok(Json(endpoint.ingest.batch(&batch)?))
}

async fn sync(State(endpoint): State<Endpoint>, request: Request<Body>) -> Result<Json<Ack>, Rejection> {
    match endpoint.read(request).await? {
        Message::Batch(_) => Err(Rejection::WrongPath),
        message => Ok(Json(endpoint.ingest.message_async(message).await?)),
    }
}

impl Endpoint {
    async fn read<T: DeserializeOwned + Bounded>(&self, request: Request<Body>) -> Result<T, Rejection> {
        let headers = request.headers();
        if !self.token.is_borne_by(headers) {
            return Err(Rejection::Token);
        }
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if !kind.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json") {
            return Err(Rejection::ContentType);
        }
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|bytes| bytes > self.limits.body_bytes as u64) {
            return Err(Rejection::TooLarge(self.limits.body_bytes));
        }
        let body = tokio::time::timeout(self.limits.body_timeout, self.collect(request.into_body()));
        let body = body.await.map_err(|_| Rejection::Timeout)??;
        Ok(decode(&body)?)
    }

    async fn collect(&self, body: Body) -> Result<Bytes, Rejection> {
        match Limited::new(body, self.limits.body_bytes).collect().await {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(Rejection::TooLarge(self.limits.body_bytes)),
            Err(_) => Err(Rejection::Truncated),
        }
    }
}

/// Why a request is not answered 200.
#[derive(Debug, thiserror::Error)]
enum Rejection {
    #[error("the token is missing or wrong: send `authorization: Bearer <token>`")]
    Token,
    #[error("the content type must be `application/json`")]
    ContentType,
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    #[error("the body did not arrive in time")]
    Timeout,
    #[error("the body ended early")]
    Truncated,
    #[error("event batches go to /internal/events")]
    WrongPath,
    #[error("{0}")]
    Decode(#[from] DecodeError),
    #[error("{0}")]
    Ingest(#[from] IngestError),
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Token => StatusCode::UNAUTHORIZED,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Truncated | Self::WrongPath => StatusCode::BAD_REQUEST,
            Self::Decode(DecodeError::Malformed(Malformed::Changes { .. } | Malformed::Blocks { .. })) => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Self::Decode(_) => StatusCode::BAD_REQUEST,
            Self::Ingest(error) => error.status(),
        };
        (status, Json(serde_json::json!({ "error": self.to_string() }))).into_response()
    }
}
