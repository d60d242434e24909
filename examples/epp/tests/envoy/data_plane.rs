//! The four cases that the conformance suite of the Gateway API Inference Extension has of a gateway with a picker, restated:
//! `gateway_following_epp_routing`, its data-parallel form, `gateway_destination_endpoint_served`, `epp_unavailable_fail_open`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use pointsman_epp::PickerOptions;

use crate::echo_pod::EchoPod;
use crate::envoy::{Cluster, Envoy, is_there};
use crate::picker_server::PickerServer;
use crate::scene::{BODY, Scene, client, get, http2_client, post, router};

const BOTH: [Cluster; 2] = [Cluster::OriginalDst, Cluster::OverrideHost];

fn naming(endpoints: usize) -> PickerOptions {
    let mut options = PickerOptions::default();
    (options.endpoints, options.test_selection) = (endpoints, true);
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn traffic_goes_where_the_picker_says_and_nowhere_else() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let scene = Scene::echo(3, cluster, naming(1)).await;
        let [a, b, c] = [0, 1, 2].map(|pod| scene.address(pod));
        for wanted in [vec![&c], vec![&a, &b], vec![&a, &b, &c]] {
            let list = wanted.iter().map(|pod| pod.as_str()).collect::<Vec<_>>().join(",");
            let mut served = BTreeSet::new();
            for _ in 0..30 {
                let answer = scene.ask(&[("test-epp-endpoint-selection", &list)]).await;
                served.insert(answer["served_by"].as_str().unwrap().to_owned());
                assert_eq!(answer["body"], BODY, "bodies pass as they are");
            }
            assert!(served.iter().all(|pod| wanted.contains(&pod)), "{list}: {served:?}");
        }
        scene.settles().await;
    }
}

/// Ranks of a pod are ports of one host: what a header pins by host goes to any of them, what it pins by port to that one.
#[tokio::test(flavor = "multi_thread")]
async fn ranks_are_followed_as_pods_are() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let scene = Scene::echo(3, cluster, naming(1)).await;
        let fixed = scene.address(1);
        let mut served = BTreeSet::new();
        for _ in 0..60 {
            let any = scene.ask(&[("test-epp-endpoint-selection", "127.0.0.1")]).await;
            served.insert(any["served_by"].as_str().unwrap().to_owned());
            assert_eq!(scene.ask(&[("test-epp-endpoint-selection", &fixed)]).await["served_by"], *fixed);
        }
        assert!(served.len() > 1, "{served:?}");
    }
}

/// llm-d's form of it: one port for all ranks, and the rank in a header that its sidecar reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_rank_in_a_header_comes_to_the_port_of_all() {
    if !is_there() {
        return;
    }
    let scene = Scene::echo(3, Cluster::OriginalDst, PickerOptions::default()).await;
    let mut options = PickerOptions::default();
    options.data_parallel_port = Some(scene.pods[2].address.port());
    let ranks = [scene.pods[0].address, scene.pods[1].address];
    let picker = PickerServer::start(router(&ranks).build().unwrap(), options, ([127, 0, 0, 1], 0).into()).await;
    let envoy = Envoy::start(Cluster::OriginalDst, picker.address, &[], 0).await;
    let (status, body) = post(&client(), envoy.clients, "/v1/completions", &[], BODY).await;
    assert_eq!(status, 200, "{body}");
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["served_by"], scene.address(2));
    let rank = answer["headers"]["x-data-parallel-host-port"].as_str().unwrap();
    assert!(ranks.map(|rank| rank.to_string()).contains(&rank.to_owned()), "{rank}");
}

