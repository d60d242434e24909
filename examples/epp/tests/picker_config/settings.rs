//! What of a configuration is no plugin: parsers, caches, tokenizers, sources, sessions and flow control.

use std::time::Duration;

use pointsman_epp::picker_config::{
    Fairness, Parser, PickerConfig, PickerSettings, PrefixCache, Profiles, Saturation, Tokenizer, Translation,
};
use routing_plugins::flow::FlowDocument;

use crate::decide::{build, state};
use crate::samples::sample;

fn translated(text: &str) -> Translation {
    PickerConfig::read(text).unwrap_or_else(|error| panic!("{error}")).translate().unwrap()
}

fn settings(name: &str) -> PickerSettings {
    translated(&sample(name)).settings
}

fn with(rest: &str) -> String {
    format!("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n{rest}")
}

#[test]
fn bodies_are_parsed_as_configured() {
    let default = vec![Parser::OpenAi, Parser::Anthropic, Parser::VllmHttp, Parser::Passthrough];
    assert_eq!(settings("perf_random_only_default_parsers").parsers, default);
    assert_eq!(settings("perf_random_passthrough_parser").parsers, [Parser::Passthrough]);
    assert_eq!(
        translated(&with("plugins: []\nparser: { pluginRef: openai-parser }")).settings.parsers,
        [Parser::OpenAi]
    );
}

#[test]
fn profiles_are_steps() {
    assert_eq!(settings("deploy_dp_epp").profiles, Profiles::DataParallel { primary_port: 8000 });
    let (decode, prefill, encode) = ("decode".to_owned(), Some("prefill".to_owned()), Some("encode".to_owned()));
    assert_eq!(
        settings("deploy_sim_e_p_d_epp").profiles,
        Profiles::Disaggregated { decode: decode.clone(), prefill, encode, primary_port: None }
    );
    let alone = Profiles::Disaggregated { decode, prefill: None, encode: None, primary_port: None };
    assert_eq!(settings("e2e_decode_only").profiles, alone);
}

#[test]
fn profiles_by_header_are_workflows() {
    let translation = translated(&with(
        "
plugins:
- type: header-profile-handler
- type: prefill-filter
- type: decode-filter
schedulingProfiles:
- { name: prefill, plugins: [{ pluginRef: prefill-filter }] }
- { name: decode, plugins: [{ pluginRef: decode-filter }] }
",
    ));
    let Profiles::ByHeader { header, default, workflows } = &translation.settings.profiles else { panic!("by header") };
    assert_eq!((header.as_str(), default.as_str()), ("epp-profile", "decode"));
    assert_eq!(workflows.keys().collect::<Vec<_>>(), ["decode", "prefill"]);
    assert_eq!(workflows["decode"], translation.workflow);
    for document in workflows.values() {
        assert_eq!(build(document, &state(&translation)).unwrap().warnings(), &[]);
    }
}

#[test]
fn caches_are_guessed_or_reported() {
    let approximate = |blocks_per_pod| PrefixCache::Approximate { block_tokens: 64, blocks_per_pod };
    assert_eq!(settings("chart_default").prefix_cache, approximate(31_250));
    assert_eq!(settings("e2e_pd").prefix_cache, approximate(256));
    assert_eq!(settings("perf_random_passthrough_parser").prefix_cache, PrefixCache::None);
    let PrefixCache::Precise { block_tokens, hash_seed, events } =
        settings("deploy_sim_epp_tokenizer_vllm_http").prefix_cache
    else {
        panic!("precise")
    };
    assert_eq!((block_tokens, hash_seed.as_str()), (16, "42"));
    assert_eq!(events.endpoint.as_deref(), Some("tcp://0.0.0.0:5557"));
    assert_eq!((events.topic_filter.as_str(), events.socket_port, events.replay_port), ("kv@", Some(5557), None));
}

#[test]
fn prompts_are_rendered_or_estimated() {
    assert_eq!(settings("chart_default").tokenizer, Tokenizer::Estimate);
    let (url, model, timeout) =
        ("http://localhost:8000".to_owned(), "Qwen/Qwen3-8B".to_owned(), Duration::from_secs(5));
    assert_eq!(settings("perf_precise_prefix").tokenizer, Tokenizer::Vllm { url, model, timeout });
}

