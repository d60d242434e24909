//! A gateway that runs out of file descriptors: clients get no more than their share, and no pod is to blame.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::net::TcpStream;

use super::fixture::{Client, EVENTS, FakePod, STREAMED, Script, WHOLE, piece, until, within};
use super::process::{Process, folder, write};

/// Quick to find out how pods are.
const QUICK: &str = "profile: round_robin\nhealth_check: { interval: 50ms, timeout: 2s }\n";

fn open_files(process: &Process) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().count()
}

/// A client that has one connection, and keeps to it.
struct Kept(SendRequest<Full<Bytes>>);

impl Kept {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (sender, connection) = handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut kept = Self(sender);
        // It is accepted.
        assert_eq!(kept.get("/health").await.0, 200);
        kept
    }

    async fn send(&mut self, request: http::request::Builder, body: &'static str) -> Response<Incoming> {
        within("the connection", self.0.ready()).await.unwrap();
        let request = request.header("host", "gateway").body(Full::from(body)).unwrap();
        within("an answer to begin", self.0.send_request(request)).await.unwrap()
    }

    async fn get(&mut self, path: &str) -> (u16, Bytes) {
        let answer = self.send(Request::get(path), "").await;
        (answer.status().as_u16(), within("an answer", answer.into_body().collect()).await.unwrap().to_bytes())
    }

    /// Every pod is healthy, and its breaker closed.
    async fn sees_no_pod_blamed(&mut self) {
        let state: serde_json::Value = serde_json::from_slice(&self.get("/state").await.1).unwrap();
        for pod in state["pods"].as_array().unwrap() {
            assert_eq!((pod["healthy"].as_bool(), pod["circuit"].as_str()), (Some(true), Some("closed")), "{pod}");
        }
    }
}

/// Clients with a connection each.
async fn connected(address: SocketAddr, count: usize) -> Vec<Kept> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(Kept::connect(address).await);
    }
    clients
}

/// Streams of all clients at the same time; how many got one. The others are told that there is no descriptor.
async fn streamed(clients: &mut [Kept], pods: &[FakePod]) -> usize {
    let seen: Vec<usize> = pods.iter().map(|pod| pod.seen().len()).collect();
    let mut bodies = Vec::new();
    for client in clients {
        let answer = client.send(Request::post("/v1/chat/completions"), STREAMED).await;
        let (status, again) = (answer.status().as_u16(), answer.headers().contains_key("retry-after"));
        let mut body = answer.into_body();
        if status == 200 {
            assert_eq!(piece(&mut body).await.unwrap().unwrap(), EVENTS[0]);
            bodies.push(body);
        } else {
            let text = within("an error", body.collect()).await.unwrap().to_bytes();
            let text = String::from_utf8_lossy(&text);
            assert!(status == 503 && again && text.contains(r#""code":"out_of_local_resources""#), "{status}: {text}");
        }
    }
    // All of them are under way until now.
    pods.iter().zip(seen).for_each(|(pod, seen)| pod.let_go((pod.seen().len() - seen) * (EVENTS.len() - 1)));
    for body in &mut bodies {
        while let Some(piece) = piece(body).await {
            piece.unwrap();
        }
    }
    bodies.len()
}

#[tokio::test]
async fn idle_clients_leave_descriptors_for_pods() {
    let pods = [FakePod::start("a", Script::Gated(EVENTS)).await, FakePod::start("b", Script::Gated(EVENTS)).await];
    let folder = folder("descriptors");
    let path = folder.join("gateway.yaml");
    write(&path, &[&pods[0], &pods[1]], QUICK);
    let mut process = Process::limited(&path, "-n 120");
    let address = process.address().await;
    let mut clients = connected(address, 8).await;
    let before = open_files(&process);
    let mut idle = Vec::new();
    // More than there are descriptors, and no more than may wait to be accepted where the system is strict.
    for _ in 0..100 {
        idle.push(within("a connection", TcpStream::connect(address)).await.unwrap());
    }
    until("the gateway to accept what it can", || open_files(&process) > before + 10).await;
    // Each of the streams under way has a connection to a pod, and there were no more than two of them before.
    for _ in 0..3 {
        assert_eq!(streamed(&mut clients, &pods).await, 8);
        clients[0].sees_no_pod_blamed().await;
    }
    assert!(open_files(&process) < 100, "{} of 120 files are open", open_files(&process));
    drop(idle);
    pods.iter().for_each(|pod| pod.answers(Script::Whole(WHOLE)));
    assert_eq!(Client::new(address).chat().await.status, 200, "at once");
    clients[0].sees_no_pod_blamed().await;
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_gateway_without_descriptors_charges_nobody_and_serves_again_at_once() {
    let pods = [FakePod::start("a", Script::Gated(EVENTS)).await, FakePod::start("b", Script::Gated(EVENTS)).await];
    let folder = folder("exhausted");
    let path = folder.join("gateway.yaml");
    write(&path, &[&pods[0], &pods[1]], QUICK);
    let mut process = Process::limited(&path, "-n 256");
    let mut clients = connected(process.address().await, 8).await;
    let pid = Pid::from_raw(process.id().try_into().unwrap()).unwrap();
    let limit = |current| {
        let limit = Rlimit { current: Some(current), maximum: Some(256) };
        prlimit(Some(pid), Resource::Nofile, limit).unwrap();
    };
    limit(3);
    // Those that health checks left open are used; who gets none is told so.
    let served = streamed(&mut clients, &pods).await;
    assert!(served < 8, "all of them had a connection");
    clients[0].sees_no_pod_blamed().await;
    // Many checks that cannot be made.
    tokio::time::sleep(Duration::from_millis(500)).await;
    clients[0].sees_no_pod_blamed().await;
    limit(256);
    assert_eq!(streamed(&mut clients, &pods).await, 8);
    clients[0].sees_no_pod_blamed().await;
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn the_soft_limit_is_raised_to_the_hard_one() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let folder = folder("soft");
    let path = folder.join("gateway.yaml");
    write(&path, &[&pod], "");
    // Too few to start with, if they were all.
    let mut process = Process::limited(&path, "-S -n 64");
    assert_eq!(Client::new(process.address().await).chat().await.status, 200);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_limit_that_serves_nobody_is_refused() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let folder = folder("hard");
    let path = folder.join("gateway.yaml");
    write(&path, &[&pod], "");
    assert_eq!(Process::limited(&path, "-n 64").exit_code().await, Some(1));
    std::fs::remove_dir_all(folder).unwrap();
}
