//! Tests of the configuration: the sample file, defaults, errors.

use super::*;

fn problems(text: &str) -> Vec<String> {
    match Config::parse(text) {
        Err(ConfigError::Values(problems)) => problems.0.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nesting_without_end_is_refused_at_once() {
    let text = format!("model: {{ name: sim }}\npods: {}", "[".repeat(200_000));
    assert!(matches!(Config::parse(&text), Err(ConfigError::Text { line: 2, .. })));
}

#[test]
fn the_sample_file_is_taken() {
    let config = Config::parse(include_str!("../../gateway.yaml")).unwrap();
    assert_eq!(config.model.aliases, ["default"]);
    assert_eq!(config.profile, Profile::stock("total_latency"));
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
  - { name: a, url: 'ftp://two:2' }
  - { name: '', url: 'http://one:1' }
  - { name: d, url: 'http://d/path', events: { zmq: { events: 'udp://x' } } }",
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
        "pods[1].url: `ftp://two:2` does not begin with http:// or https://",
        "pods[2].name: the name is empty",
        "pods[2].url: `http://one:1` is the url of pods[0] already",
        "pods[3].url: `http://d/path` has a path",
        "pods[3].events.zmq.events: `udp://x`",
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
        (config.limits, config.timeouts, config.retry, config.breakers),
        (Limits::default(), Timeouts::default(), Retry::default(), Breakers::default())
    );
    assert_eq!((config.health_check, config.drain_timeout), (HealthCheck::default(), default_drain_timeout()));
    assert_eq!((config.drain_grace, config.internal.plain), (default_drain_grace(), false));
    assert_eq!((config.log, config.access_log), (LogSettings::default(), AccessLog::Off));
}

#[test]
fn a_stream_of_events_has_a_server_and_a_name() {
    let found = problems(
        "model: { name: sim }\nevent_sources: { nats: { url: 'localhost', stream: '', subject_prefix: 'a b' } }",
    );
    let places: Vec<&str> = found.iter().filter_map(|problem| problem.split(':').next()).collect();
    assert_eq!(places, ["event_sources.nats.url", "event_sources.nats.stream", "event_sources.nats.subject_prefix"]);
}

#[test]
fn peers_have_a_server_a_subject_of_their_own_and_an_interval() {
    let nats = "event_sources: { nats: { url: 'nats://x:1' } }";
    let config = Config::parse(&format!(
        "model: {{ name: sim }}\npods: [{{ name: a, url: 'http://x' }}]\n{nats}\npeers: {{ interval: 20ms }}"
    ));
    let peers = config.unwrap().peers.unwrap();
    assert_eq!((&*peers.subject, peers.interval), ("pointsman.peers", Duration::from_millis(20)));
    let places = |peers: &str, nats: &str| {
        let found = problems(&format!("model: {{ name: sim }}\n{nats}\npeers: {peers}"));
        found.iter().filter_map(|problem| Some(problem.split(':').next()?.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(places("{}", ""), ["peers"]);
    for subject in ["''", "'a b'", "'a.*'", "'a..b'", "pointsman.events.peers"] {
        assert_eq!(places(&format!("{{ subject: {subject} }}"), nats), ["peers.subject"], "{subject}");
    }
    for interval in ["0s", "2s"] {
        assert_eq!(places(&format!("{{ interval: {interval} }}"), nats), ["peers.interval"], "{interval}");
    }
}

#[test]
fn several_models_have_what_one_has_and_take_the_rest_from_the_file() {
    let config = Config::parse(
        "profile: cache_aware
handoff: sglang
models:
  - model: { name: a }
    pods: [{ name: x, url: 'http://x' }]
  - { model: { name: b, block_size: 32 }, profile: least_load, handoff: plain }",
    )
    .unwrap();
    let served: Vec<_> =
        config.served().iter().map(|one| (&*one.model.name, one.profile.label(), one.handoff)).collect();
    assert_eq!(
        served,
        [("a", "cache_aware".to_owned(), Dialect::Sglang), ("b", "least_load".to_owned(), Dialect::Plain)]
    );
    let found = problems(
        "model: { name: one }
pods: [{ name: p, url: 'http://p' }]
models:
  - { model: { name: a, adapters: { sql: } }, pods: [{ name: x, url: 'http://x' }] }
  - model: { name: b, aliases: [a, sql] }
    profile: cache_awar
    pods: [{ name: x, url: 'http://x' }, { name: y, url: 'ftp://y' }]
  - { model: { name: '' } }
  - model: { name: d }
    profile: approximate_prefix
    pods: [{ name: z, url: 'http://z', events: { zmq: { events: 'tcp://z:1' } } }]",
    );
    for says in [
        "model: `models` lists the models",
        "pods: `models` lists the models",
        "models[1].model.aliases[0]: `a` is a name of the model `a` already",
        "models[1].model.aliases[1]: `sql` is a name of the model `a` already",
        "models[1].profile: there is no stock profile `cache_awar`; did you mean `cache_aware`?",
        "models[1].pods[0].name: `x` is the name of models[0].pods[0] already",
        "models[1].pods[0].url: `http://x` is the url of models[0].pods[0] already",
        "models[1].pods[1].url: `ftp://y`",
        "models[2].model.name: the name is empty",
        "models[3].profile: `approximate_prefix` guesses",
    ] {
        assert!(found.iter().any(|problem| problem.contains(says)), "{says} is not among {found:#?}");
    }
    assert_eq!(found.len(), 10, "{found:#?}");
    assert_eq!(
        problems("profile: least_load"),
        ["model.name: the name is empty; name the model, or list several as `models`"]
    );
}

#[test]
fn a_token_is_sent_in_clear_only_where_that_is_said() {
    let tls = "model: { name: m }\ntls: { certificate: c, key: k }\n";
    let parse = |more: &str| Config::parse(&format!("{tls}{more}"));
    let same = parse("internal: { listen: '127.0.0.1:1' }").unwrap();
    assert_eq!(same.internal_tls(), same.tls.as_ref());
    assert_eq!(parse("internal: { listen: '127.0.0.1:1', plain: true }").unwrap().internal_tls(), None);
    let own = parse("internal: { listen: '127.0.0.1:1', tls: { certificate: o, key: k, client_ca: a } }").unwrap();
    assert_eq!(own.internal_tls(), Some(&TlsFiles::new("o", "k").client_ca("a")));
    assert_eq!(parse("").unwrap().internal_tls(), None, "there is no such listener");
    let says = |more: &str| problems(&format!("{tls}{more}"));
    assert!(says("internal: { tls: { certificate: o, key: k } }")[0].starts_with("internal.tls: there is no internal"));
    let both = "internal: { listen: '127.0.0.1:1', plain: true, tls: { certificate: o, key: k } }";
    assert!(says(both)[0].contains("remove one"));
    let grpc = "internal: { token: t }\nevent_sources: { grpc: { listen: '127.0.0.1:1', plain: PLAIN } }";
    assert!(says(&grpc.replace("PLAIN", "false"))[0].starts_with("event_sources.grpc: its listener has no TLS"));
    parse(&grpc.replace("PLAIN", "true")).unwrap();
    let internal = "model: { name: m }\ninternal: { listen: '127.0.0.1:1', token: t, tls: { certificate: o, key: k } }\n\
                    event_sources: { grpc: { listen: '127.0.0.1:1' } }";
    assert!(problems(internal)[0].starts_with("event_sources.grpc: "));
}

#[test]
fn bounds_of_uploads_are_checked() {
    let found = problems(
        "model: { name: m }\nlimits: { max_uploads: 0, max_upload_bytes: 1000 }\ntimeouts: { body_timeout: 0s }",
    );
    let places: Vec<&str> = found.iter().filter_map(|problem| problem.split(':').next()).collect();
    assert_eq!(places, ["limits.max_upload_bytes", "limits.max_uploads", "timeouts.body_timeout"]);
}

#[test]
fn breakers_and_retries_that_make_no_sense_are_named() {
    let found = problems(
        "model: { name: m }
retry: { budget_ratio: -1, budget_reserve: .inf }
breakers:
  consecutive_failures: 0
  failure_rate: 1.5
  open_duration: 10m
  max_open_duration: 5m
  max_open_percent: 101
  slow_factor: 0.5
  cool_duration: 0s",
    );
    let places: Vec<&str> = found.iter().filter_map(|problem| problem.split(':').next()).collect();
    let breakers = ["consecutive_failures", "failure_rate", "slow_factor", "max_open_percent", "max_open_duration"];
    let breakers = breakers.map(|field| format!("breakers.{field}"));
    let rest = ["retry.budget_ratio", "retry.budget_reserve", "breakers.cool_duration"];
    assert_eq!(places, breakers.iter().map(String::as_str).chain(rest).collect::<Vec<_>>(), "{found:#?}");
    let off =
        Config::parse("model: { name: m }\nbreakers: { failure_rate: null, slow_factor: null }").unwrap().breakers;
    assert_eq!((off.failure_rate, off.slow_factor), (None, None));
}

#[test]
fn logs_and_traces_are_checked() {
    let parse = |text: &str| Config::parse(&format!("model: {{ name: m }}\n{text}")).unwrap();
    assert_eq!(parse("access_log: true").access_log, AccessLog::Log);
    assert_eq!(parse("access_log: a.jsonl").access_log, AccessLog::File("a.jsonl".into()));
    assert_eq!(parse("log: { format: json, level: 'info,pointsman=debug' }").log.format, LogFormat::Json);
    assert_eq!(parse("otlp: { endpoint: 'http://c:4317' }").otlp, Some(OtlpSettings::new("http://c:4317")));
    let found = problems("model: { name: m }\nlog: { level: 'a=?' }\notlp: { endpoint: c, sample_ratio: 2 }");
    let places: Vec<&str> = found.iter().filter_map(|problem| problem.split(':').next()).collect();
    assert_eq!(places, ["log.level", "otlp.endpoint", "otlp.sample_ratio"]);
}