#[test]
fn pods_and_their_figures_come_from_where_it_is_said() {
    let settings = translated(&with(
        "
plugins:
- type: file-discovery
  parameters: { path: /etc/epp/endpoints.yaml, watchFile: true }
- type: metrics-data-source
  parameters: { scheme: https, path: /m, port: 9000, interval: 200ms, insecureSkipVerify: false }
- type: core-metrics-extractor
  parameters:
    defaultEngine: sglang
    engineConfigs:
    - name: vllm
      queuedRequestsSpec: q
      customMetrics: [{ attributeKey: depth, metricSpec: 'my:depth' }]
- type: endpoint-attribute-scorer
  parameters: { attributeKey: depth, algorithm: { type: linear_lower_is_better } }
- type: max-score-picker
  parameters: { maxNumOfEndpoints: 3 }
dataLayer:
  sources: [{ pluginRef: metrics-data-source, extractors: [{ pluginRef: core-metrics-extractor }] }]
  discovery: { pluginRef: file-discovery }
",
    ))
    .settings;
    let discovery = settings.discovery.unwrap();
    assert_eq!((discovery.path.to_str(), discovery.watch), (Some("/etc/epp/endpoints.yaml"), true));
    let metrics = settings.metrics;
    assert_eq!((metrics.scheme.as_str(), metrics.path.as_str(), metrics.port), ("https", "/m", Some(9000)));
    assert_eq!((metrics.interval, metrics.insecure_skip_verify), (Some(Duration::from_millis(200)), false));
    assert_eq!((metrics.default_engine.as_str(), metrics.attributes["depth"].as_str()), ("sglang", "my:depth"));
    assert_eq!(settings.fallbacks, 3);
}

#[test]
fn sessions_are_kept_by_the_client_or_here() {
    let tokens = settings("wellknown_payload_agnostic").session_tokens;
    let tokens: Vec<_> = tokens.iter().map(|token| (token.header.as_str(), token.step.as_deref())).collect();
    assert_eq!(tokens, [("x-session-token", None)]);
    let translation = translated(&with(
        "
plugins:
- type: session-id-producer
  parameters: { cookieName: sid }
- type: session-affinity-filter
  parameters:
    strategy: session_id
    sessionIdConfig:
      sources: [{ attribute: SessionIDDataKey, producer: session-id-producer }, { header: X-Agent }]
      evictionTtlSeconds: 60
",
    ));
    assert_eq!(translation.settings.session_tokens, []);
    assert_eq!(translation.settings.session_time_to_live, Some(Duration::from_secs(60)));
    assert!(translation.workflow.contains("from: [{ cookie: sid }, { header: x-agent }]"), "{}", translation.workflow);
    assert_eq!(build(&translation.workflow, &state(&translation)).unwrap().warnings(), &[]);
}

/// llm-d: `TestSessionAffinityFilter_SessionIDHeaderStrategy`, whose sources these are.
#[test]
fn agents_are_known_by_their_headers() {
    let affinity = "
- type: session-affinity-filter
  parameters:
    strategy: session_id
    sessionIdConfig: { sources: [{ header: x-session-id }, { attribute: agent-identity }] }
";
    let agents = "\nplugins:\n- type: agent-identity\n  parameters: { additionalSessionHeaders: [X-Team] }";
    let translation = translated(&with(&format!("{agents}{affinity}")));
    let agents = ["x-team", "x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"];
    assert_eq!(translation.settings.agent_headers, agents);
    let sources = ["x-session-id"].iter().chain(&agents).map(|name| format!("{{ header: {name} }}"));
    let sources = format!("from: [{}]", sources.collect::<Vec<_>>().join(", "));
    let document = translation.workflow.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(document.contains(&sources), "{document}");
    // Without the plugin nobody writes it.
    let error = PickerConfig::read(&with(&format!("\nplugins:{affinity}"))).unwrap_err();
    assert!(error.to_string().contains("nothing here writes `agent-identity`"), "{error}");
}

