//! Other gateways of the same pods: over which subject they are told what this one sent, and how often.

use std::time::Duration;

use routing_plugins::duration;
use serde::Deserialize;

use super::{Config, Problem};

/// Load sharing with other gateways, over the server of `event_sources.nats`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PeerSettings {
    /// The subject; all gateways of a fleet have the same.
    pub subject: String,
    /// Between two summaries of what is in flight. Decisions are told within a millisecond.
    #[serde(deserialize_with = "duration::deserialize")]
    pub interval: Duration,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self { subject: "pointsman.peers".to_owned(), interval: Duration::from_millis(50) }
    }
}

impl PeerSettings {
    pub(super) fn check(config: &Config, found: &mut Vec<Problem>) {
        let Some(Self { subject, interval }) = &config.peers else { return };
        let Some(nats) = &config.event_sources.nats else {
            found.push(Problem::new("peers", "gateways tell each other over NATS; set `event_sources.nats`"));
            return;
        };
        let is_name =
            |token: &str| !token.is_empty() && !token.contains(|c: char| c.is_whitespace() || "*>".contains(c));
        if !subject.split('.').all(is_name) {
            let reason =
                format!("`{subject}` is not a subject: write words with dots between, without blanks, * and >");
            found.push(Problem::new("peers.subject", reason));
        } else if subject.strip_prefix(&*nats.subject_prefix).is_some_and(|rest| rest.starts_with('.')) {
            let reason = format!("`{subject}` is one of the event stream's, `{}.*`; take another", nats.subject_prefix);
            found.push(Problem::new("peers.subject", reason));
        }
        if *interval < LEAST || *interval > MOST {
            let reason =
                format!("{interval:?} is not from {LEAST:?} to {MOST:?}; {:?} is usual", Self::default().interval);
            found.push(Problem::new("peers.interval", reason));
        }
    }
}

/// Below, a gateway does little else; above, peers are forgotten between two summaries.
const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_millis(1_000);
