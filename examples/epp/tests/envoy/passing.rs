//! What passes between clients, Envoy and the picker beside plain requests: sidecars' headers, trailers, hints of a gateway, bodies beyond
//! the bound, bodies that nobody reads, clients that leave.

use std::net::SocketAddr;
use std::time::Duration;

use pointsman::core::Role;
use pointsman::exec::BreakerState;
use pointsman::{PodSpec, Router};
use pointsman_epp::PickerOptions;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::echo_pod::EchoPod;
use crate::envoy::{Cluster, Envoy, is_there};
use crate::picker_server::PickerServer;
use crate::raw_pod::{RawPod, is_whole, read_in_time, send};
use crate::scene::{BODY, PATIENCE, Scene, client, post, router, settled};

const BOTH: [Cluster; 2] = [Cluster::OriginalDst, Cluster::OverrideHost];
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// The request goes to the decode pod, and its sidecar reads where to prefill.
#[tokio::test(flavor = "multi_thread")]
async fn the_prefill_pod_is_in_the_header_that_comes_to_the_decode_pod() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let [prefill, decode] = [EchoPod::start().await, EchoPod::start().await];
        let pods = [(Role::Prefill, prefill.address), (Role::Decode, decode.address)];
        let pods = pods.map(|(role, address)| PodSpec::new(address.to_string(), address.to_string()).role(role));
        let router = Router::builder("sim").any_adapter().pods(pods).tokens_given().profile("prefill_decode");
        let picker = PickerServer::start(router.build().unwrap(), PickerOptions::default(), ANY).await;
        let envoy = Envoy::start(cluster, picker.address, &[prefill.address, decode.address], 0).await;
        let forged = [("x-prefiller-host-port", "6.6.6.6:6")];
        let (status, body) = post(&client(), envoy.clients, "/v1/completions", &forged, BODY).await;
        assert_eq!(status, 200, "{cluster:?}: {body}");
        let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["served_by"], decode.address.to_string(), "{cluster:?}");
        assert_eq!(answer["headers"]["x-prefiller-host-port"], prefill.address.to_string(), "{cluster:?}");
        settled(&picker).await;
    }
}

/// A shipped configuration that passes trailers on: Envoy drops those of HTTP/1 unless told otherwise.
fn with_trailers(config: String) -> String {
    let listener = "codec_type: AUTO\n          http_protocol_options: {enable_trailers: true}\n";
    let cluster = "  - name: pods
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http_protocol_options: {enable_trailers: true}}
";
    config.replace("codec_type: AUTO\n", listener).replace("  - name: pods\n", cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_of_requests_and_of_answers_pass_and_end_them() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let begin = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\ne\r\ndata: [DONE]\n\n\r\n";
        let pod = RawPod::start(begin, "0\r\nx-answer-check: 2\r\n\r\n").await;
        pod.may_end.add_permits(1);
        let picker =
            PickerServer::start_unchecked(router(&[pod.address]).build().unwrap(), PickerOptions::default(), ANY);
        let picker = picker.await;
        let envoy = Envoy::start_with(cluster, picker.address, &[pod.address], 0, with_trailers).await;
        let request = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{BODY}\r\n0\r\nx-request-check: 1\r\n\r\n",
            BODY.len()
        );
        let mut stream = send(envoy.clients, &request).await;
        let answer = read_in_time(&mut stream, is_whole).await;
        assert!(
            answer.contains("data: [DONE]\n\n") && answer.ends_with("0\r\nx-answer-check: 2\r\n\r\n"),
            "{cluster:?}: {answer}"
        );
        let came = pod.requests.lock().clone();
        assert!(
            came[0].contains(BODY) && came[0].ends_with("0\r\nx-request-check: 1\r\n\r\n"),
            "{cluster:?}: {came:?}"
        );
        settled(&picker).await;
        // What it counted for is given back before it is counted itself.
        let ended = async {
            while picker.picker.metrics().answers() == (0, 0) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, ended).await.expect("it is counted");
        assert_eq!(picker.picker.metrics().answers(), (1, 0), "{cluster:?}: it came to its end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_in_mid_stream_gives_back_what_it_counted_for() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let begin = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n8\r\ndata: 1\n\r\n";
        let pod = RawPod::start(begin, "").await;
        let picker =
            PickerServer::start_unchecked(router(&[pod.address]).build().unwrap(), PickerOptions::default(), ANY);
        let picker = picker.await;
        let envoy = Envoy::start(cluster, picker.address, &[pod.address], 0).await;
        // More than a breaker takes of failures.
        for _ in 0..20 {
            let head = "POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
            let request = format!("{head}content-length: {}\r\n\r\n{BODY}", BODY.len());
            let mut stream = send(envoy.clients, &request).await;
            read_in_time(&mut stream, |answer| answer.contains("data: 1\n")).await;
            assert_eq!(picker.in_flight(), 1, "{cluster:?}");
            drop(stream);
            settled(&picker).await;
        }
        let router = picker.picker.router();
        assert_eq!(router.pods()[0].breaker.state, BreakerState::Closed, "{cluster:?}");
        assert!(router.pods()[0].breaker.failing_since.is_none(), "{cluster:?}: that is no fault of the pod's");
        assert!(picker.picker.metrics_page().contains("pointsman_epp_answers_cancelled_total 20\n"), "{cluster:?}");
    }
}

