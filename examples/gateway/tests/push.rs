//! A worker's reporter and a gateway's internal endpoints over real HTTP.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

#[path = "support/reporting_pod.rs"]
mod reporting_pod;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kv_index::{BlockHash, BlockSize, Config as IndexConfig, Digest, Index, Parent, Tier};
use pointsman_engine_sim::events::{Block, CacheEvent, EventSink};
use pointsman_engine_sim::publish::{PublishConfig, ZmqPublisher};
use pointsman_engine_sim::{PodConfig, SimPod};
use pointsman_gateway::event_sources::http::{BodyLimits, Token, routes};
use pointsman_gateway::{Config as GatewayConfig, Gateway};
use pointsman_reporter::event_ingest::EventIngest;
use pointsman_reporter::http::HttpSink;
use pointsman_reporter::shadow_cache::ShadowCache;
use pointsman_reporter::wire::{Change, EventBatch, HashScheme, Message};
use pointsman_reporter::{Config, MessageSink, SinkError, start};
use reporting_pod::sink::ReportingSink;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use reporting_pod::eventually;

const TOKEN: &str = "a token";

fn hashing() -> HashScheme {
    HashScheme::native("sim", BlockSize::new(16).unwrap())
}

fn ingest() -> Arc<EventIngest> {
    let index: Index = Index::new(IndexConfig::default());
    index.join("pod-0").unwrap();
    Arc::new(EventIngest::new(Arc::new(index), hashing()))
}

