//! Event source settings: per pod (`pods[].events`) and fleet-wide (`event_sources`), with their checks.

use std::net::SocketAddr;

use pointsman::zmq::Endpoint;
use serde::Deserialize;

use super::{Config, Problem};

/// The event source of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Events {
    /// The gateway subscribes to the engine's own ZeroMQ socket.
    Zmq(ZmqEndpoints),
    /// A reporter beside the pod pushes them, over HTTP, NATS or gRPC.
    Pushed,
    /// None; the pod's cache content is unknown.
    #[default]
    None,
}

impl Events {
    /// Its name in `/state`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Zmq(_) => "zmq",
            Self::Pushed => "pushed",
            Self::None => "none",
        }
    }

    /// Checks the settings of one pod; `place` is its path.
    pub(super) fn check(&self, place: &str, found: &mut Vec<Problem>) {
        let Self::Zmq(zmq) = self else { return };
        for (field, url) in [("events", Some(&zmq.events)), ("replay", zmq.replay.as_ref())] {
            if let Some(Err(error)) = url.map(|url| url.parse::<Endpoint>()) {
                found.push(Problem::new(format!("{place}.zmq.{field}"), error.to_string()));
            }
        }
    }
}

/// An engine's ZeroMQ sockets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "what a subscriber has to know: complete by nature")]
pub struct ZmqEndpoints {
    /// Its PUB socket: `tcp://host:port`.
    pub events: String,
    /// Its ROUTER socket for replays. Without one every gap costs what is known of the pod.
    #[serde(default)]
    pub replay: Option<String>,
    /// The topic, or its prefix; empty for all.
    #[serde(default)]
    pub topic: String,
    /// Of which copies of a block it announces the eviction.
    #[serde(default)]
    pub removals: Removals,
}

/// Which evictions an engine announces, where a block has several physical copies. Evictions that say how many are left are
/// believed either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Removals {
    /// That of every copy, as vLLM does.
    #[default]
    EveryCopy,
    /// That of the last copy only.
    LastCopy,
}

impl ZmqEndpoints {
    /// Sockets without a replay.
    #[must_use]
    pub fn new(events: &str) -> Self {
        Self { events: events.to_owned(), replay: None, topic: String::new(), removals: Removals::default() }
    }

    /// The same with a replay socket.
    #[must_use]
    pub fn replay(self, replay: &str) -> Self {
        Self { replay: Some(replay.to_owned()), ..self }
    }
}

/// Fleet-wide event sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct EventSourceSettings {
    /// A NATS JetStream stream; needs the feature `nats`.
    pub nats: Option<NatsSource>,
    /// A gRPC listener; needs the feature `grpc` and the internal token.
    pub grpc: Option<GrpcSource>,
}

impl EventSourceSettings {
    /// Checks the fleet-wide sources, and that pushed events have a way in.
    pub(super) fn check(config: &Config, found: &mut Vec<Problem>) {
        let Self { nats, grpc } = &config.event_sources;
        let served = config.served();
        let pushed = served.iter().filter(|served| served.pods.iter().any(|pod| pod.events == Events::Pushed));
        let is_pushed = pushed.clone().next().is_some();
        let has_token = config.internal.token.is_some() || config.internal.token_file.is_some();
        if !has_token && ((is_pushed && nats.is_none()) || grpc.is_some()) {
            let reason = "pushed events need a token; set `internal.token` or `internal.token_file`";
            found.push(Problem::new("internal.token", reason));
        }
        for served in pushed.filter(|served| served.model.hashing.is_some()) {
            let reason = "pushed events are hashed by the router's own rule; leave `model.hashing` out";
            found.push(Problem::new(format!("{}model.hashing", served.place), reason));
        }
        if grpc.as_ref().is_some_and(|grpc| grpc.max_connections == 0) {
            found.push(Problem::new("event_sources.grpc.max_connections", "0 lets nobody in; at least 1"));
        }
        let Some(nats) = nats else { return };
        if !["nats://", "tls://"].iter().any(|scheme| nats.url.len() > scheme.len() && nats.url.starts_with(scheme)) {
            let reason = format!("`{}` does not begin with nats:// or tls://; write nats://host:port", nats.url);
            found.push(Problem::new("event_sources.nats.url", reason));
        }
        for (field, name) in [("stream", &nats.stream), ("subject_prefix", &nats.subject_prefix)] {
            if name.is_empty() || name.contains(char::is_whitespace) {
                let reason = format!("`{name}` is not a name: it is empty or has blanks");
                found.push(Problem::new(format!("event_sources.nats.{field}"), reason));
            }
        }
    }
}

/// A JetStream stream of events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NatsSource {
    /// The server: `nats://host:port`.
    pub url: String,
    /// The stream.
    #[serde(default = "default_stream")]
    pub stream: String,
    /// The prefix of its subjects.
    #[serde(default = "default_subject_prefix")]
    pub subject_prefix: String,
}

/// A gRPC listener for events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GrpcSource {
    /// Its address.
    pub listen: SocketAddr,
    /// Connections at a time; more wait to be accepted.
    #[serde(default = "default_connections")]
    pub max_connections: usize,
    /// Whether it may be without TLS, which it has none of, where another listener has it: then reporters send the token in
    /// clear.
    #[serde(default)]
    pub plain: bool,
}

fn default_connections() -> usize {
    1024
}

fn default_stream() -> String {
    "pointsman".to_owned()
}

fn default_subject_prefix() -> String {
    "pointsman.events".to_owned()
}
