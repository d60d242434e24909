//! Destinations: subset hints, fallbacks and what served, sidecars' headers.

use std::sync::Arc;

use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use pointsman::core::{Load, Role};
use pointsman::exec::BreakerState;
use pointsman::{PodSpec, Router};
use pointsman_epp::{PickerOptions, SidecarHandoff};

use crate::fixture::{BODY, Fixture, builder, immediate_header, request_headers, status, subset};

fn naming(endpoints: usize) -> PickerOptions {
    let mut options = PickerOptions::default();
    options.endpoints = endpoints;
    options
}

/// llm-d: "subsetting: select best from subset", "partial match", "no pods match"; an empty list allows nothing.
#[tokio::test]
async fn only_what_the_proxy_allows_is_picked() {
    let fixture = Fixture::new(builder(4).profile("least_load"), PickerOptions::default()).await;
    for (n, waiting) in [(1, 0), (2, 3), (3, 1), (4, 0)] {
        let load = Load { waiting, ..Load::default() };
        fixture.router().report_load(fixture.pod(n), load, std::time::Instant::now());
    }
    for (allowed, expected) in [
        (&["10.0.0.2:8000", "10.0.0.3:8000"][..], Some("10.0.0.3:8000")),
        (&["10.0.0.2:8000", "10.9.9.9:8000"], Some("10.0.0.2:8000")),
        (&["10.9.9.9:8000"], None),
        (&[], None),
    ] {
        for in_headers in [true, false] {
            let mut exchange = fixture.open().await;
            let headers = Some(Request::RequestHeaders(request_headers("POST", "/v1/completions", &[], false)));
            let metadata_context = subset(allowed).filter(|_| in_headers);
            exchange
                .send_with(ProcessingRequest { request: headers, metadata_context, ..ProcessingRequest::default() })
                .await;
            let body = envoy_types::pb::envoy::service::ext_proc::v3::HttpBody {
                body: BODY.into(),
                end_of_stream: true,
                ..Default::default()
            };
            let metadata_context = subset(allowed).filter(|_| !in_headers);
            let request = Some(Request::RequestBody(body));
            exchange.send_with(ProcessingRequest { request, metadata_context, ..ProcessingRequest::default() }).await;
            match expected {
                Some(expected) => assert_eq!(exchange.picked().await.endpoints, expected),
                None => {
                    let immediate = exchange.refused().await;
                    assert_eq!(status(&immediate), 503);
                    assert_eq!(
                        immediate_header(&immediate, "x-llm-d-request-dropped-reason").unwrap(),
                        "rejected-no-endpoints"
                    );
                }
            }
        }
    }
    let mut bodiless = fixture.open().await;
    let request = Some(Request::RequestHeaders(request_headers("GET", "/v1/models", &[], true)));
    let metadata_context = subset(&["10.0.0.2:8000"]);
    bodiless.send_with(ProcessingRequest { request, metadata_context, ..ProcessingRequest::default() }).await;
    assert_eq!(bodiless.picked().await.endpoints, "10.0.0.2:8000");
}

#[tokio::test]
async fn fallbacks_are_named_behind_the_best_and_the_one_that_served_counts() {
    let fixture = Fixture::new(builder(3), naming(3)).await;
    for _ in 0..30 {
        let (mut exchange, picked) = fixture.picked(BODY).await;
        let named: Vec<&str> = picked.endpoints.split(',').collect();
        assert_eq!(named.len(), 3);
        let number = |endpoint: &str| endpoint[7..8].parse::<usize>().unwrap();
        assert_eq!(fixture.in_flight(number(named[0])), 1);
        exchange.request_body().await;
        exchange.answers_after(2, "200", "application/json", Some(named[1])).await;
        assert_eq!((fixture.in_flight(number(named[0])), fixture.in_flight(number(named[1]))), (0, 1));
        exchange.passes("{}", true).await;
        // Whoever is passed over again and again is out of order.
        let states = fixture.router().pods().into_iter().map(|pod| pod.breaker.state).collect::<Vec<_>>();
        if states.contains(&BreakerState::Open) {
            return;
        }
    }
    panic!("no breaker opened");
}

