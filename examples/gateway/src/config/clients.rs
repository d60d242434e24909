//! Clients: who requests are of, and how urgent they are, for flow control.

use http::{HeaderMap, HeaderName};
use serde::Deserialize;

use super::pod_access::Secret;
use super::{Config, Problem};

/// By what clients are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ClientSettings {
    /// Clients by their API keys.
    pub api_keys: Vec<ClientKey>,
    /// The header in which a trusted proxy says who a request is of; nobody's word counts if unset.
    pub key_header: Option<String>,
    /// The header in which a trusted proxy says how urgent a request is, as a number; nobody's word counts if unset.
    pub priority_header: Option<String>,
    /// The header in which a client says how many milliseconds from now its answer is of use; none if unset.
    pub deadline_header: Option<String>,
    /// Whether a request's own `user` says who it is of, where nothing else does.
    pub trust_user: bool,
    /// Whether the LoRA adapter that a request asks for says whose share it takes, where nothing else says who it is of.
    pub by_adapter: bool,
    /// Whether a request's own `priority` says how urgent it is, where nothing else does.
    pub trust_priority: bool,
}

/// A client that has an API key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ClientKey {
    /// Who it is, in metrics and on the page: the key that it shares fairly by.
    pub name: String,
    /// Its key, as it sends it: in `authorization: Bearer` or `x-api-key`.
    pub api_key: Secret,
    /// How urgent its requests are.
    #[serde(default)]
    pub priority: i32,
}

impl ClientSettings {
    /// Whose API key a request has.
    pub(crate) fn client(&self, headers: &HeaderMap) -> Option<&ClientKey> {
        let given = |name: &str| headers.get(name)?.to_str().ok();
        let bearer = given("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let key = bearer.or_else(|| given("x-api-key"))?;
        self.api_keys.iter().find(|client| client.api_key.is(key))
    }

    pub(super) fn check(config: &Config, found: &mut Vec<Problem>) {
        let clients = &config.clients;
        for (at, client) in clients.api_keys.iter().enumerate() {
            let place = format!("clients.api_keys[{at}]");
            if client.name.trim().is_empty() {
                found.push(Problem::new(format!("{place}.name"), "the name is empty"));
            }
            let before = clients.api_keys[..at].iter();
            if let Some(other) = before.clone().find(|other| other.api_key == client.api_key) {
                found.push(Problem::new(
                    format!("{place}.api_key"),
                    format!("it is the key of `{}` already", other.name),
                ));
            }
            if client.api_key.is("") {
                found.push(Problem::new(format!("{place}.api_key"), "the key is empty"));
            }
        }
        let headers = [
            ("key_header", &clients.key_header),
            ("priority_header", &clients.priority_header),
            ("deadline_header", &clients.deadline_header),
        ];
        for (place, name) in headers {
            if let Some(name) = name.as_ref().filter(|name| HeaderName::try_from(name.as_str()).is_err()) {
                found.push(Problem::new(format!("clients.{place}"), format!("`{name}` is no name of a header")));
            }
        }
        if let Some(document) = &config.flow_control {
            let faults = document.config().check().err().map(|error| error.faults).unwrap_or_default();
            found.extend(faults.iter().map(|fault| Problem::new("flow_control", fault.to_string())));
            let most = config.limits.max_requests;
            if document.limits.requests.is_some_and(|requests| requests >= most && most > 0) {
                let reason = format!("those that wait are of the {most} of `limits.max_requests`: let fewer wait");
                found.push(Problem::new("flow_control.limits.requests", reason));
            }
        }
    }
}