/// A gateway's internal endpoints.
struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(address: &str, ingest: &Arc<EventIngest>) -> Self {
        let router: Router = routes(Arc::clone(ingest), BodyLimits::default().body_bytes(4_096), Token::new(TOKEN));
        let listener = TcpListener::bind(address).await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let stopped = stop.clone().cancelled_owned();
        let task =
            tokio::spawn(async move { axum::serve(listener, router).with_graceful_shutdown(stopped).await.unwrap() });
        Self { address, stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        // Connections that workers keep open would hold it up; a gateway that dies does not ask either.
        self.task.abort();
        let _ = self.task.await;
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn believed(ingest: &EventIngest) -> Digest {
    ingest.index().digest(ingest.index().pod("pod-0").unwrap()).unwrap()
}

fn truth(shadow: &ShadowCache) -> Digest {
    reporting_pod::digest(shadow.copies())
}

fn hurried() -> Config {
    let mut config = Config::new("pod-0", hashing(), 1);
    config.flush_interval = Duration::from_millis(5);
    config.digest_interval = Duration::from_millis(50);
    config.retry_initial = Duration::from_millis(5);
    config.retry_max = Duration::from_millis(50);
    config.inventory_interval = Duration::from_millis(50);
    config
}

fn chain(from: u64, to: u64) -> Vec<BlockHash> {
    (from..to).map(BlockHash::new).collect()
}

#[tokio::test]
async fn what_a_simulated_pod_does_is_in_the_index() {
    let ingest = ingest();
    let server = Server::start("127.0.0.1:0", &ingest).await;
    let shadow = ShadowCache::default();
    let sink = HttpSink::new(&server.url(), TOKEN).unwrap();
    let (handle, task) = start(hurried(), shadow.clone(), sink);
    let task = tokio::spawn(task);
    let mut sink = ReportingSink::new(handle.clone(), shadow.clone());
    let block = |n: u64| Block { hash: BlockHash::new(n), engine_hash: n };
    for n in 1..20 {
        let stored = CacheEvent::Stored {
            parent: (n > 1).then(|| block(n - 1)),
            blocks: vec![block(n), block(n + 1)],
            tokens: vec![0; 32],
            block_size: 16,
            salt: None,
        };
        sink.step(&[stored, CacheEvent::Removed(block(n))]);
    }
    eventually("index equals pod", || believed(&ingest) == truth(&shadow) && believed(&ingest) != Digest::EMPTY).await;
    sink.restarted();
    eventually("an empty cache", || believed(&ingest) == Digest::EMPTY).await;
    drop((sink, handle));
    let stats = tokio::time::timeout(Duration::from_secs(10), task).await.expect("it ends").unwrap();
    assert_eq!((stats.gaps, stats.mismatches, stats.rejections), (0, 0, 0), "{stats:?}");
    server.stop().await;
}

#[tokio::test]
async fn an_overflow_forces_an_inventory_and_nothing_is_lost() {
    let ingest = ingest();
    let server = Server::start("127.0.0.1:0", &ingest).await;
    let shadow = ShadowCache::default();
    let mut config = hurried();
    config.queue_blocks = 20;
    let (handle, task) = start(config, shadow.clone(), HttpSink::new(&server.url(), TOKEN).unwrap());
    // Before the task runs: nothing can be sent meanwhile.
    shadow.store(&handle, Parent::Root, &chain(1, 19));
    shadow.evict(&handle, &chain(10, 19));
    let task = tokio::spawn(task);
    eventually("index equals worker", || believed(&ingest) == truth(&shadow)).await;
    eventually("the stats are shown", || handle.stats().inventories >= 1).await;
    assert_eq!((handle.stats().overflows, handle.stats().dropped), (1, 27));
    drop(handle);
    tokio::time::timeout(Duration::from_secs(10), task).await.expect("it ends").unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_gateway_that_comes_back_with_nothing_is_healed() {
    let first = ingest();
    let server = Server::start("127.0.0.1:0", &first).await;
    let (address, shadow) = (server.address.to_string(), ShadowCache::default());
    let (handle, task) = start(hurried(), shadow.clone(), HttpSink::new(&server.url(), TOKEN).unwrap());
    let task = tokio::spawn(task);
    shadow.store(&handle, Parent::Root, &chain(1, 30));
    eventually("index equals worker", || believed(&first) == truth(&shadow)).await;
    server.stop().await;
    shadow.evict(&handle, &chain(20, 30));
    let second = ingest();
    let server = Server::start(&address, &second).await;
    eventually("the new index equals the worker", || believed(&second) == truth(&shadow)).await;
    drop(handle);
    let stats = tokio::time::timeout(Duration::from_secs(10), task).await.expect("it ends").unwrap();
    assert!(stats.inventories >= 2, "{stats:?}");
    server.stop().await;
}

/// Sends bytes as they are; the status line and the body of the answer.
async fn raw(address: SocketAddr, head: &str, body: &[u8]) -> (u16, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let head = format!("{head}host: gateway\r\nconnection: close\r\n\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    let _ = connection.write_all(body).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), connection.read_to_end(&mut answer));
    let _ = read.await.expect("an answer within 10 s");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer.split("\r\n\r\n").nth(1).unwrap_or("").to_owned())
}

#[tokio::test]
async fn every_refusal_is_a_clear_4xx_and_changes_nothing() {
    let ingest = ingest();
    let server = Server::start("127.0.0.1:0", &ingest).await;
    let stored = Change::Stored { parent: Parent::Root, blocks: chain(1, 3), tier: Tier::Gpu };
    let good = EventBatch {
        pod: "pod-0".into(),
        incarnation: 1,
        sequence: 0,
        hashing: hashing(),
        source: kv_index::EventSemantics::Copies,
        changes: vec![stored],
    };
    let mut sink = HttpSink::new(&server.url(), TOKEN).unwrap();
    sink.send(&Message::Batch(good.clone())).await.unwrap();
    let before = (believed(&ingest), ingest.index().stats());

    let next = serde_json::to_string(&EventBatch { incarnation: 2, ..good.clone() }).unwrap();
    let head = |path: &str, token: &str, kind: &str, length: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nauthorization: {token}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n"
        )
    };
    let (json, right) = ("application/json", format!("Bearer {TOKEN}"));
    let long = " ".repeat(5_000) + &next;
    let unknown = next.replace("pod-0", "pod-9");
    let sized = next.replace("\"block_size\":16", "\"block_size\":32");
    let hashed = serde_json::to_string(&EventBatch {
        hashing: HashScheme::native("another", BlockSize::new(16).unwrap()),
        incarnation: 2,
        ..good.clone()
    });
    let hashed = hashed.unwrap();
    let spelled = next.replace("0000000000000001", "1");
    let extra = next.replacen('{', "{\"x\":1,", 1);
    let as_message = format!("{{\"report\":{next}}}");
    let cases: [(&str, &str, &str, &str, u16, &str); 14] = [
        ("/internal/events", "Bearer wrong", json, &next, 401, "token"),
        ("/internal/events", "a token", json, &next, 401, "token"),
        ("/internal/sync", "Bearer ", json, &next, 401, "token"),
        ("/internal/events", &right, "text/plain", &next, 415, "application/json"),
        ("/internal/events", &right, json, &long, 413, "4096 bytes"),
        ("/internal/events", &right, json, &unknown, 404, "pod-9"),
        ("/internal/events", &right, json, &sized, 422, "blocks of 32 tokens"),
        ("/internal/events", &right, json, &hashed, 422, "hashed differently"),
        ("/internal/events", &right, json, &spelled, 400, "line 1, column"),
        ("/internal/events", &right, json, &extra, 400, "unknown field `x`"),
        ("/internal/events", &right, json, &next[..40], 400, "EOF"),
        ("/internal/events", &right, json, &as_message, 400, "unknown field `report`"),
        ("/internal/sync", &right, json, &as_message, 400, "/internal/events"),
        ("/internal/sync", &right, json, &next, 400, "unknown variant `pod`"),
    ];
    for (path, token, kind, body, status, words) in cases {
        let (found, answer) = raw(server.address, &head(path, token, kind, body.len()), body.as_bytes()).await;
        assert_eq!(found, status, "{answer}");
        assert!(answer.contains(words), "{answer}");
    }
    // Without a length, the limit is met while reading.
    let chunked = format!(
        "POST /internal/events HTTP/1.1\r\nauthorization: {right}\r\ncontent-type: {json}\r\ntransfer-encoding: chunked\r\n"
    );
    let body = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    assert_eq!(raw(server.address, &chunked, body.as_bytes()).await.0, 413);
    // And with a lie about it, before reading.
    assert_eq!(raw(server.address, &head("/internal/events", &right, json, 1 << 40), b"").await.0, 413);
    assert_eq!((believed(&ingest), ingest.index().stats()), before);

    let mut wrong = HttpSink::new(&server.url(), "another").unwrap();
    let refused = wrong.send(&Message::Batch(good)).await.unwrap_err();
    assert!(matches!(refused, SinkError::Rejected { status: 401, .. }), "{refused}");
    server.stop().await;
}

/// The fleet comes by a reload: until then its reporters are refused, and go on trying. A pod whose events come another way is
/// not reported on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_knows_what_pods_push() {
    let yaml = |fleet: &[String]| {
        let fleet = fleet.join(", ");
        let text = format!(
            "listen: 127.0.0.1:0\nmodel: {{ name: sim }}\npods: [{fleet}]\n\
             internal: {{ token: {TOKEN}, listen: '127.0.0.1:0' }}\n"
        );
        GatewayConfig::parse(&text).unwrap()
    };
    let gateway = Gateway::start(yaml(&[])).await.unwrap();
    let url = format!("http://{}", gateway.internal_address().unwrap());
    let mut pods = Vec::new();
    for name in ["pod-0", "pod-1", "pod-2"] {
        pods.push(reporting_pod::ReportingPod::start(name, HttpSink::new(&url, TOKEN).unwrap()).await);
    }
    let mut fleet: Vec<String> = pods.iter().map(reporting_pod::ReportingPod::yaml).collect();
    fleet[2] = fleet[2].replace("pushed", "none");
    gateway.reload(yaml(&fleet)).unwrap();
    eventually("the pods are healthy", || gateway.state().pods.iter().all(|pod| pod.healthy)).await;
    reporting_pod::Client::new(gateway.address()).work(&mut pointsman_lab::SplitMix64::new(3), 60).await;
    eventually("the index has every cache", || reporting_pod::knows(gateway.index(), &pods[..2])).await;
    assert!(pods.iter().any(|pod| pod.truth() != Digest::EMPTY));
    let other = gateway.index().pod("pod-2").unwrap();
    assert_eq!(gateway.index().digest(other), Ok(Digest::EMPTY), "nobody was to report on it");
    gateway.drain(Duration::from_secs(1)).await;
    for (pod, refused) in pods.into_iter().zip([false, false, true]) {
        let stats = pod.stop().await;
        assert_eq!(stats.inventories == 0, refused, "{stats:?}");
    }
}

