//! A pod as an operator names it.

use std::collections::BTreeMap;

use routing_core::Role;
use serde::Deserialize;

/// A pod of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PodSettings {
    /// What it is called, once in a fleet.
    pub name: String,
    /// Where it is: `http://host:port`.
    pub url: String,
    /// What it does.
    #[serde(default)]
    pub role: PodRole,
    /// Where it is and what it is: zone, host, rack.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Where its cache events come from.
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

    /// Whether what a gateway knows of the other one's cache is true of this one's too. Not if its events come from
    /// elsewhere: what one source told, another one never takes back.
    pub(crate) fn is_same_cache(&self, other: &Self) -> bool {
        self.is_same_server(other) && self.events == other.events
    }

    /// Whether both are one server.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        self.name == other.name && self.url == other.url
    }
}

/// What a pod does.
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
    #[must_use]
    pub fn role(self) -> Role {
        match self {
            Self::Prefill => Role::Prefill,
            Self::Decode => Role::Decode,
            Self::Both => Role::Both,
        }
    }

    /// Its name in files and on pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Both => "both",
        }
    }
}

/// Where a pod's cache events come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Events {
    /// The gateway subscribes to the engine's own ZeroMQ socket.
    Zmq(ZmqEndpoints),
    /// A reporter beside the pod sends them, over HTTP, NATS or gRPC.
    Pushed,
    /// Nobody tells; what the pod holds is not known.
    #[default]
    None,
}

impl Events {
    /// What it is called where sources are shown.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Zmq(_) => "zmq",
            Self::Pushed => "pushed",
            Self::None => "none",
        }
    }
}

/// An engine's ZeroMQ sockets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ZmqEndpoints {
    /// Where it publishes: `tcp://host:port`.
    pub events: String,
    /// Where it answers what was missed, if it does.
    #[serde(default)]
    pub replay: Option<String>,
    /// The topic, or its beginning; all of them unless given.
    #[serde(default)]
    pub topic: String,
}

impl ZmqEndpoints {
    /// Sockets without a replay.
    #[must_use]
    pub fn new(events: &str) -> Self {
        Self { events: events.to_owned(), replay: None, topic: String::new() }
    }

    /// The same with a socket that answers what was missed.
    #[must_use]
    pub fn replay(self, replay: &str) -> Self {
        Self { replay: Some(replay.to_owned()), ..self }
    }
}
