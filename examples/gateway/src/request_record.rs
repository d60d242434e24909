//! Request record: what is told of a request that ended, by the access log and the decision log alike.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http::Uri;
use pointsman::{Audited, Cause};
use serde::Serialize;
use tracing::info;

/// One line of either log.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RequestRecord {
    /// When the request ended, in milliseconds since 1970.
    pub(super) unix_ms: u64,
    pub(super) id: String,
    /// The client's address.
    pub(super) client: Option<SocketAddr>,
    pub(super) path: String,
    /// None if it was rejected before that was known.
    pub(super) model: Option<String>,
    pub(super) profile: Option<String>,
    /// The status that the client got, or would have; 499 if it left before the end.
    pub(super) status: u16,
    /// The pods it was sent to, in order.
    pub(super) pods: Vec<String>,
    pub(super) attempts: usize,
    pub(super) prompt_tokens: u64,
    /// Prompt tokens that the pod was expected to have cached; none if its engine reported nothing.
    pub(super) expected_tokens: Option<u64>,
    /// Those that its engine says were cached.
    pub(super) cached_tokens: Option<u64>,
    /// Why the two differ. Known later, so that the access log does not have it.
    pub(super) cause: Option<Cause>,
    pub(super) outcome: String,
    pub(super) ttft_ms: Option<f64>,
    pub(super) total_ms: f64,
    /// Bytes of the response's body.
    pub(super) bytes: u64,
    #[serde(skip)]
    pub(super) audited: Option<Audited>,
}

impl RequestRecord {
    /// A request that was rejected before it was routed.
    pub(super) fn rejected(arrival: &Arrival, status: u16, code: &str) -> Self {
        Self {
            unix_ms: unix_ms(),
            id: arrival.id.to_string(),
            client: arrival.client,
            path: arrival.uri.path().to_owned(),
            model: None,
            profile: None,
            status,
            pods: Vec::new(),
            attempts: 0,
            prompt_tokens: 0,
            expected_tokens: None,
            cached_tokens: None,
            cause: None,
            outcome: format!("rejected: {code}"),
            ttft_ms: None,
            total_ms: arrival.at.elapsed().as_secs_f64() * 1e3,
            bytes: 0,
            audited: None,
        }
    }

    /// Whether its cause is known, if it needs one.
    pub(super) fn is_done(&self) -> bool {
        self.audited.as_ref().is_none_or(|audited| !audited.differs() || audited.cause.get().is_some())
    }

    /// Writes it into the log.
    pub(super) fn log(&self) {
        let Self { id, path, status, attempts, prompt_tokens, outcome, total_ms, bytes, .. } = self;
        let (client, pods) = (self.client.map(|client| client.to_string()), self.pods.join(","));
        info!(
            target: "access",
            %id, client, path, model = self.model, status, pods, attempts, prompt_tokens, expected_tokens = self.expected_tokens,
            cached_tokens = self.cached_tokens, outcome, ttft_ms = self.ttft_ms, total_ms, bytes,
            "request"
        );
    }
}

/// Where a request came from, and when: an extension of it, for those who tell of it at its end.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) id: Arc<str>,
    pub(super) client: Option<SocketAddr>,
    pub(super) uri: Uri,
    pub(super) at: Instant,
}

impl Arrival {
    /// The arrival of a request, whose connection said where it is from.
    pub(super) fn of<B>(request: &http::Request<B>, id: &str) -> Self {
        let client = request.extensions().get::<ClientAddress>().map(|client| client.0);
        Self { id: id.into(), client, uri: request.uri().clone(), at: Instant::now() }
    }
}

/// The address of a connection's other end: an extension of its requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientAddress(pub(super) SocketAddr);

/// Now, in milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
