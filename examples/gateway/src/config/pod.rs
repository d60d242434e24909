//! Pod settings: name, address, role, labels, event source, key.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pointsman::PodSpec;
use routing_core::Role;
use serde::Deserialize;

use super::{Config, Events, Secret, pod_key};

/// A pod of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PodSettings {
    /// Its name, unique in the fleet.
    pub name: String,
    /// Its address: `http://host:port`, or `https://host:port` with the feature `tls`.
    pub url: String,
    /// Its role.
    #[serde(default)]
    pub role: PodRole,
    /// Labels such as zone, host, rack.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Tokens that its cache has room for; what its engine says, if unset.
    #[serde(default)]
    pub kv_tokens: Option<u64>,
    /// Its event source.
    #[serde(default, with = "serde_yaml_ng::with::singleton_map")]
    pub events: Events,
    /// The bearer key that it asks for; that of all pods if unset.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// A file whose first line is the key.
    #[serde(default)]
    pub api_key_file: Option<PathBuf>,
}

impl PodSettings {
    /// A pod that does everything and reports no events.
    #[must_use]
    pub fn new(name: &str, url: &str) -> Self {
        let (name, url, role) = (name.to_owned(), url.to_owned(), PodRole::Both);
        let (labels, events) = (BTreeMap::new(), Events::None);
        Self { name, url, role, labels, kv_tokens: None, events, api_key: None, api_key_file: None }
    }

    /// The same in a role.
    #[must_use]
    pub fn role(self, role: PodRole) -> Self {
        Self { role, ..self }
    }

    /// The same with a source of events.
    #[must_use]
    pub fn events(self, events: Events) -> Self {
        Self { events, ..self }
    }

    /// The pod as the router takes it. With another event source it is another cache: what one source stored, another never
    /// removes. Its key is read now, so that a reload takes a new one.
    pub(crate) fn spec(&self, config: &Config) -> Result<PodSpec, String> {
        let key = pod_key(config, (&self.api_key, &self.api_key_file));
        let key = key.map_err(|error| format!("pod `{}`: {error}", self.name))?;
        let spec =
            PodSpec::new(&self.name, &self.url).role(self.role.role()).event_source(format!("{:?}", self.events));
        let spec = self.kv_tokens.into_iter().fold(spec, PodSpec::kv_tokens);
        let spec = self.labels.iter().fold(spec, |spec, (key, value)| spec.label(key, value));
        Ok(key.into_iter().fold(spec, PodSpec::api_key))
    }
}

/// Role of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the roles of a disaggregated fleet")]
pub enum PodRole {
    /// Computes prompts for others to continue.
    Prefill,
    /// Continues what others computed.
    Decode,
    /// Both.
    #[default]
    Both,
}

impl PodRole {
    /// The same for a decision.
    pub(crate) fn role(self) -> Role {
        match self {
            Self::Prefill => Role::Prefill,
            Self::Decode => Role::Decode,
            Self::Both => Role::Both,
        }
    }

    /// The role of a pod in a fleet.
    pub(crate) fn of(role: Role) -> Self {
        match role {
            Role::Prefill => Self::Prefill,
            Role::Decode => Self::Decode,
            _ => Self::Both,
        }
    }

    /// Its name in files and on pages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Both => "both",
        }
    }
}
