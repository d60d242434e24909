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
    /// Its own certificate; that of `tls` if unset.
    pub tls: Option<TlsFiles>,
    /// Whether it has no TLS though the clients' listener has: then reporters send the token in clear.
    pub plain: bool,
}

/// A configuration may be logged; its token may not.
impl fmt::Debug for InternalSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, token, token_file, tls, plain } = self;
        let token = token.as_ref().map(|_| "..");
        f.debug_struct("InternalSettings")
            .field("listen", listen)
            .field("token", &token)
            .field("token_file", token_file)
            .field("tls", tls)
            .field("plain", plain)
            .finish()
    }
}

/// Certificate chain and private key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Certificates of authorities, one of which must have signed a client's; clients need none if unset.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// A certificate chain and its key, for clients without certificates.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into(), client_ca: None }
    }

    /// The same for clients whose certificates one of these authorities signed.
    #[must_use]
    pub fn client_ca(self, authorities: impl Into<PathBuf>) -> Self {
        Self { client_ca: Some(authorities.into()), ..self }
    }
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
    /// Requests in flight, whose bodies are in; more are a 503 with `Retry-After`.
    pub max_requests: usize,
    /// Bodies that are being read; more are a 503 with `Retry-After`.
    pub max_uploads: usize,
    /// Bytes of all of them together; whoever sends more then gets a 503 with `Retry-After`.
    pub max_upload_bytes: usize,
    /// Connections of a listener; more wait to be accepted. Changes need a restart.
    pub max_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_request_bytes: 16 << 20,
            max_request_headers_bytes: 32 << 10,
            max_requests: 4096,
            max_uploads: 4096,
            max_upload_bytes: 1 << 30,
            max_connections: 16_384,
        }
    }
}
