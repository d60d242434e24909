//! Timeouts, health checks and snapshots.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use routing_plugins::duration;

/// Timeouts towards pods and clients.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Timeouts {
    /// Of a connection to a pod. Changes need a restart.
    #[serde(deserialize_with = "duration::deserialize")]
    pub connect_timeout: Duration,
    /// To the first byte of a pod's stream.
    #[serde(deserialize_with = "duration::deserialize")]
    pub first_byte_timeout: Duration,
    /// To the first byte of a prefill pod.
    #[serde(deserialize_with = "duration::deserialize")]
    pub prefill_first_byte_timeout: Duration,
    /// To a response that is not streamed, by one pod.
    #[serde(deserialize_with = "duration::deserialize")]
    pub per_try_timeout: Duration,
    /// Between two chunks of a pod's stream.
    #[serde(deserialize_with = "duration::deserialize")]
    pub stream_idle_timeout: Duration,
    /// Of a request in all: every try, pause and new plan, and the stream to its end.
    #[serde(deserialize_with = "duration::deserialize")]
    pub request_timeout: Duration,
    /// Between two reads or writes of a client.
    #[serde(deserialize_with = "duration::deserialize")]
    pub client_idle_timeout: Duration,
    /// Of the headers of a request, also of the next one on a connection that is kept alive. Connections that are open keep theirs.
    #[serde(deserialize_with = "duration::deserialize")]
    pub headers_timeout: Duration,
    /// Of the whole body of a request, however steadily it comes.
    #[serde(deserialize_with = "duration::deserialize")]
    pub body_timeout: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            first_byte_timeout: Duration::from_secs(60),
            prefill_first_byte_timeout: Duration::from_secs(60),
            per_try_timeout: Duration::from_secs(600),
            stream_idle_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(1800),
            client_idle_timeout: Duration::from_secs(30),
            headers_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(120),
        }
    }
}

/// Active health checks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct HealthCheck {
    /// Between two checks of a pod.
    #[serde(deserialize_with = "duration::deserialize")]
    pub interval: Duration,
    /// Of one check.
    #[serde(deserialize_with = "duration::deserialize")]
    pub timeout: Duration,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), timeout: Duration::from_secs(2) }
    }
}

/// Snapshots of the index.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SnapshotSettings {
    /// The file. It is replaced atomically.
    pub path: PathBuf,
    /// Between two snapshots; one more is written at the end of a drain.
    #[serde(default = "default_interval", deserialize_with = "duration::deserialize")]
    pub interval: Duration,
}

impl SnapshotSettings {
    /// A snapshot every 30 s.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), interval: default_interval() }
    }
}

fn default_interval() -> Duration {
    Duration::from_secs(30)
}
