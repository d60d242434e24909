//! Reports by HTTP POST to a gateway's internal endpoints.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::outlet::{Outlet, OutletError};
use crate::wire::{Answer, Message};

/// Sends to `/internal/events` and `/internal/sync` of one gateway.
pub struct HttpOutlet {
    client: Client<HttpConnector, Full<Bytes>>,
    events: Uri,
    sync: Uri,
    authorization: header::HeaderValue,
    timeout: Duration,
}

impl HttpOutlet {
    /// An outlet to `base` (`http://host:port`) with the gateway's token.
    ///
    /// # Errors
    ///
    /// When `base` is not the start of a URL, or the token is not one of a header.
    pub fn new(base: &str, token: &str) -> Result<Self, http::Error> {
        let base = base.trim_end_matches('/');
        let mut authorization = header::HeaderValue::try_from(format!("Bearer {token}"))?;
        authorization.set_sensitive(true);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).pool_idle_timeout(Duration::from_secs(30)).build_http(),
            events: Uri::try_from(format!("{base}/internal/events"))?,
            sync: Uri::try_from(format!("{base}/internal/sync"))?,
            authorization,
            timeout: Duration::from_secs(10),
        })
    }

    async fn post(&self, message: &Message) -> Result<Answer, OutletError> {
        let (uri, body) = match message {
            Message::Report(report) => (&self.events, serde_json::to_vec(report)),
            _ => (&self.sync, serde_json::to_vec(message)),
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(body.map_err(lost)?))
            .map_err(lost)?;
        let response = self.client.request(request).await.map_err(lost)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_ANSWER).collect().await.map_err(lost)?.to_bytes();
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(lost);
        }
        let reason = String::from_utf8_lossy(&body).into_owned();
        let passing =
            matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS | StatusCode::CONFLICT);
        if status.is_client_error() && !passing {
            return Err(OutletError::Refused { status: status.as_u16(), reason });
        }
        Err(OutletError::Lost(format!("status {status}: {reason}")))
    }
}

impl Outlet for HttpOutlet {
    async fn send(&mut self, message: &Message) -> Result<Answer, OutletError> {
        tokio::time::timeout(self.timeout, self.post(message)).await.unwrap_or_else(|late| Err(lost(late)))
    }
}

impl std::fmt::Debug for HttpOutlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpOutlet").field("events", &self.events).finish_non_exhaustive()
    }
}

fn lost(error: impl std::fmt::Display) -> OutletError {
    OutletError::Lost(error.to_string())
}

/// Bytes of an answer that are read.
const MOST_ANSWER: usize = 1 << 16;
