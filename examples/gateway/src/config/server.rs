//! Settings of the server itself: internal listener, TLS, limits, handoff.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

/// The internal listener: event ingestion, metrics, admin page.
///
/// `/internal/*` takes events and needs a token; without one it is off. `/metrics`, `/state` and the page show no prompts and
/// need none; they are served where the internal endpoints are.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct InternalSettings {
    /// Its address; the clients' listener serves the endpoints if unset.
    pub listen: Option<SocketAddr>,
    /// The bearer token of reporters.
    pub token: Option<String>,
    /// A file whose first line is the token.
    pub token_file: Option<PathBuf>,
}

/// A configuration may be logged; its token may not.
impl fmt::Debug for InternalSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, token, token_file } = self;
        let token = token.as_ref().map(|_| "..");
        f.debug_struct("InternalSettings")
            .field("listen", listen)
            .field("token", &token)
            .field("token_file", token_file)
            .finish()
    }
}

/// Certificate chain and private key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "TLS takes these two")]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Limits towards clients.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a request body; more is a 413.
    pub max_request_bytes: usize,
    /// Bytes of the request headers; more is a 431. Changes need a restart.
    pub max_request_headers_bytes: usize,
    /// Requests in flight; more are a 503 with `Retry-After`.
    pub max_requests: usize,
    /// Connections of a listener; more wait to be accepted. Changes need a restart.
    pub max_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_request_bytes: 16 << 20,
            max_request_headers_bytes: 32 << 10,
            max_requests: 4096,
            max_connections: 16_384,
        }
    }
}
