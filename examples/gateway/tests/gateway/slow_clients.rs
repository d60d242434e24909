//! Hostile and slow clients, down to the bytes (slowloris, oversized requests).

use std::net::SocketAddr;
use std::time::Duration;

use pointsman_gateway::{Config, Gateway};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::{CHAT, Client, FakePod, STREAMED, Script, WHOLE, config, gateway, until, within};

/// A request for a chat as bytes, with these headers.
fn chat(headers: &str) -> String {
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{headers}\r\n")
}

/// Reads until the text has all of this in it, in this order.
async fn reads(stream: &mut TcpStream, parts: &[&str]) -> String {
    let mut text = String::new();
    let reading = async {
        loop {
            let mut at = 0;
            if parts.iter().all(|part| text[at..].find(part).map(|found| at += found + part.len()).is_some()) {
                return;
            }
            let mut some = [0; 4096];
            let read = stream.read(&mut some).await.unwrap();
            assert_ne!(read, 0, "it ended with {text}");
            text.push_str(std::str::from_utf8(&some[..read]).unwrap());
        }
    };
    within("all of the answer", reading).await;
    text
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// Sends bytes on a connection of its own and reads until it is closed.
async fn ends(address: SocketAddr, bytes: &str) -> String {
    let mut stream = connect(address).await;
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    within("the connection to end", stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

async fn hurried(pod: &FakePod, change: impl FnOnce(&mut Config)) -> Gateway {
    let mut config = config(&[pod]);
    change(&mut config);
    Gateway::start(config).await.unwrap()
}

#[tokio::test]
async fn what_is_between_two_parties_goes_no_further() {
    let pod =
        FakePod::start("a", Script::With(&[("x-pointsman-pod", "forged"), ("x-engine", "vllm"), ("keep-alive", "x")]))
            .await;
    let (gateway, client) = gateway(&[&pod]).await;
    let long = "x".repeat(200);
    let headers = [
        ("x-pointsman-explain", "0"),
        ("x-pointsman-anything", "1"),
        ("x-prefiller-host-port", "10.0.0.1:80"),
        ("x-gateway-destination-endpoint", "10.0.0.1:80"),
        ("connection", "x-mine"),
        ("x-mine", "1"),
        ("te", "trailers"),
        ("authorization", "Bearer theirs"),
        ("x-request-id", &long),
    ];
    let answer = client.post("/v1/chat/completions", CHAT, &headers).await;
    assert_eq!((answer.status, answer.header("x-pointsman-pod"), answer.header("x-engine")), (200, None, Some("vllm")));
    assert_eq!(answer.header("keep-alive"), None);
    let (seen, _) = pod.seen().remove(0);
    for name in seen.keys().map(|name| name.as_str()) {
        assert!(["host", "content-length", "authorization", "x-request-id"].contains(&name), "{name}");
    }
    assert_eq!(seen["authorization"], "Bearer theirs", "an engine may have keys of its own");
    let id = answer.header("x-request-id").unwrap();
    assert!(id.starts_with("req-") && seen["x-request-id"] == id, "an id that is too long is replaced for all");
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn chunks_that_arrive_together_leave_together() {
    let pod = FakePod::start("a", Script::Burst(50)).await;
    let (gateway, _) = gateway(&[&pod]).await;
    let headers =
        format!("connection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", STREAMED.len());
    let answer = ends(gateway.address(), &format!("{}{STREAMED}", chat(&headers))).await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.matches("data: ").count(), 51, "{body}");
    // Every other line is the length of what follows; the last one is 0.
    let chunks = body.split("\r\n").filter(|line| u32::from_str_radix(line, 16).is_ok_and(|bytes| bytes > 0)).count();
    assert!(chunks <= 5, "{chunks} chunks:\n{body}");
}

#[tokio::test]
async fn requests_that_follow_each_other_are_answered_in_order() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, _) = gateway(&[&pod]).await;
    let mut stream = connect(gateway.address()).await;
    let first = chat(&format!("content-length: {}\r\nx-request-id: first\r\n", CHAT.len())) + CHAT;
    // In pieces of any size, the last one empty.
    let (head, tail) = CHAT.split_at(20);
    let chunked = format!("{:x}\r\n{head}\r\n{:x}\r\n{tail}\r\n0\r\n\r\n", head.len(), tail.len());
    let second = chat("transfer-encoding: chunked\r\nx-request-id: second\r\n") + &chunked;
    let third = "GET /health HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(format!("{first}{second}{third}").as_bytes()).await.unwrap();
    reads(
        &mut stream,
        &["200 OK", "x-request-id: first", WHOLE, "200 OK", "x-request-id: second", WHOLE, "\"healthy\":1"],
    )
    .await;
    assert!(pod.seen().iter().all(|(_, body)| body == CHAT) && pod.seen().len() == 2);
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_body_whose_length_is_not_clear_is_never_passed_on_as_two() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, _) = gateway(&[&pod]).await;
    let smuggled = "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n";
    for headers in
        ["content-length: 4\r\ncontent-length: 5\r\n", "transfer-encoding: chunked, gzip\r\n", "content-length: +4\r\n"]
    {
        let answer = ends(gateway.address(), &(chat(headers) + smuggled)).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{headers}{answer}");
    }
    // Chunks count, whatever length is said besides. A server may also refuse it; what may not be is an answer to the rest.
    let chunked = format!("{:x}\r\n{CHAT}\r\n0\r\n\r\n", CHAT.len());
    let both = format!("connection: close\r\ncontent-length: {}\r\ntransfer-encoding: chunked\r\n", chunked.len() + 3);
    ends(gateway.address(), &(chat(&both) + &chunked)).await;
    for (headers, body) in pod.seen() {
        assert_eq!((&*body, headers["content-length"].to_str().unwrap()), (CHAT.as_bytes(), &*CHAT.len().to_string()));
        assert!(!headers.contains_key("transfer-encoding"));
    }
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_before_it_sends() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let gateway = hurried(&pod, |config| config.limits.max_request_bytes = 200).await;
    let mut stream = connect(gateway.address()).await;
    let asks = |length: usize| chat(&format!("expect: 100-continue\r\ncontent-length: {length}\r\n"));
    stream.write_all(asks(CHAT.len()).as_bytes()).await.unwrap();
    reads(&mut stream, &["HTTP/1.1 100 Continue\r\n\r\n"]).await;
    stream.write_all(CHAT.as_bytes()).await.unwrap();
    reads(&mut stream, &["HTTP/1.1 200 OK", WHOLE]).await;
    let refused = ends(gateway.address(), &asks(201)).await;
    assert!(refused.starts_with("HTTP/1.1 413"), "{refused}");
    // Who does not say how much it is finds out on the way.
    let endless = chat("transfer-encoding: chunked\r\n") + &format!("{:x}\r\n{}\r\n", 150, " ".repeat(150)).repeat(2);
    let refused = ends(gateway.address(), &endless).await;
    assert!(refused.starts_with("HTTP/1.1 413") && refused.contains("connection: close"), "{refused}");
    assert_eq!((pod.seen().len(), gateway.state().totals.in_flight), (1, 0));
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn other_methods_and_paths_have_plain_answers() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, _) = gateway(&[&pod]).await;
    for (method, path, status) in [
        ("HEAD", "/health", 200),
        ("HEAD", "/v1/models", 200),
        ("HEAD", "/v1/chat/completions", 405),
        ("OPTIONS", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/v1", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("GET", "/../etc/passwd", 404),
        ("GET", "http://elsewhere/secret", 404),
    ] {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        let answer = ends(gateway.address(), &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}: {answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(head.contains("allow: "), status == 405, "{method} {path}: {answer}");
        assert_eq!(body.is_empty(), method == "HEAD", "{method} {path}: {answer}");
    }
    assert!(pod.seen().is_empty());
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_more_does_not_hold_its_pod_for_ever() {
    let pod = FakePod::start("a", Script::Endless).await;
    let gateway = hurried(&pod, |config| config.timeouts.client_idle_timeout = Duration::from_millis(300)).await;
    let mut stream = connect(gateway.address()).await;
    stream.write_all((chat(&format!("content-length: {}\r\n", STREAMED.len())) + STREAMED).as_bytes()).await.unwrap();
    reads(&mut stream, &["200 OK"]).await;
    // It stays, and reads no more.
    until("the gateway to give it up", || gateway.state().totals.cancelled == 1).await;
    let state = gateway.state();
    assert_eq!((state.totals.in_flight, state.pods[0].in_flight), (0, 0));
    drop(stream);
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn the_total_timeout_holds_for_a_client_that_reads_nothing() {
    let pod = FakePod::start("a", Script::Endless).await;
    let gateway = hurried(&pod, |config| config.timeouts.request_timeout = Duration::from_secs(1)).await;
    let mut stream = connect(gateway.address()).await;
    stream.write_all((chat(&format!("content-length: {}\r\n", STREAMED.len())) + STREAMED).as_bytes()).await.unwrap();
    reads(&mut stream, &["200 OK"]).await;
    // Nothing polls its answer, which is half a minute from its own timeout.
    until("the pod to be let go", || gateway.state().pods[0].in_flight == 0).await;
    assert_eq!(gateway.state().totals.cancelled, 0, "its client is still there");
    drop(stream);
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_client_that_sends_a_byte_now_and_then_is_not_waited_for() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let gateway = hurried(&pod, |config| config.timeouts.body_timeout = Duration::from_secs(1)).await;
    let stream = connect(gateway.address()).await;
    stream.set_nodelay(true).unwrap();
    let (mut reader, mut writer) = stream.into_split();
    writer.write_all(chat("content-length: 100000\r\n").as_bytes()).await.unwrap();
    // Each byte in time, and all of them never.
    let dripping = tokio::spawn(async move {
        while writer.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut answer = [0; 12];
    within("an answer", reader.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    until("the request to be over", || gateway.state().uploads.count == 0).await;
    dripping.abort();
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn there_are_only_so_many_connections() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let gateway = hurried(&pod, |config| config.limits.max_connections = 1).await;
    let mut first = connect(gateway.address()).await;
    let asks = "GET /health HTTP/1.1\r\nhost: x\r\n\r\n";
    first.write_all(asks.as_bytes()).await.unwrap();
    reads(&mut first, &["\"healthy\":1"]).await;
    let mut second = connect(gateway.address()).await;
    second.write_all(asks.as_bytes()).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(200), second.readable()).await;
    assert!(early.is_err(), "it waits for its turn");
    drop(first);
    reads(&mut second, &["\"healthy\":1"]).await;
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn whoever_leaves_at_whatever_moment_is_counted_out() {
    let pod = FakePod::start("a", Script::Gated(&["data: 1\n\n"])).await;
    let (gateway, client) = gateway(&[&pod]).await;
    let whole = chat(&format!("content-length: {}\r\n", STREAMED.len())) + STREAMED;
    // In the head, in the body, right behind it, and with the answer under way.
    for sent in [10, whole.len() - 5, whole.len()] {
        let mut stream = connect(gateway.address()).await;
        stream.write_all(&whole.as_bytes()[..sent]).await.unwrap();
        drop(stream);
    }
    pod.answers(Script::Whole(WHOLE));
    assert_eq!(Client::new(gateway.address()).chat().await.status, 200);
    until("all to be over", || {
        let state = gateway.state();
        let none_under_way = state.totals.in_flight == 0 && state.uploads.count == 0;
        none_under_way && state.pods[0].in_flight == 0 && state.active_requests.is_empty()
    })
    .await;
    drop(client);
    gateway.drain(Duration::ZERO).await;
}