/// What a gateway says by Envoy's `set_metadata`: the endpoints that it allows.
#[tokio::test(flavor = "multi_thread")]
async fn a_hint_of_the_gateways_is_what_may_be_picked() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let scene = Scene::echo(3, cluster, PickerOptions::default()).await;
        let pods: Vec<SocketAddr> = scene.pods.iter().map(|pod| pod.address).collect();
        for (allowed, expected) in [(pods[1].to_string(), 200), ("10.9.9.9:1".to_owned(), 503)] {
            let hint = format!(
                "http_filters:
          - name: envoy.filters.http.set_metadata
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
              metadata:
              - metadata_namespace: envoy.lb.subset_hint
                value: {{x-gateway-destination-endpoint-subset: [\"{allowed}\"]}}
"
            );
            let change = |config: String| config.replace("http_filters:\n", &hint);
            let envoy = Envoy::start_with(cluster, scene.picker.address, &pods, 0, change).await;
            for turn in 0..20 {
                let body = BODY.replace("San Francisco", &format!("city {turn}"));
                let (status, answer) = post(&client(), envoy.clients, "/v1/completions", &[], &body).await;
                assert_eq!(status, expected, "{cluster:?}: {answer}");
                assert!(status == 503 || answer.contains(&format!("\"served_by\":\"{allowed}\"")), "{answer}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_the_bound_is_a_413_announced_or_not() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let mut options = PickerOptions::default();
        options.max_body_bytes = 1000;
        let scene = Scene::echo(1, cluster, options).await;
        let long = BODY.replace("San Francisco", &"x".repeat(2000));
        let (status, answer) = post(&client(), scene.envoy.clients, "/v1/completions", &[], &long).await;
        assert_eq!(status, 413, "{cluster:?}: {answer}");
        let error: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(error["error"]["code"], "body_too_large", "{cluster:?}");
        let head = "POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        let request = format!("{head}{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
        let mut unannounced = send(scene.envoy.clients, &request).await;
        let answer = read_in_time(&mut unannounced, |answer| answer.contains("body_too_large")).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{cluster:?}: {answer}");
        scene.ask(&[]).await;
    }
}

/// In full duplex Envoy sends on what it is given, before its client has sent all of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_nobody_reads_passes_while_it_comes_however_long_it_is() {
    if !is_there() {
        return;
    }
    for (reads_bodies, path) in [(false, "/v1/completions"), (true, "/v1/audio/transcriptions")] {
        let mut options = PickerOptions::default();
        (options.reads_bodies, options.max_body_bytes, options.max_buffered_bytes) = (reads_bodies, 1000, 1000);
        let scene = Scene::echo(1, Cluster::OriginalDst, options).await;
        let piece = "x".repeat(20_000);
        let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
        let mut stream = send(scene.envoy.clients, &format!("{head}{chunk}")).await;
        let decided = async {
            while scene.picker.in_flight() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, decided).await.expect("it is decided about before the rest comes");
        for _ in 0..99 {
            stream.write_all(chunk.as_bytes()).await.unwrap();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        let answer = read_in_time(&mut stream, is_whole).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {}", answer.chars().take(500).collect::<String>());
        assert!(answer.matches('x').count() >= 100 * piece.len(), "{path}: all of it came, and back");
        scene.settles().await;
    }
}
