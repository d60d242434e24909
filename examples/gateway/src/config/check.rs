//! Semantic validation of a configuration: every invalid value at once, each with a fix.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use routing_plugins::profiles;

use super::{Config, EventSourceSettings, Limits, PodRole, PodSettings, Problem, Profile};

pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut found = Vec::new();
    model(config, &mut found);
    pods(&config.pods, &mut found);
    profile(config, &mut found);
    server(config, &mut found);
    EventSourceSettings::check(config, &mut found);
    durations(config, &mut found);
    found
}

fn model(config: &Config, found: &mut Vec<Problem>) {
    let model = &config.model;
    let aliases = model.aliases.iter().enumerate().map(|(at, alias)| (format!("model.aliases[{at}]"), alias));
    let adapters = model.adapters.keys().map(|name| (format!("model.adapters.{name}"), name));
    let mut names = BTreeSet::new();
    for (place, name) in std::iter::once(("model.name".to_owned(), &model.name)).chain(aliases).chain(adapters) {
        if name.trim().is_empty() {
            found.push(Problem::new(place, "the name is empty"));
        } else if !names.insert(name) {
            found.push(Problem::new(place, format!("`{name}` is a name of the model already")));
        }
    }
    // From 0.31 on vLLM hashes where an adapter was loaded from.
    let Some(_) = &model.hashing else { return };
    for name in model.adapters.iter().filter(|(_, path)| path.is_none()).map(|(name, _)| name) {
        found.push(Problem::new(
            format!("model.adapters.{name}"),
            "with `model.hashing` it needs the path of the adapter",
        ));
    }
}

fn pods(pods: &[PodSettings], found: &mut Vec<Problem>) {
    let (mut names, mut urls) = (BTreeMap::new(), BTreeMap::new());
    for (at, pod) in pods.iter().enumerate() {
        let mut say = |field: &str, reason: String| found.push(Problem::new(format!("pods[{at}].{field}"), reason));
        if pod.name.trim().is_empty() {
            say("name", "the name is empty".to_owned());
        } else if let Some(first) = names.insert(&pod.name, at) {
            say("name", format!("`{}` is the name of pods[{first}] already", pod.name));
        }
        match url(&pod.url) {
            Err(reason) => say("url", format!("`{}` {reason}", pod.url)),
            Ok(()) => {
                if let Some(first) = urls.insert(&pod.url, at) {
                    say("url", format!("`{}` is the url of pods[{first}] already", pod.url));
                }
            }
        }
        pod.events.check(&format!("pods[{at}].events"), found);
    }
}

/// Why a text is not the address of a pod.
fn url(text: &str) -> Result<(), &'static str> {
    let uri: http::Uri = text.parse().map_err(|_| "is not a URL; write http://host:port")?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err("is https, which is not supported towards pods; write http://host:port"),
        _ => return Err("does not begin with http://; write http://host:port"),
    }
    let authority = uri.authority().ok_or("has no host; write http://host:port")?;
    if authority.host().is_empty() || authority.as_str().contains('@') {
        return Err("is not a host and a port; write http://host:port");
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err("has a path, and requests bring their own; write http://host:port");
    }
    Ok(())
}

fn profile(config: &Config, found: &mut Vec<Problem>) {
    let Profile::Stock(name) = &config.profile else { return };
    if !profiles::NAMES.contains(&&**name) {
        let meant = routing_core::suggest(name, profiles::NAMES)
            .map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
        found.push(Problem::new("profile", format!("there is no stock profile `{name}`{meant}")));
        return;
    }
    if name.starts_with("prefill_decode") && !config.pods.is_empty() {
        for role in [PodRole::Prefill, PodRole::Decode] {
            if !config.pods.iter().any(|pod| pod.role == role || pod.role == PodRole::Both) {
                let reason = format!("`{name}` needs a pod of role {} or both, and there is none", role.name());
                found.push(Problem::new("pods", reason));
            }
        }
    }
}

fn server(config: &Config, found: &mut Vec<Problem>) {
    match (&config.internal.token, &config.internal.token_file) {
        (Some(_), Some(_)) => {
            found.push(Problem::new("internal", "`token` and `token_file` are both set; remove one"));
        }
        (Some(token), None) if token.trim().is_empty() => {
            found.push(Problem::new("internal.token", "the token is empty; write one, or remove the key"));
        }
        _ => {}
    }
    let Limits { max_request_bytes, max_request_headers_bytes, max_requests, max_connections } = config.limits;
    if max_request_headers_bytes < MIN_HEADERS_BYTES {
        let reason = format!("{max_request_headers_bytes} is below the least, {MIN_HEADERS_BYTES}");
        found.push(Problem::new("limits.max_request_headers_bytes", reason));
    }
    for (place, value) in [
        ("limits.max_request_bytes", max_request_bytes),
        ("limits.max_requests", max_requests),
        ("limits.max_connections", max_connections),
        ("retry.max_attempts", config.retry.max_attempts as usize),
    ] {
        if value == 0 {
            found.push(Problem::new(place, "0 lets nothing through; at least 1"));
        }
    }
}

fn durations(config: &Config, found: &mut Vec<Problem>) {
    let Config { timeouts, health_check, .. } = config;
    let all = [
        ("timeouts.connect_timeout", Some(timeouts.connect_timeout)),
        ("timeouts.first_byte_timeout", Some(timeouts.first_byte_timeout)),
        ("timeouts.stream_idle_timeout", Some(timeouts.stream_idle_timeout)),
        ("timeouts.request_timeout", Some(timeouts.request_timeout)),
        ("timeouts.client_idle_timeout", Some(timeouts.client_idle_timeout)),
        ("health_check.interval", Some(health_check.interval)),
        ("health_check.timeout", Some(health_check.timeout)),
        ("snapshot.interval", config.snapshot.as_ref().map(|snapshot| snapshot.interval)),
        // Zero is a drain that ends all streams at once.
        ("drain_timeout", Some(config.drain_timeout).filter(|timeout| !timeout.is_zero())),
    ];
    for (place, duration) in all {
        if duration.is_some_and(|duration| duration.is_zero() || duration > MAX_DURATION) {
            found.push(Problem::new(place, "the duration is not between 1ms and 24h"));
        }
    }
}

/// The least that the server's buffers need.
const MIN_HEADERS_BYTES: usize = 8192;
/// Longer is a mistake.
const MAX_DURATION: Duration = Duration::from_secs(86_400);