/// A proxy that does not know a pod yet uses another without trying it: that is no failure.
#[tokio::test]
async fn a_pod_that_was_not_tried_is_not_blamed() {
    let fixture = Fixture::new(builder(2), naming(2)).await;
    for _ in 0..30 {
        let (mut exchange, picked) = fixture.picked(BODY).await;
        exchange.request_body().await;
        let second = picked.endpoints.split(',').nth(1).unwrap().to_owned();
        exchange.answers_after(1, "200", "application/json", Some(&second)).await;
        exchange.passes("{}", true).await;
    }
    assert!(fixture.router().pods().iter().all(|pod| pod.breaker.state == BreakerState::Closed));
    assert_eq!(fixture.in_flight(1) + fixture.in_flight(2), 0);
}

#[tokio::test]
async fn the_first_endpoint_serves_unless_another_is_said_to() {
    let fixture = Fixture::new(builder(2), naming(2)).await;
    for _ in 0..20 {
        let (mut exchange, picked) = fixture.picked(BODY).await;
        exchange.request_body().await;
        let first = picked.endpoints.split(',').next().unwrap().to_owned();
        exchange.answers("200", "application/json", Some(&first)).await;
        exchange.passes("{}", true).await;
    }
    assert!(fixture.router().pods().iter().all(|pod| pod.breaker.state == BreakerState::Closed));
    assert_eq!(fixture.picker.metrics().answers(), (20, 0));
}

