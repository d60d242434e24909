//! Stopping: streams end, nobody new is let in, and nothing is left.

use std::time::Duration;

use pointsman_gateway::Gateway;

use super::fixture::{Client, EVENTS, FakePod, STREAMED, Script, WHOLE, config, gateway, piece, until, within};

#[tokio::test]
async fn streams_end_new_requests_are_refused_and_nothing_is_left() {
    let pod = FakePod::start("a", Script::Gated(EVENTS)).await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let baseline = alive();
    let (gateway, client) = gateway(&[&pod]).await;
    let address = gateway.address();
    let mut body = client.begin("/v1/chat/completions", STREAMED, &[]).await.into_body();
    assert_eq!(piece(&mut body).await.unwrap().unwrap(), EVENTS[0]);
    let draining = tokio::spawn(gateway.drain(Duration::from_secs(30)));
    let late = Client::new(address);
    within("a drain to begin", async { while late.get("/health").await.status != 503 {} }).await;
    assert_eq!(late.get("/health").await.json()["status"], "draining");
    let refused = late.chat().await;
    assert_eq!((refused.status, refused.header("connection")), (503, Some("close")));
    assert_eq!(refused.json()["error"]["code"], "draining");
    pod.let_go(2);
    let mut rest = String::new();
    while let Some(piece) = piece(&mut body).await {
        rest.push_str(&piece.unwrap());
    }
    assert_eq!(rest, EVENTS[1..].concat());
    let drained = within("the drain", draining).await.unwrap();
    assert_eq!(drained.truncated, 0);
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens");
    drop((client, late, body));
    until("all tasks to end", || alive() <= baseline).await;
}

#[tokio::test]
async fn a_stream_that_takes_too_long_ends_with_an_error_of_its_own_frame() {
    let pod = FakePod::start("a", Script::Gated(&["data: {\"a\":1}\n\ndata: {\"b", "\":2}\n\n"])).await;
    let (gateway, client) = gateway(&[&pod]).await;
    let mut body = client.begin("/v1/chat/completions", STREAMED, &[]).await.into_body();
    piece(&mut body).await.unwrap().unwrap();
    let drained = within("the drain", gateway.drain(Duration::from_millis(50))).await;
    assert_eq!(drained.truncated, 1);
    let mut rest = String::new();
    while let Some(piece) = piece(&mut body).await {
        rest.push_str(&piece.unwrap());
    }
    assert!(rest.starts_with("\n\ndata: {\"error\":") && rest.ends_with("data: [DONE]\n\n"), "{rest}");
    pod.left().await;
}

/// Balancers need a while to notice; until then clients come here.
#[tokio::test]
async fn readiness_goes_first_and_requests_are_served_until_the_drain() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let mut config = config(&[&pod]);
    config.internal.listen = Some(([127, 0, 0, 1], 0).into());
    let gateway = Gateway::start(config).await.unwrap();
    let listeners = [gateway.address(), gateway.internal_address().unwrap()].map(Client::new);
    for client in &listeners {
        for path in ["/livez", "/readyz", "/health"] {
            assert_eq!(client.get(path).await.status, 200, "{path}");
        }
    }
    pod.is_healthy(false);
    until("the pod to be ill", || !gateway.state().pods[0].healthy).await;
    for client in &listeners {
        assert_eq!((client.get("/livez").await.status, client.get("/readyz").await.status), (200, 503));
        assert_eq!(client.get("/readyz").await.text(), "no healthy pod");
    }
    pod.is_healthy(true);
    until("the pod to be well", || gateway.state().pods[0].healthy).await;

    gateway.withdraw();
    // On a connection that is open, and on a new one.
    for client in [&listeners[0], &Client::new(gateway.address())] {
        let answer = client.chat().await;
        assert_eq!((answer.status, answer.header("connection")), (200, None));
    }
    for client in &listeners {
        assert_eq!((client.get("/livez").await.status, client.get("/readyz").await.status), (200, 503));
        assert_eq!((client.get("/health").await.status, client.get("/readyz").await.text()), (503, "draining"));
    }
    assert!(gateway.state().draining);
    gateway.drain(Duration::ZERO).await;
}

/// A document is read whole before its head is sent; that does not hold a drain up.
#[tokio::test]
async fn a_document_that_does_not_end_is_answered_at_the_timeout() {
    let pod = FakePod::start("a", Script::Stuck).await;
    let (gateway, client) = gateway(&[&pod]).await;
    let asked = tokio::spawn(async move { client.chat().await });
    until("the pod to be asked", || !pod.seen().is_empty()).await;
    let began = std::time::Instant::now();
    let drained = within("the drain", gateway.drain(Duration::from_millis(50))).await;
    assert!(drained.truncated == 1 && began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let answer = asked.await.unwrap();
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (503, Some("draining")));
}

#[tokio::test]
async fn a_gateway_that_is_dropped_leaves_nothing_behind() {
    let pod = FakePod::start("a", Script::Gated(EVENTS)).await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let baseline = alive();
    let (gateway, client) = gateway(&[&pod]).await;
    let mut body = client.begin("/v1/chat/completions", STREAMED, &[]).await.into_body();
    piece(&mut body).await.unwrap().unwrap();
    drop(gateway);
    pod.left().await;
    drop((body, client));
    until("all tasks to end", || alive() <= baseline).await;
}
