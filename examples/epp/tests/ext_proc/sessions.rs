//! Sessions and urgency: the token that tells a client its pod, and requests that a full pool refuses.
//!
//! llm-d: `test/integration/epp/session_affinity_test.go` (the answer has a token, and the request that brings it goes to its pod),
//! and its admission without flow control (requests of a priority below 0 are refused while the pool is full).

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

use crate::fixture::{BODY, Exchange, Fixture, builder, header_map, immediate_header, status};

/// Sessions by a token, as llm-d's configuration asks for them.
const SESSIONS: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: session-affinity-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: session-affinity-scorer}]}]
";

/// The header of an answer that tells a session's pod.
async fn token(exchange: &mut Exchange) -> String {
    let headers = Some(header_map(&[(":status", "200"), ("content-type", "application/json")]));
    exchange.send(Request::ResponseHeaders(HttpHeaders { headers, ..HttpHeaders::default() })).await;
    let Some(Response::ResponseHeaders(answer)) = exchange.next().await else { panic!("no headers") };
    let set = answer.response.unwrap().header_mutation.unwrap().set_headers;
    let header = set.into_iter().find_map(|option| option.header).unwrap();
    assert_eq!(header.key, "x-session-token");
    String::from_utf8(header.raw_value).unwrap()
}

#[tokio::test]
async fn a_session_goes_back_to_its_pod_by_the_token_of_its_first_answer() {
    let options = Options::parse_from([
        "epp",
        "--endpoint",
        "10.0.0.1:8000",
        "--endpoint",
        "10.0.0.2:8000",
        "--endpoint",
        "10.0.0.3:8000",
    ]);
    let translation = PickerConfig::read(SESSIONS).unwrap().translate().unwrap();
    let assembly = Assembly::start(&translation, &options).await.unwrap();
    let fixture = Fixture::of(Arc::clone(&assembly.picker)).await;
    fixture.until("the pods are there", |fixture| fixture.router().pods().len() == 3).await;
    let (mut first, picked) = fixture.picked(BODY).await;
    first.request_body().await;
    let token = token(&mut first).await;
    for turn in 0..20 {
        let mut next = fixture.open().await;
        next.post("/v1/completions", &[("x-session-token", &token)]).await;
        next.body(&BODY.replace("Once", &format!("Turn {turn}")), true).await;
        assert_eq!(next.picked().await.endpoints, picked.endpoints);
    }
    // One that names nobody is none.
    let mut stranger = fixture.open().await;
    stranger.post("/v1/completions", &[("x-session-token", "bm9ib2R5")]).await;
    stranger.body(BODY, true).await;
    stranger.picked().await;
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
