//! Configuration file: schema, defaults, validation.
//!
//! A file is applied whole or not at all. A syntax error has line and column; invalid values are listed all at once, each with
//! the path of its key and a fix.

mod check;
mod duration;
mod error;
mod events;
mod hashing;
mod pod;
mod profile;
mod server;
mod timeouts;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use routing_exec::ClientFields;
use routing_exec::handoff::Dialect;
use serde::{Deserialize, Deserializer, de};

pub use self::error::{ConfigError, Problem, Problems};
pub use self::events::{EventSourceSettings, Events, GrpcSource, NatsSource, Removals, ZmqEndpoints};
pub use self::hashing::EngineHashes;
pub use self::pod::{PodRole, PodSettings};
pub use self::profile::{Profile, ProfileFile};
pub use self::server::{InternalSettings, Limits, TlsFiles};
pub use self::timeouts::{HealthCheck, Retry, SnapshotSettings, Timeouts};

/// A gateway's configuration. Most of it can be reloaded.
///
/// # Examples
///
/// ```
/// use pointsman_gateway::Config;
///
/// let config = Config::parse("model: { name: sim }\npods: [{ name: a, url: 'http://127.0.0.1:8000' }]")?;
/// assert_eq!(config.pods[0].name, "a");
/// let wrong = Config::parse("model: { name: sim }\npods: [{ name: a, url: 'ftp://x' }, { name: a, url: 'http://y' }]");
/// assert!(wrong.expect_err("two problems").to_string().contains("pods[1].name"));
/// # Ok::<(), pointsman_gateway::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The clients' listener. Port 0 takes a free port.
    #[serde(default = "default_listen")]
    pub listen: SocketAddr,
    /// The internal listener.
    #[serde(default)]
    pub internal: InternalSettings,
    /// TLS in front of clients; plain HTTP without.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// The model that all pods serve.
    pub model: ModelSettings,
    /// How pods are chosen.
    #[serde(default)]
    pub profile: Profile,
    /// The fleet.
    #[serde(default)]
    pub pods: Vec<PodSettings>,
    /// Fleet-wide event sources.
    #[serde(default)]
    pub event_sources: EventSourceSettings,
    /// Limits towards clients.
    #[serde(default)]
    pub limits: Limits,
    /// Timeouts towards pods and clients.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Retry policy.
    #[serde(default)]
    pub retry: Retry,
    /// Active health checks.
    #[serde(default)]
    pub health_check: HealthCheck,
    /// Snapshots of the index; none if unset.
    #[serde(default)]
    pub snapshot: Option<SnapshotSettings>,
    /// What clients may say to engines beyond the usual.
    #[serde(default)]
    pub client_fields: ClientFieldSettings,
    /// A file to which every decision is appended, one JSON object a line; none if unset.
    #[serde(default)]
    pub decision_log: Option<PathBuf>,
    /// How long streams may continue after a stop signal.
    #[serde(default = "default_drain_timeout", deserialize_with = "duration::deserialize")]
    pub drain_timeout: Duration,
    /// The KV transfer dialect between prefill and decode pods.
    #[serde(default, deserialize_with = "dialect")]
    pub handoff: Dialect,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    ///
    /// A syntax error with line and column, or every invalid value.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = serde_yaml_ng::from_str(text).map_err(ConfigError::of_yaml)?;
        config.check()?;
        Ok(config)
    }

    /// Reads a configuration from a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, and as [`Self::parse`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::File { path: path.display().to_string().into(), kind: error.kind() })?;
        Self::parse(&text)
    }

    /// The defaults for some pods: the model `sim` in blocks of 16, on a free loopback port.
    #[must_use]
    pub fn default_for(pods: Vec<PodSettings>) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            internal: InternalSettings::default(),
            tls: None,
            model: ModelSettings::new("sim"),
            profile: Profile::default(),
            pods,
            event_sources: EventSourceSettings::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            health_check: HealthCheck::default(),
            snapshot: None,
            client_fields: ClientFieldSettings::default(),
            decision_log: None,
            drain_timeout: default_drain_timeout(),
            handoff: Dialect::default(),
        }
    }

    /// Validates the values.
    ///
    /// # Errors
    ///
    /// Every invalid value, at once.
    pub fn check(&self) -> Result<(), ConfigError> {
        let problems = check::problems(self);
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Values(Problems(problems))) }
    }
}

/// The model that all pods serve.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelSettings {
    /// Its name at the pods.
    pub name: String,
    /// Other names for clients; pods are sent `name`.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// LoRA adapters that clients name as a model, each with the path that the pods load it from: engines hash it.
    #[serde(default)]
    pub adapters: BTreeMap<String, Option<String>>,
    /// Tokens in a block, as the pods' engines have it.
    #[serde(default = "default_block_size")]
    pub block_size: NonZeroU32,
    /// How prompts become tokens.
    #[serde(default)]
    pub tokenizer: TokenizerSettings,
    /// How blocks are hashed; by the router's own rule if unset.
    #[serde(default)]
    pub hashing: Option<EngineHashes>,
}

impl ModelSettings {
    /// A model of words, in blocks of 16 tokens.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            aliases: Vec::new(),
            adapters: BTreeMap::new(),
            block_size: default_block_size(),
            tokenizer: TokenizerSettings::default(),
            hashing: None,
        }
    }
}

/// How prompts become tokens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "`words`, or `file` and `template` of a tokenizer")]
#[non_exhaustive]
pub enum TokenizerSettings {
    /// By a rule that simulated pods share.
    Named(NamedTokenizer),
    /// By the model's own files; needs the feature `tokenizers`.
    Files(TokenizerFiles),
}

impl Default for TokenizerSettings {
    fn default() -> Self {
        Self::Named(NamedTokenizer::Words)
    }
}

/// Rules without files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NamedTokenizer {
    /// A word is a token: [`pointsman_example_common::words::Words`].
    Words,
}

/// A model's files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenizerFiles {
    /// Its `tokenizer.json`.
    pub file: PathBuf,
    /// Its `tokenizer_config.json` or `chat_template.jinja`, each with the other beside it; those beside `file` if not given.
    /// Without a template chats have no tokens.
    #[serde(default)]
    pub template: Option<PathBuf>,
}

/// Restricted fields of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ClientFieldSettings {
    /// Restricted fields that clients may set, by name; all others are removed.
    #[serde(deserialize_with = "client_fields")]
    pub allow: ClientFields,
}

fn client_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClientFields, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names.iter().try_fold(ClientFields::default(), |fields, name| fields.allow(name)).map_err(de::Error::custom)
}

fn dialect<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Dialect, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 8080))
}

fn default_block_size() -> NonZeroU32 {
    NonZeroU32::new(16).unwrap_or(NonZeroU32::MIN)
}

fn default_drain_timeout() -> Duration {
    Duration::from_secs(30)
}

#[cfg(test)]
mod tests;
