//! Our ZeroMQ frames against libzmq itself, by pyzmq, both ways.
//!
//! Skipped where `python3` with `zmq` is not installed, unless `POINTSMAN_REAL_PARTS=1` says that it must be.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

#[path = "zmq_engine/mod.rs"]
mod engine;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use kv_index::engine::EngineFeedConfig;
use kv_index::{Config, Index};
use pointsman::zmq::Subscriber;
use pointsman_engine_sim::events::{CacheEvent, EventSink};
use pointsman_engine_sim::publish::{PublishConfig, ZmqPublisher, encode_batch};
use pointsman_gateway::config::ZmqEndpoints;
use pointsman_gateway::event_sources::zmq::subscriber_config;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use engine::{Engine, model};

const LONG: Duration = Duration::from_secs(30);

/// Whether to go on. Says so where it is skipped.
fn is_installed() -> bool {
    let check = Command::new("python3").args(["-c", "import zmq"]).stderr(Stdio::null()).status();
    let installed = check.is_ok_and(|status| status.success());
    let required = std::env::var_os("POINTSMAN_REAL_PARTS").is_some_and(|value| value == "1");
    assert!(installed || !required, "python3 with pyzmq has to be installed");
    if !installed {
        println!("skipped: python3 with pyzmq is not installed");
    }
    installed
}

/// A peer at work. It dies with the test.
struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    /// Its lines, by a thread that ends when it does.
    output: mpsc::UnboundedReceiver<String>,
}

impl Peer {
    fn start(arguments: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/zmq_peer.py");
        let mut command = Command::new("python3");
        command.arg(script).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (says, output) = mpsc::unbounded_channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| says.send(line)));
        let input = child.stdin.take();
        Self { child, input, output }
    }

    /// What it says next.
    async fn said(&mut self) -> Value {
        let line = timeout(LONG, self.output.recv()).await.expect("the peer says something");
        serde_json::from_str(&line.expect("the peer goes on")).unwrap()
    }

    fn tell(&mut self, what: Value) {
        writeln!(self.input.as_mut().unwrap(), "{what}").unwrap();
    }

    /// Has it end, and sees that all was well.
    async fn end(mut self) {
        drop(self.input.take());
        // Its output closes when it ends.
        assert_eq!(timeout(LONG, self.output.recv()).await.expect("the peer ends"), None);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn libzmq_hears_what_our_publisher_says() {
    if !is_installed() {
        return;
    }
    let (mut sink, handle) = ZmqPublisher::bind(PublishConfig::new("kv-events", 10_000)).await.unwrap();
    let ends = handle.endpoints().clone();
    let mut peer = Peer::start(&["listen", &ends.events, &ends.replay, &ends.topic, "20"]);
    // What is published before its subscription arrives is heard by nobody, so it says when it has heard something.
    let mut before = 0;
    let ready = loop {
        sink.step(&[CacheEvent::Cleared]);
        before += 1;
        if let Ok(ready) = timeout(Duration::from_millis(50), peer.output.recv()).await {
            break ready.unwrap();
        }
        assert!(before < 600, "the peer hears nothing");
    };
    assert_eq!(serde_json::from_str::<Value>(&ready).unwrap(), json!({"ready": true}));
    let mut engine = Engine::new(1);
    let steps: Vec<Vec<CacheEvent>> = (0..25).map(|_| engine.step()).collect();
    steps.iter().for_each(|events| sink.step(events));

    let mut live = Vec::new();
    for _ in 0..20 {
        live.push(frames(&peer.said().await["live"]));
    }
    let mut replayed = Vec::new();
    loop {
        let reply = frames(&peer.said().await["replayed"]);
        let ends = reply.last().unwrap().is_empty();
        replayed.push(reply);
        if ends {
            break;
        }
    }
    peer.end().await;
    handle.stop().await;

    assert_eq!(replayed.pop().unwrap(), ["", "", "ffffffffffffffff", ""]);
    for (number, reply) in replayed.iter().enumerate() {
        assert_eq!(reply[..3], [String::new(), hex(b"kv-events"), format!("{number:016x}")]);
        let events = number.checked_sub(before).map_or(&[CacheEvent::Cleared][..], |at| &steps[at]);
        assert_eq!(reply[3], as_published(&reply[3], events), "batch {number}");
    }
    // A replayed batch is a live one, byte for byte. The first ones heard may be from before.
    let first = usize::from_str_radix(&live[0][1], 16).unwrap();
    // Steps that were still on their way when it was asked need not be in the replay; those that were heard are.
    assert!(replayed.len() >= first + 20, "{} batches", replayed.len());
    let expected: Vec<&[String]> = replayed[first..first + 20].iter().map(|reply| &reply[1..]).collect();
    assert_eq!(live, expected);
}

/// The payload of these events at the time that a payload says.
fn as_published(payload: &str, events: &[CacheEvent]) -> String {
    // An array of three, then a float of eight bytes.
    let time = u64::from_str_radix(&payload[4..20], 16).unwrap();
    hex(&encode_batch(f64::from_bits(time), events))
}

fn frames(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|frame| frame.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn our_follower_hears_what_libzmq_says() {
    if !is_installed() {
        return;
    }
    let mut peer = Peer::start(&["publish"]);
    let endpoints = frames(&peer.said().await["endpoints"]);
    let (mut engine, mut time) = (Engine::new(2), 1_755_900_000.0);
    let mut step = |live: bool| {
        time += 0.5;
        json!({"payload": hex(&encode_batch(time, &engine.step())), "live": live})
    };
    // Before anybody follows.
    for _ in 0..50 {
        peer.tell(step(true));
    }
    let index: Arc<Index> = Arc::new(Index::new(Config::default()));
    let pod = index.join("pod-0").unwrap();
    let (model, size) = model();
    let [events, replay] = endpoints.try_into().unwrap();
    let endpoints = ZmqEndpoints { topic: "kv-events".to_owned(), ..ZmqEndpoints::new(&events).replay(&replay) };
    let mut config = subscriber_config(&endpoints, EngineFeedConfig::tokens(model, size)).unwrap();
    config.follower.idle = Duration::from_millis(200);
    // More than one heartbeat is exchanged.
    config.connection.heartbeat = Some(Duration::from_millis(50));
    let subscriber = Subscriber::new(index.clone(), pod, config).unwrap();
    let status = subscriber.status();
    let task = tokio::spawn(subscriber.run());
    // Live, with losses; the last one is lost too.
    for at in 0..60 {
        peer.tell(step(at % 7 != 3 && at != 59));
        sleep(Duration::from_millis(5)).await;
    }
    let agrees = async {
        while index.digest(pod) != Ok(engine.digest()) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, agrees).await.unwrap_or_else(|_| panic!("the index is not the cache: {:?}", status.get()));
    let view = status.get();
    assert_eq!((view.batches, view.lost, view.errors, view.connections), (110, 0, 0, 1), "{view:?}");
    task.abort();
    assert!(timeout(LONG, task).await.expect("it stops").unwrap_err().is_cancelled());
    peer.end().await;
}
