//! One simulated pod as a process: its flags, its faults by HTTP, its end.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// Held by each test: a port that is free for one would else be taken by another.
static ALONE: Mutex<()> = Mutex::new(());

/// A process that does not outlive its test.
struct Pod {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Pod {
    fn start(flags: &[&str]) -> Self {
        let mut process =
            Command::new(env!("CARGO_BIN_EXE_engine-sim")).args(flags).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        Self { process, said }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// The exit code, once it has ended.
    fn ended(&mut self) -> Option<i32> {
        until("it ends", || self.process.try_wait().unwrap().is_some());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn listens(address: &SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

fn post(address: SocketAddr, path: &str, body: &str) -> String {
    send(address, "POST", path, body)
}

/// The answer's first line; empty if there is none.
fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: pod\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = Vec::new();
    // A pod that dies cuts this connection too.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap().lines().next().unwrap_or_default().to_owned()
}

/// Three ports that were free a moment ago.
fn addresses() -> [SocketAddr; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

#[test]
fn it_listens_where_it_is_told_to_dies_on_demand_and_comes_back_there() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let [http, events, replay] = addresses();
    let flags = [http, events, replay].map(|address| address.to_string());
    let mut pod = Pod::start(&["--listen", &flags[0], "--events", &flags[1], "--replay", &flags[2], "--speed", "100"]);
    assert_eq!(pod.line(), format!("pod-0 serves sim at http://{http}"));
    assert_eq!(pod.line(), format!("events at tcp://{events}, replay at tcp://{replay}"));
    let chat = r#"{"messages":[{"role":"user","content":"hi"}],"max_tokens":1}"#;
    assert_eq!(post(http, "/v1/chat/completions", chat), "HTTP/1.1 200 OK");
    assert_eq!(post(http, "/sim/fault", r#"{"drop_events":1}"#), "HTTP/1.1 204 No Content");
    let sockets = [http, events, replay];
    post(http, "/sim/fault", r#"{"die_for":1}"#);
    until("all its sockets are closed", || !sockets.iter().any(listens));
    until("all its sockets are open again", || sockets.iter().all(listens));
    assert_eq!(post(http, "/v1/chat/completions", chat), "HTTP/1.1 200 OK");
    pod.signal("TERM");
    assert_eq!(pod.ended(), Some(0));
    assert!(!sockets.iter().any(listens));
}

/// As the cluster of `examples/epp/deploy` starts them.
#[test]
fn it_takes_the_flags_of_the_manifest_and_is_healthy() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let manifest = include_str!("../../epp/deploy/sim.yaml");
    let listed = manifest.lines().filter_map(|line| line.trim().strip_prefix("- --"));
    let mut ports = addresses().into_iter();
    let flags: Vec<String> = listed
        .map(|flag| match flag.split_once("=0.0.0.0:") {
            Some((name, _)) => format!("--{name}={}", ports.next().unwrap()),
            None => format!("--{flag}"),
        })
        .collect();
    assert_eq!(ports.next(), None, "{flags:?}");
    let mut pod = Pod::start(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    let line = pod.line();
    let (said, http) = line.rsplit_once(" at http://").unwrap();
    let model = said.rsplit_once(" serves ").unwrap().1;
    let http = http.parse().unwrap();
    let probes = manifest.matches("path: /health\n").count();
    assert_eq!((probes, send(http, "GET", "/health", "")), (2, "HTTP/1.1 200 OK".to_owned()));
    let body = format!(r#"{{"model":"{model}","prompt":"hi","max_tokens":1}}"#);
    assert_eq!(post(http, "/v1/completions", &body), "HTTP/1.1 200 OK");
    pod.signal("TERM");
    assert_eq!(pod.ended(), Some(0));
}

/// Neither an answer under way, nor a connection without a request, nor death holds up the end.
#[test]
fn a_signal_ends_it_whatever_it_is_doing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (signal, fault) in [("TERM", None), ("INT", Some("\"hang\"")), ("TERM", Some("\"die\""))] {
        let mut pod = Pod::start(&["--speed", "0.1"]);
        let line = pod.line();
        let http: SocketAddr = line.rsplit_once("http://").unwrap().1.parse().unwrap();
        let idle = TcpStream::connect(http).unwrap();
        let mut busy = TcpStream::connect(http).unwrap();
        let body = r#"{"prompt":"a long answer","max_tokens":9000,"ignore_eos":true}"#;
        let length = body.len();
        write!(busy, "POST /v1/completions HTTP/1.1\r\nhost: pod\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        if let Some(fault) = fault {
            post(http, "/sim/fault", fault);
        }
        pod.signal(signal);
        assert_eq!(pod.ended(), Some(0), "{signal} after {fault:?}");
        drop(idle);
    }
}

#[test]
fn a_port_that_is_taken_is_said_and_fails() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--listen", "--events", "--replay"] {
        let mut pod = Pod::start(&[flag, &address]);
        assert_eq!(pod.ended(), Some(1), "{flag}");
    }
}
