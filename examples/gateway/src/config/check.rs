//! Semantic validation of a configuration: every invalid value at once, each with a fix.

use std::collections::BTreeMap;
use std::time::Duration;

use routing_plugins::profiles;

use super::{
    ClientSettings, Config, EventSourceSettings, Events, InternalSettings, Limits, ModelSettings, OtlpSettings,
    PeerSettings, PodRole, Problem, Profile, Served, pod_access,
};

pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut found = Vec::new();
    shape(config, &mut found);
    let served = config.served();
    models(&served, &mut found);
    pods(&served, &mut found);
    served.iter().for_each(|served| profile(served, &mut found));
    server(config, &mut found);
    pod_access::check(config, &mut found);
    EventSourceSettings::check(config, &mut found);
    PeerSettings::check(config, &mut found);
    config.breakers.check(&mut found);
    config.retry.check(&mut found);
    durations(config, &mut found);
    OtlpSettings::check(config, &mut found);
    ClientSettings::check(config, &mut found);
    found
}

/// One model, or several, and not both.
fn shape(config: &Config, found: &mut Vec<Problem>) {
    let given = [("model", config.model != ModelSettings::default()), ("pods", !config.pods.is_empty())];
    for (place, _) in given.into_iter().filter(|(_, given)| *given && !config.models.is_empty()) {
        found.push(Problem::new(place, "`models` lists the models with their pods; move it there"));
    }
}

