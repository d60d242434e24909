//! Events that engines bring to one address, over sockets: by another implementation of ZeroMQ, and by libzmq.
//!
//! llm-d: its "global socket mode" (`kvEventsConfig.zmqEndpoint`), which is there beside pods' own sockets.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pointsman::index::BlockHash;
use pointsman::index::engine::{FollowerState, FollowerStatus};
use pointsman::{PodSpec, Router};
use pointsman_engine_sim::events::{Block, CacheEvent, EventSink};
use pointsman_engine_sim::publish::{PublishConfig, ZmqPublisher, encode_batch};
use pointsman_epp::picker_config::{KvEvents, PickerConfig, PrefixCache};
use pointsman_epp::{EventStatuses, FollowingPods, follow_pods};
use tokio::time::{sleep, timeout};
use zeromq::{PubSocket, Socket, SocketSend, ZmqMessage};

const PATIENCE: Duration = Duration::from_secs(20);

/// A picker's end: two pods, whose own sockets are at a port of theirs, and the address to which engines may publish.
struct Scene {
    router: Router,
    statuses: EventStatuses,
    following: FollowingPods,
}

impl Scene {
    async fn new(own_port: u16) -> Self {
        let pods = [PodSpec::new("default/a", "127.0.0.1:8001"), PodSpec::new("default/b", "127.0.0.1:8002")];
        let router = Router::builder("m").tokens_given().block_size(4).pods(pods).build().unwrap();
        let mut events = KvEvents::default();
        (events.socket_port, events.endpoint) = (Some(own_port), Some("tcp://127.0.0.1:0".to_owned()));
        let statuses = EventStatuses::default();
        let following = follow_pods(&router, events, Arc::clone(&statuses)).await.unwrap();
        Self { router, statuses, following }
    }

    fn address(&self) -> SocketAddr {
        self.following.listens_at().unwrap()
    }

    fn blocks(&self, pod: &str) -> usize {
        self.router.index().pod_stats(self.router.pod(pod).unwrap()).unwrap().blocks
    }

    fn status(&self, pod: &str) -> FollowerStatus {
        self.statuses.lock().get(pod).copied().unwrap_or_default()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waits = async {
            while !holds(self) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let all = || ["default/a", "default/b"].map(|pod| (self.blocks(pod), self.status(pod)));
        timeout(PATIENCE, waits).await.unwrap_or_else(|_| panic!("never: {what}; {:?}", all()));
    }
}

/// So many blocks of a prompt, stored.
fn stored(blocks: u32) -> CacheEvent {
    let hashed = |at: u32| Block { hash: BlockHash::new(u64::from(at) + 1), engine_hash: u64::from(at) + 1 };
    let tokens = (0..blocks * 4).collect();
    CacheEvent::Stored { parent: None, blocks: (0..blocks).map(hashed).collect(), tokens, block_size: 4, salt: None }
}

/// An engine that connects and publishes, as vLLM does where its endpoint names a host.
struct Engine {
    socket: PubSocket,
    topic: String,
    sequence: u64,
}

impl Engine {
    async fn connect(to: SocketAddr, topic: &str) -> Self {
        let mut socket = PubSocket::new();
        socket.connect(&format!("tcp://{to}")).await.unwrap();
        Self { socket, topic: topic.to_owned(), sequence: 0 }
    }

    async fn publish(&mut self, event: CacheEvent) {
        let payload = encode_batch(self.sequence as f64 + 1.0, &[event]);
        let frames = [self.topic.clone().into_bytes(), self.sequence.to_be_bytes().to_vec(), payload];
        let frames: Vec<_> = frames.into_iter().map(bytes::Bytes::from).collect();
        self.socket.send(ZmqMessage::try_from(frames).unwrap()).await.unwrap();
        self.sequence += 1;
    }