/// Two kinds of sources at once: one pod's engine publishes over ZeroMQ, the other's reporter pushes over HTTP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_sources_feed_one_gateway() {
    let (sink, publisher) = ZmqPublisher::bind(PublishConfig::new("", 1_000)).await.unwrap();
    let mut settings = PodConfig::new("published", "sim");
    (settings.speed, settings.blocks) = (1_000.0, 120);
    let published = SimPod::start(settings, vec![Box::new(sink)]).await.unwrap();
    let sockets = publisher.endpoints();
    let of_published = format!(
        "{{ name: published, url: 'http://{}', events: {{ zmq: {{ events: '{}', replay: '{}' }} }} }}",
        published.address(),
        sockets.events,
        sockets.replay
    );
    let yaml = |fleet: &str| {
        let text = format!(
            "listen: 127.0.0.1:0\nmodel: {{ name: sim }}\nprofile: round_robin\npods: [{fleet}]\n\
             internal: {{ token: {TOKEN}, listen: '127.0.0.1:0' }}\n"
        );
        GatewayConfig::parse(&text).unwrap()
    };
    let gateway = Gateway::start(yaml(&of_published)).await.unwrap();
    let url = format!("http://{}", gateway.internal_address().unwrap());
    let pushed = reporting_pod::ReportingPod::start("pushed", HttpSink::new(&url, TOKEN).unwrap()).await;
    gateway.reload(yaml(&format!("{of_published}, {}", pushed.yaml()))).unwrap();
    eventually("both pods are healthy", || gateway.state().pods.iter().all(|pod| pod.healthy)).await;
    reporting_pod::Client::new(gateway.address()).work(&mut pointsman_lab::SplitMix64::new(5), 40).await;
    // What an engine publishes is in the index once a block, however many copies there are.
    let blocks = || reporting_pod::digest(published.cache().into_keys().map(|hash| (hash, 1)));
    let known = |name| gateway.index().digest(gateway.index().pod(name).unwrap()).unwrap();
    eventually("the index has both caches", || known("published") == blocks() && known("pushed") == pushed.truth())
        .await;
    assert!(blocks() != Digest::EMPTY && pushed.truth() != Digest::EMPTY);
    gateway.drain(Duration::from_secs(1)).await;
    pushed.stop().await;
    published.stop().await;
    publisher.stop().await;
}
