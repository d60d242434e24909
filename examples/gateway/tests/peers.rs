//! Two gateways of one fleet that tell each other over NATS what they have in flight and decide.
//!
//! Starts a `nats-server` of its own. Without one it is skipped, unless `POINTSMAN_REAL_PARTS=1`.
#![cfg(feature = "nats")]
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

#[path = "support/reporting_pod.rs"]
mod reporting_pod;
#[path = "support/nats_server.rs"]
mod server;

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::TokioExecutor;
use pointsman_engine_sim::{PodConfig, SimPod};
use pointsman_gateway::{Config, Gateway};
use reporting_pod::{Client, body, eventually};
use server::Server;

/// Pods that announce nothing: what a gateway knows of prompts it was told by itself, or by its peer.
async fn silent_pods() -> Vec<SimPod> {
    let mut pods = Vec::new();
    for name in ["pod-0", "pod.1", "pod-2"] {
        pods.push(SimPod::start(PodConfig::new(name, "sim"), vec![]).await.unwrap());
    }
    pods
}

async fn gateway(pods: &[SimPod], server: &Server) -> Gateway {
    let pods: Vec<String> =
        pods.iter().map(|pod| format!("{{ name: {}, url: 'http://{}' }}", pod.name(), pod.address())).collect();
    let url = server.config().url;
    let yaml = format!(
        "listen: 127.0.0.1:0\nmodel: {{ name: sim }}\npods: [{}]\n\
         event_sources: {{ nats: {{ url: '{url}', stream: KV, subject_prefix: kv }} }}\npeers: {{ interval: 20ms }}\n",
        pods.join(", ")
    );
    Gateway::start(Config::parse(&yaml).unwrap()).await.unwrap()
}

async fn get(gateway: &Gateway, path: &str) -> String {
    let client: HyperClient<_, Empty<bytes::Bytes>> = HyperClient::builder(TokioExecutor::new()).build_http();
    let url = format!("http://{}{path}", gateway.address()).parse().unwrap();
    let body = client.get(url).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

async fn state(gateway: &Gateway) -> serde_json::Value {
    serde_json::from_str(&get(gateway, "/state").await).unwrap()
}

/// Asks again and again until it is so.
async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    for _ in 0..1_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_know_what_each_other_sent_and_whatever_comes_on_the_subject() {
    let Some(server) = Server::start() else { return };
    let pods = silent_pods().await;
    let (one, other) = (gateway(&pods, &server).await, gateway(&pods, &server).await);
    for gateway in [&one, &other] {
        until("each knows the other", async || state(gateway).await["models"][0]["peers"] == 1).await;
    }

    // Only the first is asked. What the second knows of the prompt, the first told it.
    let client = Client::new(one.address());
    client.ask(&body(1, 400)).await;
    let speculated = |gateway: &Gateway| {
        let index = gateway.index();
        let handles = pods.iter().filter_map(|pod| index.pod(pod.name()));
        handles.map(|pod| index.pod_stats(pod).unwrap().speculated).collect::<Vec<_>>()
    };
    client.ask(&body(2, 400)).await;
    eventually("the second knows where the prompts went", || {
        let (told, own) = (speculated(&other), speculated(&one));
        own.iter().sum::<usize>() > 0 && told == own
    })
    .await;

    let nats = async_nats::connect(&server.config().url).await.unwrap();
    for message in [&b""[..], b"pmp\x01", &[0xFF; 900], b"{\"hello\": 1}"] {
        nats.publish("pointsman.peers", bytes::Bytes::copy_from_slice(message)).await.unwrap();
    }
    nats.flush().await.unwrap();
    for gateway in [&one, &other] {
        let line = "peer_messages_ignored_total{reason=\"malformed\"} 4";
        until("they are counted", async || get(gateway, "/metrics").await.contains(line)).await;
        let metrics = get(gateway, "/metrics").await;
        assert!(metrics.contains("pointsman_gateway_peers{model=\"sim\"} 1"), "{metrics}");
        assert!(!metrics.contains("peer_messages_total{direction=\"received\"} 0"), "{metrics}");
        Client::new(gateway.address()).ask(&body(3, 100)).await;
    }

    drop(one);
    until("a silent peer is forgotten", async || state(&other).await["models"][0]["peers"] == 0).await;
    Client::new(other.address()).ask(&body(4, 100)).await;
}
