//! Sessions and urgency: the token that tells a client its pod, and requests that a full pool refuses.
//!
//! llm-d: `test/integration/epp/session_affinity_test.go` (the answer has a token, and the request that brings it goes to its pod; with
//! prefill and decode one for each; agents' headers), and its admission without flow control (requests of a priority below 0 are refused while the pool is full).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use envoy_types::pb::envoy::service::ext_proc::v3::HttpHeaders;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use pointsman::core::Load;
use pointsman_epp::picker_config::{PickerConfig, Saturation};
use pointsman_epp::{Assembly, Objectives, Options, PickerOptions};

use crate::fixture::{BODY, Exchange, Fixture, Picked, builder, header_map, immediate_header, status};

/// Sessions by a token, as llm-d's configuration asks for them.
const SESSIONS: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: session-affinity-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: session-affinity-scorer}]}]
";

/// Three pods, as a file has them.
const PODS: &str = "{name: a, address: 10.0.0.1, port: '8000'}, {name: b, address: 10.0.0.2, port: '8000'}, \
    {name: c, address: 10.0.0.3, port: '8000'}";

/// Two that prefill and two that decode.
const SPLIT_PODS: &str = "{name: p1, address: 10.0.1.1, port: '8000', labels: {llm-d.ai/role: prefill}}, \
    {name: p2, address: 10.0.1.2, port: '8000', labels: {llm-d.ai/role: prefill}}, \
    {name: d1, address: 10.0.2.1, port: '8000', labels: {llm-d.ai/role: decode}}, \
    {name: d2, address: 10.0.2.2, port: '8000', labels: {llm-d.ai/role: decode}}";

/// A session's token for each step, with these parameters of the handler.
fn split(handler: &str) -> String {
    format!(
        "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {{type: openai-parser}}
- {{type: always-disagg-pd-decider}}
- {{type: disagg-profile-handler, parameters: {handler}}}
- {{type: prefill-filter}}
- {{type: decode-filter}}
- {{type: queue-scorer}}
- {{type: max-score-picker}}
- {{type: session-affinity-filter, name: session-affinity-decode}}
- type: session-affinity-filter
  name: session-affinity-prefill
  parameters: {{profileName: prefill, encodedEndpointHeaderConfig: {{header: x-session-token-prefill}}}}
requestHandler: {{parsers: [{{pluginRef: openai-parser}}]}}
schedulingProfiles:
- name: prefill
  plugins: [{{pluginRef: prefill-filter}}, {{pluginRef: queue-scorer}}, {{pluginRef: max-score-picker}}, {{pluginRef: session-affinity-prefill}}]
- name: decode
  plugins: [{{pluginRef: decode-filter}}, {{pluginRef: queue-scorer}}, {{pluginRef: max-score-picker}}, {{pluginRef: session-affinity-decode}}]
"
    )
}

/// Sessions by a header, or else by what names an agent's.
const AGENTS: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: agent-identity}
- type: session-affinity-KIND
  parameters: {strategy: session_id, sessionIdConfig: {sources: [{header: x-session-id}, {attribute: agent-identity}]}}
schedulingProfiles: [{name: default, plugins: [{pluginRef: session-affinity-KIND}]}]
";

/// What an answer's headers tell of a session's pods.
async fn tokens(exchange: &mut Exchange) -> HashMap<String, String> {
    let headers = Some(header_map(&[(":status", "200"), ("content-type", "application/json")]));
    exchange.send(Request::ResponseHeaders(HttpHeaders { headers, ..HttpHeaders::default() })).await;
    let Some(Response::ResponseHeaders(answer)) = exchange.next().await else { panic!("no headers") };
    let set = answer.response.unwrap().header_mutation.unwrap().set_headers;
    let headers = set.into_iter().filter_map(|option| option.header);
    headers.map(|header| (header.key, String::from_utf8(header.raw_value).unwrap())).collect()
}

/// A picker by a configuration, with pods by a file of them.
async fn configured(config: &str, pods: &str) -> (Assembly, Fixture) {
    let folder = pointsman_test_support::programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), "sessions");
    let file = folder.join("endpoints.yaml");
    std::fs::write(&file, format!("endpoints: [{pods}]\n")).unwrap();
    let options = Options::parse_from(["epp", "--endpoints-file", file.to_str().unwrap()]);
    let translation = PickerConfig::read(config).unwrap().translate().unwrap();
    let assembly = Assembly::start(&translation, &options).await.unwrap();
    let fixture = Fixture::of(Arc::clone(&assembly.picker)).await;
    let count = pods.matches("name:").count();
    fixture.until("the pods are there", |fixture| fixture.router().pods().len() == count).await;
    (assembly, fixture)
}

/// Where a request goes that brings these headers, by prefill (if it does) and decode, and what its answer tells.
async fn turn(fixture: &Fixture, headers: &[(&str, &str)], turn: usize) -> (Picked, HashMap<String, String>) {
    let mut exchange = fixture.open().await;
    exchange.post("/v1/completions", headers).await;
    exchange.body(&BODY.replace("Once", &format!("Turn {turn}")), true).await;
    let picked = exchange.picked().await;
    exchange.request_body().await;
    let tokens = tokens(&mut exchange).await;
    exchange.passes("{}", true).await;
    (picked, tokens)
}

