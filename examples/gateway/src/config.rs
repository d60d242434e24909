//! Configuration file: schema, defaults, validation.
//!
//! A file is applied whole or not at all. A syntax error has line and column; invalid values are listed all at once, each with
//! the path of its key and a fix.

mod breakers;
mod check;
mod clients;
mod error;
mod events;
mod hashing;
mod model;
mod observe;
mod peers;
mod pod;
mod pod_access;
mod profile;
mod server;
mod timeouts;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use routing_exec::ClientFields;
use routing_exec::handoff::Dialect;
use routing_plugins::duration;
use routing_plugins::flow::FlowDocument;
use serde::{Deserialize, Deserializer, de};

pub use self::breakers::{Breakers, Retry, RetryConditions};
pub use self::clients::{ClientKey, ClientSettings};
pub use self::error::{ConfigError, Problem, Problems};
pub use self::events::{EventSourceSettings, Events, GrpcSource, NatsSource, Removals, ZmqEndpoints};
pub use self::hashing::EngineHashes;
pub(crate) use self::model::Served;
pub use self::model::{ModelSettings, NamedTokenizer, ServedModel, TokenizerFiles, TokenizerSettings};
pub use self::observe::{AccessLog, LogFormat, LogSettings, OtlpSettings};
pub use self::peers::PeerSettings;
pub use self::pod::{PodRole, PodSettings};
pub(crate) use self::pod_access::key as pod_key;
pub use self::pod_access::{PodAuth, PodTls, Secret};
pub use self::profile::{Profile, ProfileFile};
pub use self::server::{InternalSettings, Limits, TlsFiles};
pub use self::timeouts::{HealthCheck, SnapshotSettings, Timeouts};

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
    /// The model that all pods serve, where it is one.
    #[serde(default)]
    pub model: ModelSettings,
    /// How pods are chosen.
    #[serde(default)]
    pub profile: Profile,
    /// The fleet, where it serves one model.
    #[serde(default)]
    pub pods: Vec<PodSettings>,
    /// What all pods ask for.
    #[serde(default)]
    pub pod_auth: PodAuth,
    /// TLS towards pods at `https://`; the system's certificates are trusted without.
    #[serde(default)]
    pub pod_tls: Option<PodTls>,
    /// Several models, each with pods of its own; then `model` and `pods` are not given.
    #[serde(default)]
    pub models: Vec<ServedModel>,
    /// Fleet-wide event sources.
    #[serde(default)]
    pub event_sources: EventSourceSettings,
    /// Other gateways of the same pods, which are told what this one sent; none if unset. Needs `event_sources.nats`.
    #[serde(default)]
    pub peers: Option<PeerSettings>,
    /// Limits towards clients.
    #[serde(default)]
    pub limits: Limits,
    /// Timeouts towards pods and clients.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Retry policy.
    #[serde(default)]
    pub retry: Retry,
    /// Circuit breakers.
    #[serde(default)]
    pub breakers: Breakers,
    /// Active health checks.
    #[serde(default)]
    pub health_check: HealthCheck,
    /// Snapshots of the index; none if unset.
    #[serde(default)]
    pub snapshot: Option<SnapshotSettings>,
    /// What clients may say to engines beyond the usual.
    #[serde(default)]
    pub client_fields: ClientFieldSettings,
    /// Who requests are of, for flow control.
    #[serde(default)]
    pub clients: ClientSettings,
    /// Flow control: requests wait in fair order while no pod has room; none if unset.
    #[serde(default)]
    pub flow_control: Option<FlowDocument>,
    /// A file to which every decision is appended, one JSON object a line; none if unset.
    #[serde(default)]
    pub decision_log: Option<PathBuf>,
    /// The log.
    #[serde(default)]
    pub log: LogSettings,
    /// A line for every request; none if unset.
    #[serde(default)]
    pub access_log: AccessLog,
    /// Export of traces; none if unset.
    #[serde(default)]
    pub otlp: Option<OtlpSettings>,
    /// How long requests are still served after a stop signal, while readiness is gone already: until balancers have noticed.
    #[serde(default = "default_drain_grace", deserialize_with = "duration::deserialize")]
    pub drain_grace: Duration,
    /// How long streams may continue after that.
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
        routing_core::check_nesting(text).map_err(|error| ConfigError::too_deep(text, &error))?;
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
            pod_auth: PodAuth::default(),
            pod_tls: None,
            models: Vec::new(),
            event_sources: EventSourceSettings::default(),
            peers: None,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            breakers: Breakers::default(),
            health_check: HealthCheck::default(),
            snapshot: None,
            client_fields: ClientFieldSettings::default(),
            clients: ClientSettings::default(),
            flow_control: None,
            decision_log: None,
            log: LogSettings::default(),
            access_log: AccessLog::default(),
            otlp: None,
            drain_grace: default_drain_grace(),
            drain_timeout: default_drain_timeout(),
            handoff: Dialect::default(),
        }
    }

    /// The models, however they are given.
    pub(crate) fn served(&self) -> Vec<Served<'_>> {
        if self.models.is_empty() {
            let Self { model, profile, pods, handoff, .. } = self;
            return vec![Served { place: String::new(), model, profile, pods, handoff: *handoff }];
        }
        let several = self.models.iter().enumerate().map(|(at, served)| Served {
            place: format!("models[{at}]."),
            model: &served.model,
            profile: served.profile.as_ref().unwrap_or(&self.profile),
            pods: &served.pods,
            handoff: served.handoff.unwrap_or(self.handoff),
        });
        several.collect()
    }

    /// Flow control, if there is some. No more wait than half of `limits.max_requests`, unless it says so: those that wait are of these.
    pub(crate) fn flow_document(&self) -> Option<FlowDocument> {
        let mut document = self.flow_control.clone()?;
        document.limits.requests.get_or_insert((self.limits.max_requests / 2).max(1));
        Some(document)
    }

    /// The certificate of the internal listener, if there is one and it has TLS: its own, or the clients' unless it is said to
    /// be plain.
    pub(crate) fn internal_tls(&self) -> Option<&TlsFiles> {
        let InternalSettings { listen, tls, plain, .. } = &self.internal;
        listen.as_ref()?;
        tls.as_ref().or_else(|| self.tls.as_ref().filter(|_| !plain))
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

fn default_drain_grace() -> Duration {
    Duration::from_secs(5)
}

fn default_drain_timeout() -> Duration {
    Duration::from_secs(30)
}

#[cfg(test)]
mod tests;
