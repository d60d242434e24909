//! Pod settings: name, address, role, labels, event source.

use std::collections::BTreeMap;

use routing_core::Role;
use serde::Deserialize;

use super::Events;

/// A pod of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PodSettings {
    /// Its name, unique in the fleet.
    pub name: String,
    /// Its address: `http://host:port`.
    pub url: String,
    /// Its role.
    #[serde(default)]
    pub role: PodRole,
    /// Labels such as zone, host, rack.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its event source.
    #[serde(default, with = "serde_yaml_ng::with::singleton_map")]
    pub events: Events,
}

impl PodSettings {
    /// A pod that does everything and reports no events.
    #[must_use]
    pub fn new(name: &str, url: &str) -> Self {
        let (name, url, role) = (name.to_owned(), url.to_owned(), PodRole::Both);
        Self { name, url, role, labels: BTreeMap::new(), events: Events::None }
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

    /// Whether what is known of the other's cache holds for this one's. Not with another event source: what one source
    /// stored, another never removes.
    pub(crate) fn is_same_cache(&self, other: &Self) -> bool {
        self.is_same_server(other) && self.events == other.events
    }

    /// Whether both are one server.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        self.name == other.name && self.url == other.url
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

    /// Its name in files and on pages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Both => "both",
        }
    }
}