/// Prefill and decode: the request goes to the decode pod, whose sidecar reads where to prefill.
#[tokio::test]
async fn the_prefill_pod_is_in_the_header_that_sidecars_read() {
    let pods = [("p", Role::Prefill, "10.0.1.1:8000"), ("d", Role::Decode, "10.0.2.1:8000")];
    let pods = pods.map(|(name, role, address)| PodSpec::new(name, address).role(role));
    let router = Router::builder("model").any_adapter().pods(pods).tokens_given().profile("prefill_decode");
    let fixture = Fixture::new(router, PickerOptions::default()).await;
    let in_flight = |name: &str| {
        let pod = fixture.router().pod(name).unwrap();
        fixture.router().plugin_state().load.in_flight(pod.id()).requests
    };
    let mut exchange = fixture.open().await;
    let spoofed = [("x-prefiller-host-port", "6.6.6.6:666"), ("x-encoder-hosts-ports", "6.6.6.6:666")];
    exchange.post("/v1/completions", &spoofed).await;
    exchange.body(r#"{"model":"model","prompt":"p","stream":true}"#, true).await;
    let picked = exchange.picked().await;
    assert_eq!(picked.endpoints, "10.0.2.1:8000");
    assert_eq!(picked.header("x-prefiller-host-port"), Some("10.0.1.1:8000"));
    assert_eq!(picked.removed, ["x-encoder-hosts-ports"], "what a client says there is not passed on");
    exchange.request_body().await;
    assert_eq!((in_flight("p"), in_flight("d")), (1, 1));
    exchange.answers("200", "text/event-stream", None).await;
    exchange.passes("data: {}\n\n", false).await;
    assert_eq!((in_flight("p"), in_flight("d")), (0, 1), "with the first token the prompt is computed");
    exchange.passes("data: [DONE]\n\n", true).await;
    assert_eq!((in_flight("p"), in_flight("d")), (0, 0));
    // What generates nothing is not split.
    let mut exchange = fixture.open().await;
    exchange.post("/v1/embeddings", &spoofed).await;
    exchange.body(r#"{"model":"model","input":"p"}"#, true).await;
    let picked = exchange.picked().await;
    assert_eq!((picked.header("x-prefiller-host-port"), picked.removed.len()), (None, 2));
}

/// llm-d's data-parallel form: one port for all ranks of a pod, and the rank in a header.
#[tokio::test]
async fn a_rank_is_in_a_header_where_a_sidecar_listens_for_all() {
    let ranks = (0..3).map(|rank| PodSpec::new(format!("pod-1-rank-{rank}"), format!("10.0.0.1:{}", 8000 + rank)));
    let mut options = PickerOptions::default();
    options.data_parallel_port = Some(8000);
    let fixture = Fixture::new(Router::builder("model").any_adapter().pods(ranks), options).await;
    let mut seen = std::collections::BTreeSet::new();
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut exchange = fixture.open().await;
        exchange.post("/v1/completions", &[("x-data-parallel-host-port", "6.6.6.6:1")]).await;
        exchange.body(BODY, true).await;
        let picked = exchange.picked().await;
        assert_eq!(picked.endpoints, "10.0.0.1:8000");
        seen.insert(picked.header("x-data-parallel-host-port").unwrap().to_owned());
        exchange.request_body().await;
        // The address of the sidecar says nothing of the rank.
        exchange.answers("200", "text/event-stream", Some("10.0.0.1:8000")).await;
        held.push(exchange);
    }
    assert!(seen.iter().all(|rank| rank.starts_with("10.0.0.1:800")), "{seen:?}");
    let counted = fixture
        .router()
        .pods()
        .into_iter()
        .map(|pod| fixture.router().plugin_state().load.in_flight(pod.pod.id()).requests);
    assert_eq!(counted.sum::<u32>(), 3);
}

/// Conformance tests say in a header where a request has to go, by address or by host.
#[tokio::test]
async fn a_test_may_name_its_endpoints_where_that_is_switched_on() {
    let mut options = PickerOptions::default();
    options.test_selection = true;
    let fixture = Fixture::new(builder(3), options).await;
    for (wanted, endpoints) in [("10.0.0.2", "10.0.0.2:8000"), ("10.0.0.3:8000", "10.0.0.3:8000")] {
        let mut exchange = fixture.open().await;
        exchange.post("/v1/completions", &[("test-epp-endpoint-selection", wanted)]).await;
        exchange.body(BODY, true).await;
        assert_eq!(exchange.picked().await.endpoints, endpoints);
    }
    let mut nobody = fixture.open().await;
    nobody.post("/v1/completions", &[("test-epp-endpoint-selection", "10.9.9.9")]).await;
    nobody.body(BODY, true).await;
    assert_eq!(status(&nobody.refused().await), 503);
    // Nobody but a test may.
    let fixture = Fixture::plain().await;
    let mut exchange = fixture.open().await;
    exchange.post("/v1/completions", &[("test-epp-endpoint-selection", "10.9.9.9")]).await;
    exchange.body(BODY, true).await;
    exchange.picked().await;
}

/// A pod that is first for both steps is sent one plain request, and all of it counts there.
#[tokio::test]
async fn a_pod_that_prefills_for_itself_is_named_once() {
    let pod = PodSpec::new("b", "10.0.3.1:8000").role(Role::Both);
    let router = Router::builder("model").any_adapter().pod(pod).tokens_given().profile("prefill_decode");
    let fixture = Fixture::new(router, PickerOptions::default()).await;
    let (_exchange, picked) = fixture.picked(BODY).await;
    assert_eq!((picked.endpoints.as_str(), picked.header("x-prefiller-host-port")), ("10.0.3.1:8000", None));
    let pod = fixture.router().pod("b").unwrap();
    let load = fixture.router().plugin_state().load.in_flight(pod.id());
    assert_eq!((load.requests, load.uncached_tokens > 0), (1, true), "its prompt is computed there");
}

/// Encode, prefill, decode: each pod is in its header.
#[tokio::test]
async fn the_pods_that_encode_are_in_their_header() {
    const EPD: &str = "
plugins:
  - { name: encoders, type: role_filter, parameters: { role: encode } }
  - { name: decoders, type: role_filter, parameters: { role: decode } }
  - { type: max_score_picker, parameters: { most: 2 } }
profiles:
  - { name: e, filter: [{ plugin: encoders }], pick: max_score_picker }
  - { name: d, filter: [{ plugin: decoders }], pick: max_score_picker }
workflow:
  steps:
    - { name: encode, profile: e, role: encode }
    - { name: decode, profile: d, role: decode }
";
    let pods = [("e", Role::Encode, "10.0.1.1:8000"), ("d", Role::Decode, "10.0.2.1:8000")];
    let pods = pods.map(|(name, role, address)| PodSpec::new(name, address).role(role));
    let profile = |state: &pointsman::plugins::PluginState| {
        pointsman::document(serde_yaml_ng::Deserializer::from_str(EPD), state)
    };
    let fixture = Fixture::new(
        Router::builder("model")
            .any_adapter()
            .pods(pods)
            .tokens_given()
            .profile(profile)
            .handoff(Arc::new(SidecarHandoff::default())),
        PickerOptions::default(),
    )
    .await;
    let (_exchange, picked) = fixture.picked(BODY).await;
    assert_eq!(
        (picked.endpoints.as_str(), picked.header("x-encoder-hosts-ports")),
        ("10.0.2.1:8000", Some("10.0.1.1:8000"))
    );
    let encoder = fixture.router().pod("e").unwrap();
    assert_eq!(fixture.router().plugin_state().load.in_flight(encoder.id()).requests, 1);
}
