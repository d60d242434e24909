//! Pods over real sockets: the API, faults, and prefill on one for decode on another.

mod api;
mod faults;
mod handoff;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kv_index::BlockHash;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::events::{Block, CacheEvent, EventSink};
use super::{ExecutionEnd, Fault, PodConfig, RequestLedger, SimPod};

/// Copies as a sink was told of them, and how many incarnations there were.
#[derive(Clone, Debug, Default)]
struct Recorded(Arc<Mutex<(HashMap<BlockHash, u32>, u32)>>);

impl Recorded {
    fn copies(&self) -> BTreeMap<BlockHash, u32> {
        self.0.lock().0.iter().map(|(&hash, &copies)| (hash, copies)).collect()
    }

    fn restarts(&self) -> u32 {
        self.0.lock().1
    }
}

impl EventSink for Recorded {
    fn step(&mut self, events: &[CacheEvent]) {
        assert!(!events.is_empty());
        let told = &mut self.0.lock().0;
        for event in events {
            match event {
                CacheEvent::Stored { blocks, tokens, block_size, .. } => {
                    assert_eq!(tokens.len(), blocks.len() * *block_size as usize);
                    blocks.iter().for_each(|block| *told.entry(block.hash).or_default() += 1);
                }
                CacheEvent::Removed(block) => *told.get_mut(&block.hash).expect("told before") -= 1,
                CacheEvent::Cleared => told.clear(),
            }
        }
        told.retain(|_, copies| *copies > 0);
    }

    fn restarted(&mut self) {
        let mut told = self.0.lock();
        told.0.clear();
        told.1 += 1;
    }
}

/// A pod a thousand times as fast as the measured machine.
async fn start(change: impl FnOnce(&mut PodConfig)) -> (SimPod, Recorded) {
    let told = Recorded::default();
    let mut config = PodConfig { speed: 1_000.0, ..PodConfig::new("pod", "sim") };
    change(&mut config);
    (SimPod::start(config, vec![Box::new(told.clone())]).await.unwrap(), told)
}

/// Waits for what is about to happen.
async fn until(what: &str, happened: impl Fn() -> bool) {
    let wait = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.unwrap_or_else(|_| panic!("never {what}"));
}

/// Waits no longer than a test should.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.unwrap_or_else(|_| panic!("no {what} in ten seconds"))
}

async fn connect(address: SocketAddr) -> std::io::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Sends a body and takes the head of the answer.
async fn send(pod: &SimPod, path: &str, body: &str) -> hyper::Result<Response<Incoming>> {
    let request = Request::post(path).header("x-request-id", "abc").body(Full::from(body.to_owned())).unwrap();
    let mut sender = connect(pod.address()).await.unwrap();
    let response = soon("answer", sender.send_request(request)).await;
    // A sender that is dropped lets the connection close, not the body under way.
    response
}

async fn post(pod: &SimPod, path: &str, body: &Value) -> (StatusCode, HeaderMap, Bytes) {
    let (head, body) = send(pod, path, &body.to_string()).await.unwrap().into_parts();
    (head.status, head.headers, soon("body", body.collect()).await.unwrap().to_bytes())
}

async fn get(pod: &SimPod, path: &str) -> (StatusCode, Bytes) {
    let mut sender = connect(pod.address()).await.unwrap();
    let request = Request::get(path).body(Full::default()).unwrap();
    let response = soon("answer", sender.send_request(request)).await.unwrap();
    (response.status(), soon("body", response.into_body().collect()).await.unwrap().to_bytes())
}

/// Asks and expects an answer of JSON.
async fn ask(pod: &SimPod, path: &str, body: &Value) -> Value {
    let (status, _, bytes) = post(pod, path, body).await;
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&bytes));
    serde_json::from_slice(&bytes).unwrap()
}

fn chat(content: &str, more: &[(&str, Value)]) -> Value {
    let mut body = json!({"model": "sim", "messages": [{"role": "user", "content": content}]});
    more.iter().for_each(|(key, value)| body[*key] = value.clone());
    body
}

fn words(count: usize) -> String {
    (0..count as u64).map(pointsman_example_common::words::word).collect()
}

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
