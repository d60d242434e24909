//! Errors of startup and reload.

use std::net::SocketAddr;

use super::config::ConfigError;

/// Why a gateway does not start. The operator can act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// An address cannot be bound.
    #[error("cannot bind {address}: {kind}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        kind: std::io::ErrorKind,
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
    /// The model's tokenizer cannot be used.
    #[error("model.tokenizer: {0}")]
    Tokenizer(Box<str>),
    /// Blocks cannot be hashed as the engines do.
    #[error("model.hashing: {0}")]
    Hashing(Box<str>),
    /// The file with the token cannot be used.
    #[error("internal.token_file: {0}")]
    Token(Box<str>),
    /// There are more pods than the index takes.
    #[error("pod `{name}` does not fit the index: {reason}")]
    Pod {
        /// Which.
        name: Box<str>,
        /// Why.
        reason: Box<str>,
    },
    /// The decision log cannot be written.
    #[error("decision_log: cannot write `{path}`: {kind}")]
    DecisionLog {
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
    /// Whether the configuration is invalid, rather than the environment.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        !matches!(self, Self::Listen { .. } | Self::Source { .. })
    }
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// There is no stock profile of the name.
    #[error("there is no stock profile `{0}`")]
    Unknown(Box<str>),
    /// Its file cannot be read.
    #[error("cannot read the profile `{path}`: {kind}")]
    File {
        /// Which.
        path: Box<str>,
        /// Why.
        kind: std::io::ErrorKind,
    },
    /// The document is wrong: every problem it has.
    #[error("profile: {0}")]
    Document(Box<str>),
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