#[tokio::test]
async fn a_session_goes_back_to_its_pod_by_the_token_of_its_first_answer() {
    let (_assembly, fixture) = configured(SESSIONS, PODS).await;
    let (picked, tokens) = turn(&fixture, &[], 0).await;
    assert_eq!(tokens.len(), 1);
    for next in 1..20 {
        let (again, told) = turn(&fixture, &[("x-session-token", &tokens["x-session-token"])], next).await;
        assert_eq!((again.endpoints, told), (picked.endpoints.clone(), tokens.clone()));
    }
    // One that names nobody is none.
    turn(&fixture, &[("x-session-token", "bm9ib2R5")], 0).await;
}

/// llm-d: `TestSessionAffinityFilter_PDDisaggregated`.
#[tokio::test]
async fn with_prefill_and_decode_each_step_has_a_token_of_its_own() {
    let decider = "{deciders: {prefill: always-disagg-pd-decider}}";
    let (_assembly, fixture) = configured(&split(decider), SPLIT_PODS).await;
    let (picked, tokens) = turn(&fixture, &[], 0).await;
    let prefiller = picked.header("x-prefiller-host-port").expect("every request is split").to_owned();
    assert!(picked.endpoints.starts_with("10.0.2.") && prefiller.starts_with("10.0.1."), "{picked:?}");
    let (decode, prefill) = (&tokens["x-session-token"], &tokens["x-session-token-prefill"]);
    assert_ne!(decode, prefill);
    for next in 1..20 {
        let headers = [("x-session-token", decode.as_str()), ("x-session-token-prefill", prefill)];
        let (again, told) = turn(&fixture, &headers, next).await;
        assert_eq!((again.header("x-prefiller-host-port"), &again.endpoints), (Some(&*prefiller), &picked.endpoints));
        assert_eq!(told, tokens);
    }
}

/// llm-d: `TestSessionAffinityFilter_DecodeOnly`.
#[tokio::test]
async fn a_step_that_is_not_taken_has_no_token() {
    let (_assembly, fixture) = configured(&split("{}"), SPLIT_PODS).await;
    let (picked, tokens) = turn(&fixture, &[], 0).await;
    assert_eq!(picked.header("x-prefiller-host-port"), None);
    assert_eq!(tokens.keys().collect::<Vec<_>>(), ["x-session-token"]);
}

/// llm-d: `TestSessionAffinityFilter_SessionIDHeaderStrategy` and that of the scorer.
#[tokio::test]
async fn a_session_is_known_by_its_header_or_by_its_agents() {
    for kind in ["filter", "scorer"] {
        let (_assembly, fixture) = configured(&AGENTS.replace("KIND", kind), PODS).await;
        let go = async |headers: &[(&str, &str)], at: usize| {
            let mut exchange = fixture.open().await;
            exchange.post("/v1/completions", headers).await;
            exchange.body(&BODY.replace("Once", &format!("Turn {at}")), true).await;
            exchange.picked().await.endpoints
        };
        let (session, agent) = (("x-session-id", "A"), ("x-claude-code-session-id", "B"));
        let mut places = Vec::new();
        for headers in [&[session][..], &[agent]] {
            let first = go(headers, 0).await;
            for at in 1..10 {
                assert_eq!(go(headers, at).await, first, "{kind}: {headers:?}");
            }
            places.push(first);
        }
        for at in 0..10 {
            assert_eq!(go(&[agent, session], at).await, places[0], "{kind}: the first source goes before the second");
        }
    }
}

#[tokio::test]
async fn while_the_pool_is_full_requests_below_priority_0_are_refused_and_others_go() {
    let names = HashMap::from([("sheddable".to_owned(), -1), ("urgent".to_owned(), 10)]);
    let objectives = Objectives::default();
    objectives.store(Arc::new(names));
    let mut options = PickerOptions::default();
    options.saturation = Saturation::Utilization { waiting: 5, kv_used: 0.8, stale_after: Duration::from_secs(600) };
    let fixture = Fixture::with_objectives(builder(2), options, objectives).await;
    let ask = async |objective: &str| {
        let exchange = fixture.open().await;
        exchange.post("/v1/completions", &[("x-llm-d-inference-objective", objective)]).await;
        exchange.body(BODY, true).await;
        exchange
    };
    // Who is idle takes all; whose engine is silent counts as full.
    let report = |waiting| {
        for n in [1, 2] {
            fixture.router().report_load(fixture.pod(n), Load { waiting, ..Load::default() }, Instant::now());
        }
    };
    report(0);
    ask("sheddable").await.picked().await;
    report(50);
    let refused = ask("sheddable").await.refused().await;
    assert_eq!(status(&refused), 429);
    assert_eq!(immediate_header(&refused, "x-llm-d-request-dropped-reason").unwrap(), "rejected-saturated");
    for objective in ["urgent", "unknown"] {
        ask(objective).await.picked().await;
    }
}
