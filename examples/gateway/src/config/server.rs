//! What an operator says of the gateway itself: listeners, limits, patience, sources, snapshots.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

/// The endpoints that are not for clients.
///
/// `/internal/*` takes reports and needs a token; without one it is off. `/metrics`, `/state` and the page only show figures,
/// no prompts, and need none; they go where the internal endpoints are.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct InternalSettings {
    /// An address of their own; the clients' one without.
    pub listen: Option<SocketAddr>,
    /// What a reporter must bring along, as `Authorization: Bearer …`.
    pub token: Option<String>,
    /// The same, read from a file: its first line.
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

/// A certificate chain and its key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "TLS takes these two")]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What a client may ask of the gateway at most.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a request's body; more is a 413.
    pub body_bytes: usize,
    /// Bytes of a request's head; more is a 431. Changes need a restart.
    pub header_bytes: usize,
    /// Requests under way; more are told to come back, by a 503.
    pub in_flight: usize,
    /// Connections of a listener; more wait to be taken. Changes need a restart.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body_bytes: 16 << 20, header_bytes: 32 << 10, in_flight: 4096, connections: 16_384 }
    }
}

/// How long pods and clients are waited for, and how many pods are tried.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Patience {
    /// Pods that are tried for a step.
    pub attempts: u32,
    /// How long a pod may take to its first byte.
    pub first_byte_seconds: f64,
    /// How long a stream may pause.
    pub idle_seconds: f64,
    /// How long a whole answer may take.
    pub whole_seconds: f64,
    /// How long connecting to a pod may take.
    pub connect_seconds: f64,
    /// How long a client may pause, in sending its request or in taking its answer. All of a request may take four times as
    /// long.
    pub client_seconds: f64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 3,
            first_byte_seconds: 60.0,
            idle_seconds: 30.0,
            whole_seconds: 600.0,
            connect_seconds: 2.0,
            client_seconds: 30.0,
        }
    }
}

/// How often pods are asked how they are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct HealthSettings {
    /// From one question to the next.
    pub every_seconds: f64,
    /// How long an answer may take.
    pub timeout_seconds: f64,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self { every_seconds: 1.0, timeout_seconds: 2.0 }
    }
}

/// Event sources that serve the whole fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Sources {
    /// Reports over NATS JetStream; needs the feature `nats`.
    pub nats: Option<NatsSource>,
    /// Reports over a gRPC stream; needs the feature `grpc` and the internal token.
    pub grpc: Option<GrpcSource>,
}

/// A JetStream stream of reports.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NatsSource {
    /// The server: `nats://host:port`.
    pub url: String,
    /// The stream.
    #[serde(default = "default_stream")]
    pub stream: String,
    /// The subjects' common beginning.
    #[serde(default = "default_subject")]
    pub subject: String,
}

/// A gRPC listener for reports.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GrpcSource {
    /// Where.
    pub listen: SocketAddr,
}

/// Where the index is kept over a restart.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SnapshotSettings {
    /// The file. It is replaced whole.
    pub path: PathBuf,
    /// From one snapshot to the next; there is always one at the end of a drain.
    #[serde(default = "default_every")]
    pub every_seconds: f64,
}

impl SnapshotSettings {
    /// A snapshot every 30 s.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), every_seconds: default_every() }
    }
}

/// How a prefill pod hands over to a decode pod: `routing_exec::handoff`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HandoffKind {
    /// vLLM's NIXL connector.
    #[default]
    Nixl,
    /// SGLang's bootstrap server.
    Sglang,
    /// vLLM with Mooncake. Which engine runs where is not asked for here, so its pods are not handed over to.
    Mooncake,
    /// Both pods share a store.
    SharedStorage,
    /// Nothing is handed over.
    Plain,
}

/// Seconds as an operator writes them; checked to be a sensible time before.
pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

fn default_stream() -> String {
    "pointsman".to_owned()
}

fn default_subject() -> String {
    "pointsman.events".to_owned()
}

fn default_every() -> f64 {
    30.0
}
