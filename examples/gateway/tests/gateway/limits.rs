//! What is too much is refused, and says so.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::fixture::{CHAT, Client, EVENTS, FakePod, STREAMED, Script, WHOLE, config, piece, within};
use pointsman_gateway::Gateway;

#[tokio::test]
async fn a_body_that_is_too_large_is_a_413() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let mut config = config(&[&pod]);
    config.limits.max_request_bytes = 200;
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    let answer = client.post("/v1/chat/completions", &format!("{CHAT}{}", " ".repeat(300)), &[]).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (413, &"request_body".into()));
    assert_eq!(client.chat().await.status, 200);
    assert_eq!(pod.seen().len(), 1);
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_a_431() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let mut config = config(&[&pod]);
    config.limits.max_request_headers_bytes = 8192;
    let gateway = Gateway::start(config).await.unwrap();
    let mut stream = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
    let head = format!("GET /health HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "x".repeat(20_000));
    // The gateway may close before it has read all of it.
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = [0; 12];
    within("an answer", stream.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn more_requests_than_there_is_room_for_are_told_to_come_back() {
    let pod = FakePod::start("a", Script::Gated(EVENTS)).await;
    let mut config = config(&[&pod]);
    config.limits.max_requests = 1;
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    let mut first = client.begin("/v1/chat/completions", STREAMED, &[]).await.into_body();
    piece(&mut first).await.unwrap().unwrap();
    let refused = client.chat().await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(refused.json()["error"]["code"], "busy");
    pod.let_go(2);
    while piece(&mut first).await.is_some() {}
    drop(first);
    pod.answers(Script::Whole(WHOLE));
    super::fixture::until("room", || gateway.state().totals.in_flight == 0).await;
    assert_eq!(client.chat().await.status, 200);
    gateway.drain(Duration::ZERO).await;
}
