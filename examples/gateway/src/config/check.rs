//! Everything that is wrong with the values of a configuration.
//!
//! Nothing stops at the first problem: an operator mends a file once.

use std::collections::BTreeMap;

use super::{Config, Events, Limits, PodRole, PodSettings, Problem, Profile, STOCK_PROFILES};

pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut found = Vec::new();
    model(config, &mut found);
    pods(&config.pods, &mut found);
    profile(config, &mut found);
    server(config, &mut found);
    times(config, &mut found);
    found
}

fn model(config: &Config, found: &mut Vec<Problem>) {
    let model = &config.model;
    for (place, name) in std::iter::once(("model.name".to_owned(), &model.name))
        .chain(model.aliases.iter().enumerate().map(|(at, alias)| (format!("model.aliases[{at}]"), alias)))
    {
        if name.trim().is_empty() {
            found.push(Problem::new(place, "a model has a name"));
        }
    }
}

fn pods(pods: &[PodSettings], found: &mut Vec<Problem>) {
    let (mut names, mut urls) = (BTreeMap::new(), BTreeMap::new());
    for (at, pod) in pods.iter().enumerate() {
        let mut say = |field: &str, reason: String| found.push(Problem::new(format!("pods[{at}].{field}"), reason));
        if pod.name.trim().is_empty() {
            say("name", "a pod has a name".to_owned());
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
        if let Events::Zmq(zmq) = &pod.events {
            for (field, url) in [("events", Some(&zmq.events)), ("replay", zmq.replay.as_ref())] {
                if let Some(url) = url.filter(|url| !url.starts_with("tcp://")) {
                    say(&format!("events.zmq.{field}"), format!("`{url}` does not begin with tcp://"));
                }
            }
        }
    }
}

/// Why a text is not where a pod is.
fn url(text: &str) -> Result<(), &'static str> {
    let uri: http::Uri = text.parse().map_err(|_| "is no URL")?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err("is https, and pods are spoken to in plain HTTP"),
        _ => return Err("does not begin with http://"),
    }
    let authority = uri.authority().ok_or("names no host")?;
    if authority.host().is_empty() || authority.as_str().contains('@') {
        return Err("is not a host and a port");
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err("has a path, and requests bring their own");
    }
    Ok(())
}

fn profile(config: &Config, found: &mut Vec<Problem>) {
    let Profile::PluginState(name) = &config.profile else { return };
    if !STOCK_PROFILES.contains(&&**name) {
        let meant = nearest(name).map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
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
    let internal = &config.internal;
    match (&internal.token, &internal.token_file) {
        (Some(_), Some(_)) => {
            found.push(Problem::new("internal", "`token` and `token_file` are both given; one is enough"));
        }
        (Some(token), None) if token.trim().is_empty() => {
            found.push(Problem::new("internal.token", "an empty token is none"));
        }
        (None, None) => {
            let needs = config.pods.iter().any(|pod| pod.events == Events::Pushed) && config.sources.nats.is_none();
            if needs || config.sources.grpc.is_some() {
                found.push(Problem::new("internal.token", "events that are pushed need a token, and there is none"));
            }
        }
        _ => {}
    }
    if let Some(nats) = &config.sources.nats {
        if !["nats://", "tls://"].iter().any(|scheme| nats.url.len() > scheme.len() && nats.url.starts_with(scheme)) {
            found.push(Problem::new("sources.nats.url", "does not begin with nats:// or tls://"));
        }
        for (field, name) in [("stream", &nats.stream), ("subject", &nats.subject)] {
            if name.is_empty() || name.contains(char::is_whitespace) {
                found.push(Problem::new(format!("sources.nats.{field}"), format!("`{name}` is no name")));
            }
        }
    }
    if config.limits.header_bytes < LEAST_HEADER_BYTES {
        let reason = format!("{} is below {LEAST_HEADER_BYTES}", config.limits.header_bytes);
        found.push(Problem::new("limits.header_bytes", reason));
    }
    let Limits { body_bytes, in_flight, connections, .. } = config.limits;
    for (field, value) in [("body_bytes", body_bytes), ("in_flight", in_flight), ("connections", connections)] {
        if value == 0 {
            found.push(Problem::new(format!("limits.{field}"), "0 lets nothing through"));
        }
    }
    if config.patience.attempts == 0 {
        found.push(Problem::new("patience.attempts", "at least one pod is tried"));
    }
}

fn times(config: &Config, found: &mut Vec<Problem>) {
    let (patience, health) = (&config.patience, &config.health);
    let snapshot = config.snapshot.as_ref().map_or(1.0, |snapshot| snapshot.every_seconds);
    let positive = [
        ("patience.first_byte_seconds", patience.first_byte_seconds),
        ("patience.idle_seconds", patience.idle_seconds),
        ("patience.whole_seconds", patience.whole_seconds),
        ("patience.connect_seconds", patience.connect_seconds),
        ("patience.client_seconds", patience.client_seconds),
        ("health.every_seconds", health.every_seconds),
        ("health.timeout_seconds", health.timeout_seconds),
        ("snapshot.every_seconds", snapshot),
    ];
    for (place, seconds) in positive {
        if !(seconds > 0.0 && seconds <= MOST_SECONDS) {
            found.push(Problem::new(place, format!("{seconds} is no time between 0 and {MOST_SECONDS} s")));
        }
    }
    if !(0.0..=MOST_SECONDS).contains(&config.drain_seconds) {
        found.push(Problem::new("drain_seconds", format!("{} is no time", config.drain_seconds)));
    }
}

/// The stock profile that was probably meant: the one with the fewest letters to change, if they are few.
fn nearest(name: &str) -> Option<&'static str> {
    let letters: Vec<char> = name.chars().take(64).collect();
    let near = STOCK_PROFILES.into_iter().map(|known| (distance(&letters, &known.chars().collect::<Vec<_>>()), known));
    near.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= name.len() / 2).map(|(_, name)| name)
}

/// Letters to insert, remove or replace.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let best = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}

/// What the server's buffers need.
const LEAST_HEADER_BYTES: usize = 8192;
/// A day: what is longer is a mistake.
const MOST_SECONDS: f64 = 86_400.0;
