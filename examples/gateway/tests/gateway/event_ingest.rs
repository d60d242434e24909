//! Event ingestion through a real gateway: authentication, and what a rejected message changes.

use std::time::Duration;

use kv_index::{BlockHash, BlockSize, EventSemantics, Parent, Tier};
use pointsman_gateway::Gateway;
use pointsman_gateway::config::{Events, ZmqEndpoints};
use pointsman_reporter::source_status::SourceState;
use pointsman_reporter::wire::{Change, EventBatch, HashScheme};

use super::fixture::{Client, ClientResponse, FakePod, Script, WHOLE, config, until};

const TOKEN: &str = "a token";
const JSON: (&str, &str) = ("content-type", "application/json");
const BEARER: (&str, &str) = ("authorization", "Bearer a token");

pub(crate) fn stored(sequence: u64, blocks: std::ops::Range<u64>) -> String {
    let blocks = blocks.map(BlockHash::new).collect();
    let changes = vec![Change::Stored { parent: Parent::Root, blocks, tier: Tier::Gpu }];
    let source = EventSemantics::Copies;
    let hashing = HashScheme::native("sim", BlockSize::new(16).unwrap());
    let report = EventBatch { pod: "a".into(), incarnation: 1, sequence, hashing, source, changes };
    serde_json::to_string(&report).unwrap()
}

pub(crate) async fn report(client: &Client, body: &str) -> ClientResponse {
    client.post("/internal/events", body, &[JSON, BEARER]).await
}

/// A gateway whose one pod is reported on.
async fn reported(pod: &FakePod) -> (Gateway, Client) {
    let mut config = config(&[pod]);
    config.internal.token = Some(TOKEN.to_owned());
    config.pods[0].events = Events::Pushed;
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    (gateway, client)
}

fn digest(gateway: &Gateway) -> kv_index::Digest {
    gateway.index().digest(gateway.index().pod("a").unwrap()).unwrap()
}

#[tokio::test]
async fn without_a_token_there_is_no_door_for_reports() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = super::fixture::gateway(&[&pod]).await;
    for path in ["/internal/events", "/internal/sync"] {
        assert_eq!(client.post(path, &stored(0, 1..3), &[JSON, BEARER]).await.status, 404, "{path}");
    }
    assert_eq!(gateway.state().pods[0].blocks, 0);
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_report_is_said_and_changes_nothing() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = reported(&pod).await;
    assert_eq!(report(&client, &stored(0, 1..3)).await.status, 200);
    let before = digest(&gateway);
    let next = stored(1, 3..5);
    for headers in [&[JSON][..], &[JSON, ("authorization", "Bearer another")], &[JSON, ("authorization", TOKEN)]] {
        for path in ["/internal/events", "/internal/sync"] {
            let answer = client.post(path, &next, headers).await;
            assert_eq!(answer.status, 401, "{path} {headers:?}");
            assert!(answer.json()["error"].as_str().unwrap().contains("token"));
        }
    }
    let large = format!("{next}{}", " ".repeat(3 << 20));
    let many = stored(1, 3..1_000_000);
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("{\"pod\":\"a\"}", 400),
        (&*next.replace("\"a\"", "\"unknown\""), 404),
        (&*next.replace("\"block_size\":16", "\"block_size\":32"), 422),
        (&*large, 413),
        (&*many, 413),
    ] {
        let answer = report(&client, body).await;
        assert_eq!(answer.status, status, "{}", body.chars().take(100).collect::<String>());
        assert!(!answer.json()["error"].as_str().unwrap().is_empty());
    }
    let untyped = client.post("/internal/events", &next, &[BEARER]).await;
    assert_eq!(untyped.status, 415);
    assert_eq!((digest(&gateway), gateway.state().pods[0].blocks), (before, 2), "nothing has changed");
    // The number was not used up either.
    assert_eq!(report(&client, &next).await.json()["verdict"], "applied");
    assert_eq!(gateway.state().pods[0].blocks, 4);
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn how_a_pods_events_come_in_is_shown_and_counted() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = reported(&pod).await;
    assert_eq!(gateway.state().pods[0].events.state, SourceState::Connecting);
    report(&client, &stored(0, 1..3)).await;
    let events = &gateway.state().pods[0].events;
    assert_eq!((events.source, events.state, events.batches), ("pushed", SourceState::Live, 1));
    assert_eq!(gateway.state().pods[0].parent_conflicts, 0);
    // The second block of that, as a first one.
    report(&client, &stored(1, 2..3)).await;
    assert_eq!(gateway.state().pods[0].parent_conflicts, 1);
    assert_eq!(report(&client, &stored(3, 3..5)).await.json()["verdict"], "gap");
    assert_eq!(
        (gateway.state().pods[0].events.state, gateway.state().pods[0].events.gaps),
        (SourceState::Replaying, 1)
    );
    let page = client.get("/metrics").await;
    for line in [
        "pod_event_source_live{pod=\"a\"} 0",
        "pod_event_batches_total{pod=\"a\",verdict=\"applied\"} 2",
        "pod_parent_conflicts_total{pod=\"a\"} 1",
        "pod_event_batches_total{pod=\"a\",verdict=\"gap\"} 1",
        "pod_event_batches_total{pod=\"a\",verdict=\"stale\"} 0",
    ] {
        assert!(page.text().lines().any(|found| found == format!("pointsman_gateway_{line}")), "{line}");
    }
    gateway.drain(Duration::ZERO).await;
}

