//! What an operator writes: where to listen, which model, which profile, which pods.
//!
//! A file is taken whole or not at all. What YAML gets wrong is named with line and column; what is wrong in itself is
//! listed all at once, each problem with the path of its field.

mod check;
mod error;
mod pod;
mod profile;
mod server;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use self::error::{ConfigError, Problem, Problems};
pub use self::pod::{Events, PodRole, PodSettings, ZmqEndpoints};
pub use self::profile::{Profile, ProfileFile, STOCK_PROFILES};
pub(super) use self::server::seconds as server_seconds;
pub use self::server::{
    GrpcSource, HandoffKind, HealthSettings, InternalSettings, Limits, NatsSource, Patience, SnapshotSettings, Sources,
    TlsFiles,
};

/// Everything a gateway is told when it starts, and most of it again at a reload.
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
/// # Ok::<(), crate::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// Where clients are served. Port 0 takes a free one.
    #[serde(default = "default_listen")]
    pub listen: SocketAddr,
    /// The endpoints that are not for clients.
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
    /// Event sources that serve the whole fleet.
    #[serde(default)]
    pub sources: Sources,
    /// What a client may ask of the gateway at most.
    #[serde(default)]
    pub limits: Limits,
    /// How long pods and clients are waited for, and how many pods are tried.
    #[serde(default)]
    pub patience: Patience,
    /// How often pods are asked how they are.
    #[serde(default)]
    pub health: HealthSettings,
    /// Where the index is kept over a restart.
    #[serde(default)]
    pub snapshot: Option<SnapshotSettings>,
    /// How long streams may go on after the gateway was told to stop.
    #[serde(default = "default_drain")]
    pub drain_seconds: f64,
    /// How a prefill pod hands over to a decode pod.
    #[serde(default)]
    pub handoff: HandoffKind,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    ///
    /// What the text gets wrong, with line and column; or every problem that the values have.
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

    /// The built-in default for some pods: the model `sim` in blocks of 16, cache aware, on a free loopback port.
    #[must_use]
    pub fn default_for(pods: Vec<PodSettings>) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            internal: InternalSettings::default(),
            tls: None,
            model: ModelSettings::new("sim"),
            profile: Profile::default(),
            pods,
            sources: Sources::default(),
            limits: Limits::default(),
            patience: Patience::default(),
            health: HealthSettings::default(),
            snapshot: None,
            drain_seconds: default_drain(),
            handoff: HandoffKind::default(),
        }
    }

    /// Looks for everything that is wrong with the values.
    ///
    /// # Errors
    ///
    /// Every problem there is, at once.
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
    /// The name pods know it by.
    pub name: String,
    /// Other names that clients may use; pods are sent the first one.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Tokens in a block, as the pods' engines have it.
    #[serde(default = "default_block_size")]
    pub block_size: NonZeroU32,
    /// How prompts become tokens.
    #[serde(default)]
    pub tokenizer: TokenizerSettings,
}

impl ModelSettings {
    /// A model of words, in blocks of 16 tokens.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let (aliases, block_size) = (Vec::new(), default_block_size());
        Self { name: name.to_owned(), aliases, block_size, tokenizer: TokenizerSettings::default() }
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
    /// Its `tokenizer_config.json`, or a `chat_template.jinja`; without one chats have no tokens.
    #[serde(default)]
    pub template: Option<PathBuf>,
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 8080))
}

fn default_block_size() -> NonZeroU32 {
    NonZeroU32::new(16).unwrap_or(NonZeroU32::MIN)
}

fn default_drain() -> f64 {
    30.0
}

#[cfg(test)]
mod tests;