#[test]
fn saturation_counts_without_the_gate() {
    let default = Saturation::Utilization { waiting: 5, kv_used: 0.8, stale_after: Duration::from_millis(200) };
    assert_eq!(settings("chart_default").saturation, default);
    let waiting = 999_999_999;
    let probabilistic = Saturation::Utilization { waiting, kv_used: 1.0, stale_after: Duration::from_millis(200) };
    assert_eq!(settings("deploy_probabilistic_admitter_epp").saturation, probabilistic);
    let concurrency = Saturation::Concurrency { requests: Some(132), tokens: None };
    assert_eq!(settings("wellknown_flow_control").saturation, concurrency);
    let off = translated(&with("plugins: []\nfeatureGates: [flowControl=false]\nflowControl: { maxRequests: 5 }"));
    assert_eq!(off.flow_control, None);
    assert!(off.warnings[0].contains("feature gate is off"));
}

#[test]
fn bands_have_their_limits_orders_and_ceilings() {
    let translation = translated(&with(
        "
featureGates: [flowControl]
plugins:
- type: edf-ordering-policy
- type: round-robin-fairness-policy
- type: priority-holdback-policy
  parameters: { minCeiling: 0.5 }
flowControl:
  maxRequests: 1k
  defaultRequestTTL: 0s
  usageLimitPolicyPluginRef: priority-holdback-policy
  defaultNegativePriorityBand: { maxRequests: 7 }
  priorityBands:
  - { priority: 10, orderingPolicyRef: edf-ordering-policy, fairnessPolicyRef: round-robin-fairness-policy }
",
    ));
    assert_eq!(translation.settings.fairness, Fairness::ByFlow);
    let document: FlowDocument = serde_yaml_ng::from_str(&translation.flow_control.clone().unwrap()).unwrap();
    let config = document.config();
    let bands: Vec<_> = config.bands.iter().map(|band| (band.priority, band.limits.requests, band.ceiling)).collect();
    assert_eq!(bands, [(10, 5000, 1.0), (0, 5000, 0.75), (i32::MIN, 7, 0.5)]);
    assert_eq!(config.limits.requests, 1000);
    assert_eq!(config.bands[0].time_to_live, Duration::from_secs(86_400), "no limit is the longest there is");
    document.build(&state(&translation)).unwrap();
}

/// llm-d makes a profile of all that can stand in one.
#[test]
fn without_profiles_there_is_one_of_everything() {
    let translation = translated(&with(
        "
plugins:
- type: decode-filter
- type: queue-scorer
- type: utilization-detector
- type: random-picker
- { name: best, type: weighted-random-picker }
schedulingProfiles:
- { name: default, plugins: [{ pluginRef: queue-scorer }] }
",
    ));
    assert!(translation.workflow.contains("pick: random-picker"), "{}", translation.workflow);
    assert!(translation.warnings[0].contains("a profile without a picker takes `random-picker`"));
    let translation =
        translated(&with("plugins:\n- type: decode-filter\n- type: queue-scorer\n- type: utilization-detector\n"));
    let (workflow, warnings) = (&translation.workflow, &translation.warnings);
    assert!(workflow.find("plugin: decode-filter").unwrap() < workflow.find("plugin: utilization-detector").unwrap());
    assert!(workflow.contains("{ plugin: queue-scorer, weight: 1 }"));
    assert!(workflow.contains("stale_after_ms: 200"));
    assert!(warnings[0].contains("llm-d's order is by chance"));
    assert_eq!(build(workflow, &state(&translation)).unwrap().warnings(), &[]);
}

/// A scorer that is named twice scores twice, and one of weight 0 not at all.
#[test]
fn plugins_are_used_as_often_as_they_are_named() {
    let translation = translated(&with(
        "
plugins:
- type: queue-scorer
- type: decode-filter
- type: load-aware-scorer
schedulingProfiles:
- name: default
  plugins:
  - { pluginRef: queue-scorer, weight: 2 }
  - { pluginRef: queue-scorer }
  - { pluginRef: decode-filter, weight: -3 }
  - { pluginRef: decode-filter }
  - { pluginRef: load-aware-scorer, weight: 0 }
",
    ));
    assert!(!translation.workflow.contains("load-aware-scorer"));
    let workflow = build(&translation.workflow, &state(&translation)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(workflow.warnings(), &[]);
}
