//! Tests of the configuration: the sample file, defaults, errors.

use super::*;

fn problems(text: &str) -> Vec<String> {
    match Config::parse(text) {
        Err(ConfigError::Values(problems)) => problems.0.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_sample_file_is_taken() {
    let config = Config::parse(include_str!("../../gateway.yaml")).unwrap();
    assert_eq!(config.model.aliases, ["default"]);
    assert_eq!(config.profile, Profile::stock("first_token"));
    assert!(matches!(&config.pods[0].events, Events::Zmq(zmq) if zmq.events.starts_with("tcp://")));
    assert_eq!(config.pods[1].events, Events::Pushed);
    assert_eq!(config.handoff, Dialect::Nixl);
}

#[test]
fn a_minimal_file_has_the_defaults_of_the_built_in_one() {
    let parsed = Config::parse("model: { name: sim }").unwrap();
    let mut default = Config::default_for(Vec::new());
    default.listen = parsed.listen;
    assert_eq!(parsed, default);
}

#[test]
fn what_is_no_yaml_or_unknown_is_named_with_its_place() {
    for (text, line, says) in [
        ("model: { name: sim }\nlisten_on: x", 2, "listen_on"),
        ("model: { name: sim }\npods:\n  - { name: a, url: u, rol: both }", 3, "rol"),
        ("model: { name: sim }\nlisten: nowhere", 2, "socket address"),
        ("model: { name: sim }\nlimits: { max_requests: -1 }", 2, "-1"),
        (
            "model: { name: sim }\ntimeouts: { request_timeout: 600 }",
            2,
            "timeouts.request_timeout: `600` has no unit: write `600s`",
        ),
        ("model: { name: sim }\n\ndrain_timeout: soon", 3, "such as `250ms`, `30s`"),
        ("model: { name: sim }\nhealth_chek: { interval: 1s }", 2, "did you mean `health_check`?"),
        ("model: { name: sim }\ntimeouts: { requst_timeout: 1s }", 2, "did you mean `request_timeout`?"),
        ("model: [", 1, ""),
    ] {
        match Config::parse(text) {
            Err(ConfigError::Text { line: found, reason, .. }) => {
                assert!(found >= line && reason.contains(says), "{text}: line {found}, {reason}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    let error = Config::parse("model: { name: sim }\npods: [{ name: a, url: 'http://a', events: sometimes }]");
    assert!(error.unwrap_err().to_string().contains("sometimes"));
}

#[test]
fn every_problem_is_listed_at_once() {
    let found = problems(
        "model: { name: '' }
profile: cache_awar
internal: { token: a, token_file: b }
limits: { max_requests: 0, max_request_headers_bytes: 10 }
timeouts: { first_byte_timeout: 0s }
drain_timeout: 48h
pods:
  - { name: a, url: 'http://one:1' }
  - { name: a, url: 'https://two:2' }
  - { name: '', url: 'http://one:1' }
  - { name: d, url: 'http://d/path', events: { zmq: { events: 'ipc://x' } } }",
    );
    for says in [
        "model.name: ",
        "did you mean `cache_aware`?",
        "internal: `token` and `token_file`",
        "limits.max_requests: 0",
        "limits.max_request_headers_bytes: 10",
        "timeouts.first_byte_timeout: the duration is not between",
        "drain_timeout: the duration is not between",
        "pods[1].name: `a` is the name of pods[0] already",
        "pods[1].url: `https://two:2` is https",
        "pods[2].name: the name is empty",
        "pods[2].url: `http://one:1` is the url of pods[0] already",
        "pods[3].url: `http://d/path` has a path",
        "pods[3].events.zmq.events: `ipc://x`",
    ] {
        assert!(found.iter().any(|problem| problem.contains(says)), "{says} is not among {found:#?}");
    }
    assert_eq!(found.len(), 13, "{found:#?}");
}

#[test]
fn adapters_have_names_of_their_own_and_paths_where_engines_hash_them() {
    let found = problems("model: { name: m, aliases: [n], adapters: { m: /a, n: /b } }");
    assert_eq!(
        found,
        [
            "model.adapters.m: `m` is a name of the model already",
            "model.adapters.n: `n` is a name of the model already"
        ]
    );
    let text =
        "model: { name: m, hashing: { vllm: 0.32.0, algorithm: sha256_cbor, seed: '0' }, adapters: { sql: PATH } }";
    assert!(problems(&text.replace("PATH", ""))[0].starts_with("model.adapters.sql: "));
    let config = Config::parse(&text.replace("PATH", "/models/sql")).unwrap();
    assert_eq!(config.model.adapters["sql"].as_deref(), Some("/models/sql"));
}

#[test]
fn a_profile_needs_pods_of_its_roles() {
    let text = "model: { name: m }\nprofile: prefill_decode\npods: [{ name: a, url: 'http://a', role: ROLE }]";
    assert_eq!(problems(&text.replace("ROLE", "prefill")).len(), 1);
    assert_eq!(problems(&text.replace("ROLE", "decode")).len(), 1);
    Config::parse(&text.replace("ROLE", "both")).unwrap();
}

#[test]
fn pushed_events_need_a_token() {
    let text = "model: { name: m }\npods: [{ name: a, url: 'http://a', events: pushed }]\n";
    assert!(problems(text)[0].starts_with("internal.token"));
    Config::parse(&format!("{text}internal: {{ token: t }}")).unwrap();
}

#[test]
fn a_profile_is_a_name_a_file_or_a_document() {
    let parse = |profile: &str| Config::parse(&format!("model: {{ name: m }}\nprofile: {profile}")).unwrap().profile;
    assert_eq!(parse("round_robin"), Profile::stock("round_robin"));
    assert!(matches!(parse("{ file: p.yaml }"), Profile::File(file) if file.file.ends_with("p.yaml")));
    assert!(matches!(parse("{ plugins: [], profiles: [] }"), Profile::Document(_)));
}

#[test]
fn a_configuration_that_is_printed_keeps_its_token_to_itself() {
    let config = Config::parse("model: { name: sim }\ninternal: { token: hush }").unwrap();
    let text = format!("{config:?}");
    assert!(text.contains("token: Some(") && !text.contains("hush"), "{text}");
}

#[test]
fn the_sample_file_shows_the_defaults() {
    let config = Config::parse(include_str!("../../gateway.yaml")).unwrap();
    assert_eq!(
        (config.limits, config.timeouts, config.retry),
        (Limits::default(), Timeouts::default(), Retry::default())
    );
    assert_eq!((config.health_check, config.drain_timeout), (HealthCheck::default(), default_drain_timeout()));
}

#[test]
fn a_stream_of_events_has_a_server_and_a_name() {
    let found = problems(
        "model: { name: sim }\nevent_sources: { nats: { url: 'localhost', stream: '', subject_prefix: 'a b' } }",
    );
    let places: Vec<&str> = found.iter().filter_map(|problem| problem.split(':').next()).collect();
    assert_eq!(places, ["event_sources.nats.url", "event_sources.nats.stream", "event_sources.nats.subject_prefix"]);
}
