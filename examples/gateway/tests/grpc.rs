//! A worker's reporter and a gateway over a real gRPC stream.
#![cfg(feature = "grpc")]
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

#[path = "support/reporting_pod.rs"]
mod reporting_pod;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kv_index::{BlockHash, BlockSize, Config as IndexConfig, Digest, Index, Parent};
use pointsman_example_common::bearer_token::Token;
use pointsman_gateway::event_sources::grpc::GrpcServer;
use pointsman_gateway::{Config as GatewayConfig, Gateway};
use pointsman_reporter::event_ingest::EventIngest;
use pointsman_reporter::grpc::GrpcSink;
use pointsman_reporter::shadow_cache::ShadowCache;
use pointsman_reporter::wire::{AckStatus, DigestMessage, HashScheme, Message};
use pointsman_reporter::{Config, MessageSink, SinkError};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use reporting_pod::eventually;

fn hashing() -> HashScheme {
    HashScheme::native("sim", BlockSize::new(16).unwrap())
}

fn ingest() -> Arc<EventIngest> {
    let index: Index = Index::new(IndexConfig::default());
    index.join("pod-0").unwrap();
    Arc::new(EventIngest::new(Arc::new(index), hashing()))
}

async fn start(address: &str, ingest: &Arc<EventIngest>) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    start_bounded(address, ingest, 1024).await
}

async fn start_bounded(
    address: &str,
    ingest: &Arc<EventIngest>,
    connections: usize,
) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let server = GrpcServer::new(Arc::clone(ingest), Token::new("right")).max_connections(connections);
    let served = server.serve(listener, stop.clone());
    (address, stop, tokio::spawn(async { served.await.unwrap() }))
}

#[tokio::test]
async fn there_are_only_so_many_connections() {
    let ingest = ingest();
    let (address, stop, server) = start_bounded("127.0.0.1:0", &ingest, 2).await;
    let url = format!("http://{address}");
    let mut sinks = [(); 3].map(|()| GrpcSink::connect(&url, "right").unwrap());
    for sink in &mut sinks[..2] {
        assert_eq!(sink.send(&digest("pod-0")).await.unwrap().status, AckStatus::InSync);
    }
    let [first, second, mut third] = sinks;
    let message = digest("pod-0");
    let early = tokio::time::timeout(Duration::from_millis(500), third.send(&message)).await;
    assert!(early.is_err(), "it waits for its turn: {early:?}");
    drop(first);
    // It tries again by itself, as a reporter does.
    let sent = async { while third.send(&message).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(20), sent).await.expect("its turn came");
    drop((second, third));
    stop.cancel();
    ends("the server", server).await;
}

fn believed(ingest: &EventIngest) -> Digest {
    ingest.index().digest(ingest.index().pod("pod-0").unwrap()).unwrap()
}

fn truth(shadow: &ShadowCache) -> Digest {
    reporting_pod::digest(shadow.copies())
}

async fn ends<T>(what: &str, task: JoinHandle<T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), task).await.unwrap_or_else(|_| panic!("{what} does not end")).unwrap()
}

fn digest(pod: &str) -> Message {
    Message::Digest(DigestMessage { pod: pod.into(), incarnation: 1, sequence: 0, digest: Digest::EMPTY })
}

#[tokio::test]
async fn a_worker_reports_through_a_restart_of_the_gateway() {
    let first = ingest();
    let (address, stop, server) = start("127.0.0.1:0", &first).await;
    let shadow = ShadowCache::default();
    let mut config = Config::new("pod-0", hashing(), 1);
    config.flush_interval = Duration::from_millis(5);
    config.digest_interval = Duration::from_millis(50);
    config.retry_initial = Duration::from_millis(5);
    config.retry_max = Duration::from_millis(50);
    let sink = GrpcSink::connect(&format!("http://{address}"), "right").unwrap();
    let (handle, task) = pointsman_reporter::start(config, shadow.clone(), sink);
    let task = tokio::spawn(task);
    // More blocks than one part of an inventory has, so that the one after the restart comes in parts.
    let chain: Vec<BlockHash> = (1..20_000).map(BlockHash::new).collect();
    shadow.store(&handle, Parent::Root, &chain);
    eventually("index equals worker", || believed(&first) == truth(&shadow)).await;
    stop.cancel();
    ends("the server", server).await;
    shadow.evict(&handle, &chain[15_000..]);
    let second = ingest();
    let (_, stop, server) = start(&address.to_string(), &second).await;
    eventually("the new index equals the worker", || believed(&second) == truth(&shadow)).await;
    drop(handle);
    let stats = ends("the reporter", task).await;
    assert!(stats.inventories >= 2, "{stats:?}");
    stop.cancel();
    ends("the server", server).await;
}

