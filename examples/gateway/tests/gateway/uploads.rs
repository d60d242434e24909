//! Bodies that come slowly: they have bounds and deadlines of their own, and take nobody's place.

use std::net::SocketAddr;
use std::time::Duration;

use pointsman_gateway::{Config, Gateway};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::{CHAT, Client, FakePod, Script, WHOLE, config, until, within};

/// Begins a chat whose body is as long as said, and of which so much is sent.
async fn upload(address: SocketAddr, length: usize, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{sent}");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// The answer, once the connection is closed.
async fn answer(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    within("the connection to end", stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

async fn start(change: impl FnOnce(&mut Config)) -> (FakePod, Gateway) {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let mut config = config(&[&pod]);
    change(&mut config);
    let gateway = Gateway::start(config).await.unwrap();
    (pod, gateway)
}

#[tokio::test]
async fn two_hundred_slow_uploads_take_nobodys_place() {
    let (_pod, gateway) = start(|config| config.limits.max_requests = 4).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        slow.push(upload(gateway.address(), 1000, " ").await);
    }
    until("all of them to be read", || gateway.state().uploads.count == 200).await;
    let client = Client::new(gateway.address());
    for at in 0..40 {
        // Each of them sends on, a byte at a time.
        slow[at * 5].write_all(b" ").await.unwrap();
        assert_eq!(client.chat().await.status, 200);
    }
    let (state, metrics) = (gateway.state(), client.get("/metrics").await);
    assert_eq!((state.uploads.count, state.uploads.refused, state.totals.in_flight), (200, 0, 0));
    let text = metrics.text();
    assert!(text.contains("pointsman_gateway_uploads 200\n"), "{text}");
    assert!(text.contains("pointsman_gateway_requests_in_flight 0\n"), "{text}");
    drop(slow);
    until("all of them to be over", || gateway.state().uploads.count == 0).await;
    assert_eq!(gateway.state().uploads.bytes, 0);
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn too_many_uploads_or_bytes_of_them_are_told_to_come_back() {
    let limits = |config: &mut Config| {
        (config.limits.max_uploads, config.limits.max_request_bytes, config.limits.max_upload_bytes) = (2, 1000, 1500);
    };
    let (_pod, gateway) = start(limits).await;
    let first = upload(gateway.address(), 1000, &" ".repeat(900)).await;
    until("the first to have arrived", || gateway.state().uploads.bytes == 900).await;
    let second = upload(gateway.address(), 1000, &" ".repeat(700)).await;
    let refused = answer(second).await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: 1\r\n"), "{refused}");
    assert!(refused.contains("\"code\":\"too_many_upload_bytes\""), "{refused}");
    let second = upload(gateway.address(), 1000, "").await;
    until("both to be read", || gateway.state().uploads.count == 2).await;
    let third = answer(upload(gateway.address(), 1000, "").await).await;
    assert!(third.starts_with("HTTP/1.1 503") && third.contains("\"code\":\"too_many_uploads\""), "{third}");
    assert_eq!(gateway.state().uploads.refused, 2);
    drop((first, second));
    until("both to be over", || gateway.state().uploads.count == 0).await;
    assert_eq!(Client::new(gateway.address()).chat().await.status, 200);
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn headers_and_bodies_have_deadlines() {
    let deadlines = |config: &mut Config| {
        let timeouts = &mut config.timeouts;
        (timeouts.headers_timeout, timeouts.body_timeout) = (Duration::from_millis(300), Duration::from_millis(500));
    };
    let (_pod, gateway) = start(deadlines).await;
    let mut headers = TcpStream::connect(gateway.address()).await.unwrap();
    headers.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    assert!(!answer(headers).await.contains("200 OK"), "nobody waits for the rest of them");
    // The idle timeout is far off.
    let body = answer(upload(gateway.address(), 1000, " ").await).await;
    assert!(body.starts_with("HTTP/1.1 408"), "{body}");
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_drain_takes_what_comes_in_soon_and_refuses_what_does_not() {
    let (pod, gateway) = start(|_| {}).await;
    let address = gateway.address();
    let (head, tail) = CHAT.split_at(CHAT.len() - 2);
    let (mut quick, slow) = (upload(address, CHAT.len(), head).await, upload(address, 1000, " ").await);
    until("both to be read", || gateway.state().uploads.count == 2).await;
    let draining = tokio::spawn(gateway.drain(Duration::from_secs(30)));
    let late = Client::new(address);
    within("a drain to begin", async { while late.get("/health").await.status != 503 {} }).await;
    quick.write_all(tail.as_bytes()).await.unwrap();
    let served = answer(quick).await;
    assert!(served.starts_with("HTTP/1.1 200") && served.ends_with(WHOLE), "{served}");
    let refused = answer(slow).await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("\"code\":\"draining\""), "{refused}");
    let drained = within("the drain, long before its timeout", draining).await.unwrap();
    assert_eq!((drained.truncated, pod.seen().len()), (0, 1));
}