/// The proxy says which endpoint served, and the picker counts by it: where the first one of its list does not take a request.
#[tokio::test(flavor = "multi_thread")]
async fn what_served_is_reported_back_and_counts() {
    if !is_there() {
        return;
    }
    let [gone, kept] = [EchoPod::start().await, EchoPod::start().await];
    let pods = [gone.address, kept.address];
    let router = router(&pods).build().unwrap();
    // Nobody notices that one of them left: the picker goes on naming it first, until its breaker opens.
    let picker = PickerServer::start_unchecked(router.clone(), naming(2), ([127, 0, 0, 1], 0).into()).await;
    let envoy = Envoy::start(Cluster::OverrideHost, picker.address, &pods, 0).await;
    drop(gone);
    let client = client();
    for turn in 0..20 {
        let body = BODY.replace("San Francisco", &format!("city {turn}"));
        let (status, answer) = post(&client, envoy.clients, "/v1/completions", &[], &body).await;
        assert_eq!(status, 200, "{answer}");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["served_by"], pods[1].to_string(), "the next one of the list takes it");
    }
    // The last one is looked at once its client has it.
    let counted = async {
        while picker.picker.metrics().answers() != (20, 0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), counted).await.expect("every client was served");
    let failing = |pod: SocketAddr| {
        let name = pod.to_string();
        router.pods().into_iter().find(|entry| entry.spec.name == name).unwrap().breaker.failing_since
    };
    assert!(failing(pods[0]).is_some(), "whoever was passed over is charged");
    assert!(failing(pods[1]).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_picker_any_pod_serves_where_the_proxy_fails_open() {
    if !is_there() {
        return;
    }
    let scene = Scene::echo(2, Cluster::OverrideHost, naming(1)).await;
    let target = scene.address(0);
    assert_eq!(scene.ask(&[("test-epp-endpoint-selection", &target)]).await["served_by"], *target);
    let Scene { pods, picker, envoy } = scene;
    picker.kill();
    // And whatever clients say of destinations still counts for nothing.
    let forged = [
        ("x-gateway-destination-endpoint", "127.0.0.1:1"),
        ("x-prefiller-host-port", "6.6.6.6:6"),
        ("x-kv-cache-source-host-port", "6.6.6.6:6"),
        ("x-data-parallel-rank", "6"),
    ];
    for _ in 0..10 {
        let (status, body) = post(&client(), envoy.clients, "/v1/completions", &forged, BODY).await;
        assert_eq!(status, 200, "{body}");
        let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert!(forged.iter().all(|(name, _)| answer["headers"].get(name).is_none()), "{answer}");
    }
    drop(pods);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_client_says_of_destinations_is_replaced() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let scene = Scene::echo(2, cluster, naming(1)).await;
        let answer = scene
            .ask(&[("x-gateway-destination-endpoint", "127.0.0.1:1"), ("x-prefiller-host-port", "6.6.6.6:6")])
            .await;
        let (served, headers) = (&answer["served_by"], &answer["headers"]);
        assert_eq!(&headers["x-gateway-destination-endpoint"], served);
        assert!(headers.get("x-prefiller-host-port").is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_either_protocol_bodies_of_any_length_and_none() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let scene = Scene::echo(2, cluster, naming(1)).await;
        let (status, models) = get(scene.envoy.clients, "/v1/models").await.unwrap();
        assert_eq!(status, 200, "{models}");
        assert!(models.contains("\"method\":\"GET\""));
        for client in [client(), http2_client()] {
            for length in [0, 1, 1_000, 100_000, 2_000_000] {
                let body = format!(r#"{{"model":"sim","prompt":"{}"}}"#, "x".repeat(length));
                let (status, answer) = post(&client, scene.envoy.clients, "/v1/completions", &[], &body).await;
                assert_eq!(status, 200, "{answer}");
                let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
                assert!(answer["body"] == *body, "{length} bytes came as something else");
            }
        }
        scene.settles().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_the_pickers_own_in_the_form_of_the_api() {
    if !is_there() {
        return;
    }
    let scene = Scene::echo(1, Cluster::OriginalDst, naming(1)).await;
    let (status, body) = post(&client(), scene.envoy.clients, "/v1/completions", &[], "{").await;
    assert_eq!(status, 400);
    let error: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(error["error"]["code"], "invalid_json");
    let request = Request::post(format!("http://{}/v1/completions", scene.envoy.clients));
    let request = request.header("test-epp-endpoint-selection", "10.9.9.9").body(Full::from(BODY)).unwrap();
    let response = client().request(request).await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(response.headers()["content-type"], "application/json");
    response.into_body().collect().await.unwrap();
}

/// The pod is asked for the model that a header names, and the client reads its own name, of whatever length either is.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_renamed_on_the_way_and_back() {
    if !is_there() {
        return;
    }
    for cluster in BOTH {
        let scene = Scene::echo(1, cluster, naming(1)).await;
        for name in ["s", "simulated-model-with-a-longer-name"] {
            let answer = scene.ask(&[("x-llm-d-model-name-rewrite", name)]).await;
            assert_eq!(answer["body"], BODY.replace("\"sim\"", &format!("\"{name}\"")), "{cluster:?}");
            assert_eq!(answer["model"], "sim", "{cluster:?}");
        }
        scene.settles().await;
    }
}