/// What one source told of a pod, another one never takes back.
#[tokio::test]
async fn a_pod_whose_events_come_from_elsewhere_is_known_anew_and_served_all_the_while() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = reported(&pod).await;
    report(&client, &stored(0, 1..9)).await;
    let before = gateway.index().pod("a").unwrap();
    let mut next = gateway.config();
    for events in [Events::None, Events::Zmq(ZmqEndpoints::new("tcp://127.0.0.1:1")), Events::Pushed] {
        let name = match &events {
            Events::Zmq(_) => "zmq",
            Events::Pushed => "pushed",
            _ => "none",
        };
        next.pods[0].events = events;
        gateway.reload(next.clone()).unwrap();
        let state = gateway.state();
        assert_eq!((state.pods[0].events.source, state.pods[0].blocks), (name, 0));
        assert!(state.pods[0].healthy, "it is the same server");
        assert_eq!(client.chat().await.status, 200);
        let status = report(&client, &stored(0, 1..9)).await.status;
        assert_eq!(status, if name == "pushed" { 200 } else { 422 }, "{name}");
    }
    assert_eq!(gateway.state().pods[0].blocks, 8);
    assert_ne!(gateway.index().pod("a"), Some(before));
    until("what was known before to be swept", || gateway.index().stats().pending_sweeps == 0).await;
    // A change of what is not about its cache leaves a pod what it is.
    next.pods[0].labels.insert("zone".to_owned(), "b".to_owned());
    gateway.reload(next).unwrap();
    assert_eq!(gateway.state().pods[0].blocks, 8);
    gateway.drain(Duration::ZERO).await;
}

/// Whoever connects and never says a word is not waited for.
#[cfg(feature = "grpc")]
#[tokio::test]
async fn a_silent_peer_at_the_grpc_door_does_not_keep_a_gateway_from_stopping() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = config(&[&pod]);
    config.internal.token = Some(TOKEN.to_owned());
    config.event_sources = serde_yaml_ng::from_str(&format!("grpc: {{ listen: '{address}' }}")).unwrap();
    let gateway = Gateway::start(config).await.unwrap();
    let silent = tokio::net::TcpStream::connect(address).await.unwrap();
    super::fixture::within("the drain", gateway.drain(Duration::ZERO)).await;
    drop(silent);
}