fn models(served: &[Served<'_>], found: &mut Vec<Problem>) {
    let mut names = BTreeMap::new();
    for Served { place, model, .. } in served {
        let place = format!("{place}model");
        let aliases = model.aliases.iter().enumerate().map(|(at, alias)| (format!("{place}.aliases[{at}]"), alias));
        let adapters = model.adapters.keys().map(|name| (format!("{place}.adapters.{name}"), name));
        let own = std::iter::once((format!("{place}.name"), &model.name));
        for (key, name) in own.chain(aliases).chain(adapters) {
            if name.trim().is_empty() {
                let is_missing = place == "model" && **model == ModelSettings::default();
                let fix = if is_missing { "; name the model, or list several as `models`" } else { "" };
                found.push(Problem::new(key, format!("the name is empty{fix}")));
                continue;
            }
            match names.insert(name, &model.name) {
                None => {}
                Some(other) if other == &model.name => {
                    found.push(Problem::new(key, format!("`{name}` is a name of the model already")));
                }
                Some(other) => {
                    found.push(Problem::new(key, format!("`{name}` is a name of the model `{other}` already")))
                }
            }
        }
        // From 0.31 on vLLM hashes where an adapter was loaded from.
        let unplaced = model.adapters.iter().filter(|(_, path)| model.hashing.is_some() && path.is_none());
        for (name, _) in unplaced {
            let reason = "with `model.hashing` it needs the path of the adapter";
            found.push(Problem::new(format!("{place}.adapters.{name}"), reason));
        }
    }
}

/// Names and addresses are told apart across models: pods are reported on and shown by their names alone.
fn pods(served: &[Served<'_>], found: &mut Vec<Problem>) {
    let (mut names, mut urls) = (BTreeMap::new(), BTreeMap::new());
    for Served { place, pods, .. } in served {
        for (at, pod) in pods.iter().enumerate() {
            let own = format!("{place}pods[{at}]");
            let mut say = |field: &str, reason: String| found.push(Problem::new(format!("{own}.{field}"), reason));
            if pod.name.trim().is_empty() {
                say("name", "the name is empty".to_owned());
            } else if let Some(first) = names.insert(&pod.name, own.clone()) {
                say("name", format!("`{}` is the name of {first} already", pod.name));
            }
            match url(&pod.url) {
                Err(reason) => say("url", format!("`{}` {reason}", pod.url)),
                Ok(()) => {
                    if let Some(first) = urls.insert(&pod.url, own.clone()) {
                        say("url", format!("`{}` is the url of {first} already", pod.url));
                    }
                }
            }
            pod.events.check(&format!("{own}.events"), found);
        }
    }
}

/// Why a text is not the address of a pod.
fn url(text: &str) -> Result<(), &'static str> {
    let uri: http::Uri = text.parse().map_err(|_| "is not a URL; write http://host:port")?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("does not begin with http:// or https://; write http://host:port");
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

fn profile(served: &Served<'_>, found: &mut Vec<Problem>) {
    let Served { place, profile, pods, .. } = served;
    let Profile::Stock(name) = profile else { return };
    if !profiles::NAMES.contains(&&**name) {
        let meant = routing_core::suggest(name, profiles::NAMES)
            .map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
        found.push(Problem::new(format!("{place}profile"), format!("there is no stock profile `{name}`{meant}")));
        return;
    }
    if name.starts_with("prefill_decode") && !pods.is_empty() {
        for role in [PodRole::Prefill, PodRole::Decode] {
            if !pods.iter().any(|pod| pod.role == role || pod.role == PodRole::Both) {
                let reason = format!("`{name}` needs a pod of role {} or both, and there is none", role.name());
                found.push(Problem::new(format!("{place}pods"), reason));
            }
        }
    }
    if name == "approximate_prefix" && pods.iter().any(|pod| pod.events != Events::None) {
        let reason =
            format!("`{name}` guesses what pods hold, and events say it; take another profile, or `events: none`");
        found.push(Problem::new(format!("{place}profile"), reason));
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
    let InternalSettings { listen, tls, plain, .. } = &config.internal;
    if tls.is_some() && listen.is_none() {
        let reason =
            "there is no internal listener, and the clients' has `tls`; set `internal.listen`, or remove the key";
        found.push(Problem::new("internal.tls", reason));
    }
    if tls.is_some() && *plain {
        found.push(Problem::new("internal", "`tls` is set, and so is `plain`; remove one"));
    }
    if (config.tls.is_some() || tls.is_some()) && config.event_sources.grpc.as_ref().is_some_and(|grpc| !grpc.plain) {
        let reason = "its listener has no TLS, and others have: reporters would send the token in clear; push over HTTP, or set \
                      `event_sources.grpc.plain: true`";
        found.push(Problem::new("event_sources.grpc", reason));
    }
    let Limits { max_request_bytes, max_request_headers_bytes, max_requests, max_uploads, max_connections, .. } =
        config.limits;
    if config.limits.max_upload_bytes < max_request_bytes {
        let reason =
            format!("{} is below max_request_bytes: no such body would be read", config.limits.max_upload_bytes);
        found.push(Problem::new("limits.max_upload_bytes", reason));
    }
    if max_request_headers_bytes < MIN_HEADERS_BYTES {
        let reason = format!("{max_request_headers_bytes} is below the least, {MIN_HEADERS_BYTES}");
        found.push(Problem::new("limits.max_request_headers_bytes", reason));
    }
    for (place, value) in [
        ("limits.max_request_bytes", max_request_bytes),
        ("limits.max_requests", max_requests),
        ("limits.max_uploads", max_uploads),
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
        ("timeouts.prefill_first_byte_timeout", Some(timeouts.prefill_first_byte_timeout)),
        ("timeouts.per_try_timeout", Some(timeouts.per_try_timeout)),
        ("timeouts.stream_idle_timeout", Some(timeouts.stream_idle_timeout)),
        ("timeouts.request_timeout", Some(timeouts.request_timeout)),
        ("timeouts.client_idle_timeout", Some(timeouts.client_idle_timeout)),
        ("timeouts.headers_timeout", Some(timeouts.headers_timeout)),
        ("timeouts.body_timeout", Some(timeouts.body_timeout)),
        ("health_check.interval", Some(health_check.interval)),
        ("health_check.timeout", Some(health_check.timeout)),
        ("snapshot.interval", config.snapshot.as_ref().map(|snapshot| snapshot.interval)),
        // Zero is a drain at once.
        ("drain_grace", Some(config.drain_grace).filter(|grace| !grace.is_zero())),
        // Zero is a drain that ends all streams at once.
        ("drain_timeout", Some(config.drain_timeout).filter(|timeout| !timeout.is_zero())),
    ];
    let breakers = config.breakers.durations().map(|(place, duration)| (place, Some(duration)));
    for (place, duration) in all.into_iter().chain(breakers) {
        if duration.is_some_and(|duration| duration.is_zero() || duration > MAX_DURATION) {
            found.push(Problem::new(place, "the duration is not between 1ms and 24h"));
        }
    }
}

/// The least that the server's buffers need.
const MIN_HEADERS_BYTES: usize = 8192;
/// Longer is a mistake.
const MAX_DURATION: Duration = Duration::from_secs(86_400);
