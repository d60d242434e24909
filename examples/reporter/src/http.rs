//! HTTP sink: messages by POST to a gateway's internal endpoints.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::message_sink::{MessageSink, SinkError};
use crate::wire::{Ack, Message};

/// Posts to `/internal/events` and `/internal/sync` of one gateway.
pub struct HttpSink {
    client: HttpClient,
    events: Uri,
    sync: Uri,
    authorization: header::HeaderValue,
    timeout: Duration,
}

/// The client, with TLS or without.
enum HttpClient {
    Plain(Client<HttpConnector, Full<Bytes>>),
    #[cfg(feature = "tls")]
    Tls(Client<crate::tls::TlsConnector, Full<Bytes>>),
}

impl HttpSink {
    /// A sink to `base` (`http://host:port`) with the gateway's token, which is sent in clear.
    ///
    /// # Errors
    ///
    /// When `base` is not the start of a URL, or the token is not one of a header.
    pub fn new(base: &str, token: &str) -> Result<Self, http::Error> {
        let client = Client::builder(TokioExecutor::new()).pool_idle_timeout(POOL_IDLE_TIMEOUT).build_http();
        Self::with_client(HttpClient::Plain(client), base, token)
    }

    /// A sink to `base` (`https://host:port`) with the gateway's token, over TLS and no other way.
    ///
    /// # Errors
    ///
    /// When `base` is not the start of such a URL, or the token is not one of a header.
    #[cfg(feature = "tls")]
    pub fn with_tls(base: &str, token: &str, tls: &crate::tls::Tls) -> Result<Self, crate::tls::TlsError> {
        use crate::tls::TlsError;

        if !base.starts_with("https://") {
            return Err(TlsError::Url(format!("`{base}` does not begin with https://").into()));
        }
        let builder = Client::builder(TokioExecutor::new()).pool_idle_timeout(POOL_IDLE_TIMEOUT).clone();
        let client = HttpClient::Tls(builder.build(tls.connector()));
        Self::with_client(client, base, token).map_err(|error| TlsError::Url(error.to_string().into()))
    }

    fn with_client(client: HttpClient, base: &str, token: &str) -> Result<Self, http::Error> {
        let base = base.trim_end_matches('/');
        let mut authorization = header::HeaderValue::try_from(format!("Bearer {token}"))?;
        authorization.set_sensitive(true);
        Ok(Self {
            client,
            events: Uri::try_from(format!("{base}/internal/events"))?,
            sync: Uri::try_from(format!("{base}/internal/sync"))?,
            authorization,
            timeout: Duration::from_secs(10),
        })
    }

    async fn post(&self, message: &Message) -> Result<Ack, SinkError> {
        let (uri, body) = match message {
            Message::Batch(batch) => (&self.events, serde_json::to_vec(batch)),
            _ => (&self.sync, serde_json::to_vec(message)),
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(body.map_err(SinkError::unacknowledged)?))
            .map_err(SinkError::unacknowledged)?;
        let answering = match &self.client {
            HttpClient::Plain(client) => client.request(request),
            #[cfg(feature = "tls")]
            HttpClient::Tls(client) => client.request(request),
        };
        let response = answering.await.map_err(SinkError::unacknowledged)?;
        let status = response.status();
        let body =
            Limited::new(response.into_body(), MAX_ACK).collect().await.map_err(SinkError::unacknowledged)?.to_bytes();
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(SinkError::unacknowledged);
        }
        let reason = String::from_utf8_lossy(&body).into_owned();
        let is_transient =
            matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS | StatusCode::CONFLICT);
        if status.is_client_error() && !is_transient {
            return Err(SinkError::Rejected { status: status.as_u16(), reason });
        }
        Err(SinkError::Unacknowledged(format!("status {status}: {reason}")))
    }
}

impl MessageSink for HttpSink {
    async fn send(&mut self, message: &Message) -> Result<Ack, SinkError> {
        tokio::time::timeout(self.timeout, self.post(message))
            .await
            .unwrap_or_else(|late| Err(SinkError::unacknowledged(late)))
    }
}

impl std::fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpSink").field("events", &self.events).finish_non_exhaustive()
    }
}

/// Gateways close idle connections after a minute.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of an acknowledgement that are read.
const MAX_ACK: usize = 1 << 16;
