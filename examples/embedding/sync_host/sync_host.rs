//! A host without futures: threads and blocking sockets of the standard library, and `Router` without features.
//!
//! `route` says where a request goes, an attempt counts it there until it is over, and `tick` is the housekeeping.
//! `cargo run -p pointsman-sync-host --example sync_host`

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use pointsman::exec::Failure;
use pointsman::prelude::*;

/// A request or a response: its head up to the empty line, and as much body as that announces.
fn read_message(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let (mut reader, mut message, mut length) = (BufReader::new(stream), Vec::new(), 0);
    while !message.ends_with(b"\r\n\r\n") {
        let from = message.len();
        if reader.read_until(b'\n', &mut message)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&message[from..]).to_ascii_lowercase();
        length = line.strip_prefix("content-length:").and_then(|value| value.trim().parse().ok()).unwrap_or(length);
    }
    reader.take(length).read_to_end(&mut message)?;
    Ok(message)
}

fn exchange(address: &str, message: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(message)?;
    read_message(&stream)
}

/// Sends a request to the pods of its plan, best first, and tells the router what became of it.
fn serve(router: &Router, request: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let body = request.windows(4).position(|end| end == b"\r\n\r\n").map_or(&[][..], |at| &request[at + 4..]);
    // Your tokenizer; here a byte is a token.
    let tokens: Vec<u32> = body.iter().copied().map(u32::from).collect();
    let mut routed = router.route(&router.request(Instant::now()).tokens(&tokens))?;
    for (pod, address) in routed.candidates(0).collect::<Vec<_>>() {
        let Ok(mut attempt) = routed.begin(0, pod) else { continue };
        match exchange(&address, request) {
            Ok(response) => {
                attempt.first_token();
                attempt.succeeded();
                return Ok(response);
            }
            Err(error) => attempt.failed(Failure::Connect(error.to_string().into())),
        }
    }
    Err("no pod answered".into())
}

/// A server with a thread for each connection.
fn listen(answer: impl Fn(&[u8]) -> Vec<u8> + Clone + Send + 'static) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                let _ = read_message(&stream).and_then(|message| stream.write_all(&answer(&message)));
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    });
    Ok(address)
}

fn ok(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let live = listen(|_| ok("from the live pod"))?;
    // Nobody listens here any more: the router learns it from attempts that fail.
    let dead = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let pods = [PodSpec::new("live", live), PodSpec::new("dead", dead)];
    let router = Router::builder("m").pods(pods).tokens_given().profile("round_robin").build()?;

    // Housekeeping, until the sender is dropped.
    let (running, stopped) = mpsc::channel::<()>();
    let ticked = router.clone();
    let housekeeping = thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(10)) == Err(RecvTimeoutError::Timeout) {
            ticked.tick(Instant::now());
        }
    });
    let served = router.clone();
    let door = listen(move |request| serve(&served, request).unwrap_or_else(|error| ok(&error.to_string())))?;
    for at in 0..20 {
        let body = format!("prompt {at}");
        let request = format!("POST /v1/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let response = exchange(&door, request.as_bytes())?;
        if !response.ends_with(b"from the live pod") {
            return Err(format!("{body}: {}", String::from_utf8_lossy(&response)).into());
        }
    }
    drop(running);
    housekeeping.join().map_err(|_| "housekeeping panicked")?;
    let pod = router.pod("dead").ok_or("it is a pod")?;
    let (open, load) =
        (router.breakers().admit(pod, Instant::now()).is_none(), router.plugin_state().load.in_flight(pod.id()));
    println!("20 answers; breaker of the dead pod open: {open}; requests left on it: {}", load.requests);
    if open && load.requests == 0 { Ok(()) } else { Err("the dead pod should be left out, and idle".into()) }
}