/// A gateway's drain waits for this server, so nobody may hold it up: not who says nothing, nor who never leaves.
#[tokio::test]
async fn a_peer_that_does_not_leave_is_cut() {
    let ingest = ingest();
    let (address, stop, server) = start("127.0.0.1:0", &ingest).await;
    let mut silent = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut polite = GrpcSink::connect(&format!("http://{address}"), "right").unwrap();
    polite.send(&digest("pod-0")).await.unwrap();
    stop.cancel();
    ends("the server", server).await;
    let mut rest = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut silent, &mut rest);
    let _ = tokio::time::timeout(Duration::from_secs(10), read).await.expect("the connection was cut");
}

#[tokio::test]
async fn refusals_have_their_status_and_the_next_message_a_new_stream() {
    let ingest = ingest();
    let (address, stop, server) = start("127.0.0.1:0", &ingest).await;
    let url = format!("http://{address}");
    let mut wrong = GrpcSink::connect(&url, "wrong").unwrap();
    let refused = wrong.send(&digest("pod-0")).await.unwrap_err();
    assert!(matches!(refused, SinkError::Rejected { status: 401, .. }), "{refused}");
    let mut sink = GrpcSink::connect(&url, "right").unwrap();
    assert_eq!(sink.send(&digest("pod-0")).await.unwrap().status, AckStatus::InSync);
    let refused = sink.send(&digest("pod-9")).await.unwrap_err();
    assert!(matches!(refused, SinkError::Rejected { status: 404, .. }), "{refused}");
    let refused = sink.send(&digest("")).await.unwrap_err();
    assert!(matches!(refused, SinkError::Rejected { status: 400, .. }), "{refused}");
    let refused = sink.send(&digest(&"p".repeat(2 << 20))).await.unwrap_err();
    assert!(!matches!(refused, SinkError::Rejected { status: 404, .. }), "too long to be looked at: {refused}");
    assert_eq!(sink.send(&digest("pod-0")).await.unwrap().status, AckStatus::InSync);
    drop((wrong, sink));
    stop.cancel();
    ends("the server", server).await;
}

/// Reporters try until the gateway is there; requests go through it to pods whose caches it then knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_knows_what_pods_report_over_grpc() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut pods = Vec::new();
    for name in ["pod-0", "pod-1"] {
        let sink = GrpcSink::connect(&format!("http://{address}"), "right").unwrap();
        pods.push(reporting_pod::ReportingPod::start(name, sink).await);
    }
    let fleet: Vec<String> = pods.iter().map(reporting_pod::ReportingPod::yaml).collect();
    let yaml = format!(
        "listen: 127.0.0.1:0\nmodel: {{ name: sim }}\npods: [{}]\ninternal: {{ token: right }}\n\
         event_sources: {{ grpc: {{ listen: '{address}' }} }}\n",
        fleet.join(", ")
    );
    let gateway = Gateway::start(GatewayConfig::parse(&yaml).unwrap()).await.unwrap();
    reporting_pod::Client::new(gateway.address()).work(&mut pointsman_lab::SplitMix64::new(3), 40).await;
    eventually("the index has every cache", || reporting_pod::knows(gateway.index(), &pods)).await;
    assert!(pods.iter().any(|pod| pod.truth() != Digest::EMPTY));
    gateway.drain(Duration::from_secs(1)).await;
    for pod in pods {
        pod.stop().await;
    }
}