    /// Publishes until it is heard: what is sent before the subscription came is heard by nobody.
    async fn is_heard(&mut self, scene: &Scene, pod: &str) {
        let before = scene.status(pod).batches;
        let heard = async {
            while scene.status(pod).batches == before {
                self.publish(CacheEvent::Cleared).await;
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, heard).await.unwrap_or_else(|_| panic!("not heard: {:?}", scene.status(pod)));
    }
}

#[tokio::test]
async fn engines_bring_their_events_to_one_address_and_topics_tell_them_apart() {
    let scene = Scene::new(1).await;
    let mut a = Engine::connect(scene.address(), "kv@127.0.0.1:8001@m").await;
    let mut b = Engine::connect(scene.address(), "kv@b@org/m").await;
    a.is_heard(&scene, "default/a").await;
    b.is_heard(&scene, "default/b").await;
    a.publish(stored(3)).await;
    b.publish(stored(5)).await;
    scene.until("each its own", |scene| (scene.blocks("default/a"), scene.blocks("default/b")) == (3, 5)).await;
    scene.until("live", |scene| scene.status("default/a").state == FollowerState::Live).await;
    // One connection may bring the events of several pods, and of none.
    for topic in ["kv@nobody@m", "other@127.0.0.1:8001@m"] {
        a.topic = topic.to_owned();
        a.publish(stored(9)).await;
    }
    a.topic = "kv@default/a@m".to_owned();
    a.publish(CacheEvent::Cleared).await;
    scene.until("cleared", |scene| (scene.blocks("default/a"), scene.blocks("default/b")) == (0, 5)).await;
}

#[tokio::test]
async fn an_engine_that_comes_back_is_known_to_have_started_anew() {
    let scene = Scene::new(1).await;
    let mut engine = Engine::connect(scene.address(), "kv@a@m").await;
    engine.is_heard(&scene, "default/a").await;
    engine.publish(stored(3)).await;
    scene.until("stored", |scene| scene.blocks("default/a") == 3).await;
    drop(engine);
    scene.until("away", |scene| scene.status("default/a").state == FollowerState::Connecting).await;
    let mut anew = Engine::connect(scene.address(), "kv@a@m").await;
    anew.is_heard(&scene, "default/a").await;
    anew.publish(stored(2)).await;
    scene.until("what it holds now", |scene| scene.blocks("default/a") == 2).await;
    scene.until("live", |scene| scene.status("default/a").state == FollowerState::Live).await;
}

/// llm-d has both as well: `discoverPods` is true unless it says otherwise.
#[tokio::test]
async fn a_pod_that_publishes_at_its_own_socket_is_followed_there() {
    let (mut sink, handle) = ZmqPublisher::bind(PublishConfig::new("kv@a@m", 100)).await.unwrap();
    let port = handle.endpoints().events.rsplit_once(':').unwrap().1.parse().unwrap();
    let scene = Scene::new(port).await;
    scene.until("followed", |scene| scene.status("default/a").connections == 1).await;
    let heard = async {
        while scene.status("default/a").batches == 0 {
            sink.step(&[CacheEvent::Cleared]);
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, heard).await.unwrap();
    sink.step(&[stored(4)]);
    scene.until("stored", |scene| scene.blocks("default/a") == 4).await;
    let mut other = Engine::connect(scene.address(), "kv@a@m").await;
    for _ in 0..20 {
        other.publish(CacheEvent::Cleared).await;
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(scene.blocks("default/a"), 4, "a second stream of a pod is passed over");
    handle.stop().await;
}

#[tokio::test]
async fn an_address_that_is_none_or_taken_is_an_error() {
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let router = Router::builder("m").tokens_given().build().unwrap();
    for endpoint in ["ipc:///events", "tcp://nonsense", &format!("tcp://{}", taken.local_addr().unwrap())] {
        let mut events = KvEvents::default();
        events.endpoint = Some(endpoint.to_owned());
        assert!(follow_pods(&router, events, EventStatuses::default()).await.is_err(), "{endpoint}");
    }
}

/// The two samples of llm-d that name such an address: neither is taken without it.
#[tokio::test]
async fn samples_that_name_an_address_have_engines_publish_there() {
    for sample in ["deploy_sim_epp_kvcache", "deploy_sim_epp_tokenizer_vllm_http"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/picker_config/llmd/{sample}.yaml"));
        let text = std::fs::read_to_string(file).unwrap().replace("tcp://0.0.0.0:5557", "tcp://*:0");
        let settings = PickerConfig::read(&text).unwrap().translate().unwrap().settings;
        let PrefixCache::Precise { events, .. } = settings.prefix_cache else { panic!("{sample} is precise") };
        let router = Router::builder("m").tokens_given().block_size(4).pod(PodSpec::new("a", "127.0.0.1:8001"));
        let router = router.build().unwrap();
        let statuses = EventStatuses::default();
        let following = follow_pods(&router, events, Arc::clone(&statuses)).await.unwrap();
        let scene = Scene { router, statuses, following };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, scene.address().port()));
        let mut engine = Engine::connect(address, "kv@127.0.0.1:8001@m").await;
        engine.is_heard(&scene, "a").await;
    }
}

/// Skipped where `python3` with `zmq` is not installed, unless `POINTSMAN_REAL_PARTS=1` says that it must be.
#[tokio::test]
async fn libzmq_brings_events_too() {
    let check = Command::new("python3").args(["-c", "import zmq"]).stderr(Stdio::null()).status();
    if !check.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("POINTSMAN_REAL_PARTS").is_none_or(|value| value != "1"), "python3 lacks pyzmq");
        println!("skipped: python3 with pyzmq is not installed");
        return;
    }
    let scene = Scene::new(1).await;
    let payload: String = encode_batch(1.0, &[stored(6)]).iter().map(|byte| format!("{byte:02x}")).collect();
    // Once a subscription came, the first batch is the first that there is.
    let script = "import sys, zmq
socket = zmq.Context().socket(zmq.XPUB)
socket.connect(sys.argv[1])
assert socket.recv() == b'\\x01kv@'
socket.send_multipart([b'kv@a@m', bytes(8), bytes.fromhex(sys.argv[2])])
sys.stdin.read()";
    let address = format!("tcp://{}", scene.address());
    let mut peer = Command::new("python3");
    let mut peer = peer.args(["-c", script, &address, &payload]).stdin(Stdio::piped()).spawn().unwrap();
    scene.until("stored", |scene| scene.blocks("default/a") == 6).await;
    scene.until("told", |scene| scene.status("default/a").batches == 1).await;
    assert_eq!(scene.status("default/a").lost, 0);
    drop(peer.stdin.take());
    peer.wait().unwrap();
    scene.until("away", |scene| scene.status("default/a").state == FollowerState::Connecting).await;
}
