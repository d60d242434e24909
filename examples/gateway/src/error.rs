//! Errors of startup and reload.

use std::net::SocketAddr;

use super::config::{ConfigError, Served};

/// Why a gateway does not start. The operator can act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A model cannot be served: its profile or a pod cannot be used.
    #[error("model `{name}`: {reason}")]
    Model {
        /// Which.
        name: Box<str>,
        /// Every reason.
        reason: Box<str>,
    },
    /// An address cannot be bound.
    #[error("cannot bind {address}: {kind}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        kind: std::io::ErrorKind,
    },
    /// The process may open too few files to serve anybody.
    #[error("the limit of open files is {limit}, and at least {needed} are needed; raise it (ulimit -n, LimitNOFILE)")]
    Descriptors {
        /// The hard limit.
        limit: u64,
        /// The least that the configuration takes.
        needed: u64,
    },
    /// A setting needs a feature that is not compiled in.
    #[error("`{setting}` needs the feature `{feature}`; build with `--features {feature}`")]
    Feature {
        /// The setting.
        setting: &'static str,
        /// The feature.
        feature: &'static str,
    },
    /// The certificate or its key cannot be used.
    #[error("tls: {0}")]
    Tls(Box<str>),
    /// Pods cannot be reached over TLS as it is configured.
    #[error("pod_tls: {0}")]
    PodTls(Box<str>),
    /// The model's tokenizer cannot be used.
    #[error("model.tokenizer: {0}")]
    Tokenizer(Box<str>),
    /// Blocks cannot be hashed as the engines do.
    #[error("model.hashing: {0}")]
    Hashing(Box<str>),
    /// The file with the token cannot be used.
    #[error("internal.token_file: {0}")]
    Token(Box<str>),
    /// Traces cannot be exported.
    #[error("otlp: {0}")]
    Otlp(Box<str>),
    /// The decision log or the access log cannot be written.
    #[error("{setting}: cannot write `{path}`: {kind}")]
    RecordLog {
        /// Which.
        setting: &'static str,
        /// Its path.
        path: Box<str>,
        /// Why.
        kind: std::io::ErrorKind,
    },
    /// An event source does not start.
    #[error("event_sources.{source_name}: {reason}")]
    Source {
        /// Which.
        source_name: &'static str,
        /// Why.
        reason: Box<str>,
    },
}

impl StartError {
    pub(super) fn model(served: &Served<'_>, reason: &dyn std::fmt::Display) -> Self {
        Self::Model { name: served.model.name.as_str().into(), reason: reason.to_string().into() }
    }

    /// Whether the configuration is invalid, rather than the environment.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        !matches!(self, Self::Listen { .. } | Self::Source { .. } | Self::Descriptors { .. })
    }
}

/// Why a reload changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The new configuration cannot be served.
    #[error(transparent)]
    Wrong(#[from] StartError),
    /// These settings are fixed when a gateway starts.
    #[error("changes of {} need a restart", names(.0))]
    NeedsRestart(Vec<&'static str>),
    /// The gateway is stopping.
    #[error("the gateway is stopping")]
    Draining,
}

impl From<ConfigError> for ReloadError {
    fn from(error: ConfigError) -> Self {
        Self::Wrong(error.into())
    }
}

fn names(settings: &[&str]) -> String {
    settings.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
