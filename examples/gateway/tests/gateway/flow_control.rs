//! Flow control in the gateway: who waits, in which order, and what an operator sees of it.

use std::time::Duration;

use pointsman_gateway::{Config, Gateway};
use tokio::task::JoinHandle;

use super::fixture::{CHAT, Client, ClientResponse, EVENTS, FakePod, STREAMED, Script, WHOLE, config, piece, until};

const FLOW: &str = r#"
bands:
  - { name: urgent, priority: 10, time_to_live: 20s }
  - { name: normal, time_to_live: 300ms, limits: { requests: 2 } }
saturation: { concurrency: { requests: 1 } }
"#;
const CLIENTS: &str = r#"
api_keys: [{ name: boss, api_key: secret, priority: 10 }]
key_header: x-tenant
"#;

fn with_flow(pods: &[&FakePod]) -> Config {
    let mut config = config(pods);
    config.flow_control = Some(serde_yaml_ng::from_str(FLOW).unwrap());
    config.clients = serde_yaml_ng::from_str(CLIENTS).unwrap();
    config
}

async fn started(config: Config) -> (Gateway, Client) {
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    (gateway, client)
}

fn post(client: &Client, headers: &'static [(&'static str, &'static str)]) -> JoinHandle<ClientResponse> {
    let client = client.clone();
    tokio::spawn(async move { client.post("/v1/chat/completions", CHAT, headers).await })
}

#[tokio::test]
async fn requests_wait_while_the_pod_is_full_and_the_urgent_one_goes_first() {
    let pod = FakePod::start("a", Script::Gated(EVENTS)).await;
    let (gateway, client) = started(with_flow(&[&pod])).await;
    let waiting = || gateway.state().flow.iter().map(|band| band.requests).collect::<Vec<_>>();
    let mut body = client.begin("/v1/chat/completions", STREAMED, &[]).await.into_body();
    piece(&mut body).await.unwrap().unwrap();
    pod.answers(Script::Whole(WHOLE));

    let boss = post(&client, &[("authorization", "Bearer secret"), ("x-pointsman-explain", "1")]);
    until("the urgent one to wait", || waiting() == [1, 0]).await;
    assert_eq!(gateway.state().flow[0].keys, [("boss".to_owned(), 1)]);
    // Two may wait in the other band, a third may not, and they give up after 300 ms.
    let late: Vec<_> = (0..2).map(|_| post(&client, &[("x-tenant", "t"), ("x-pointsman-explain", "1")])).collect();
    until("two more to wait", || waiting() == [1, 2]).await;
    let full = post(&client, &[("x-tenant", "t"), ("x-pointsman-explain", "1")]).await.unwrap();
    assert_eq!((full.status, full.header("retry-after").is_some()), (429, true));
    assert!(full.text().contains("band_full"), "{}", full.text());
    // Its trace says behind whom, and why it did not wait.
    let flow = flow_of(&full);
    assert_eq!((&flow["band"], &flow["key"], &flow["waited"]), (&"normal".into(), &"t".into(), &"no".into()));
    assert_eq!((&flow["ahead"], &flow["shed"]), (&3.into(), &"band_full".into()));
    let unexplained = post(&client, &[("x-tenant", "t")]).await.unwrap();
    assert_eq!((unexplained.status, unexplained.header("x-pointsman-trace")), (429, None));
    for late in late {
        let late = late.await.unwrap();
        assert_eq!(late.status, 503);
        assert!(late.text().contains("waited for too long"), "{}", late.text());
        let flow = flow_of(&late);
        assert_eq!((&flow["waited"], &flow["shed"]), (&"saturated".into(), &"expired".into()));
        assert!(flow["waited_ms"].as_f64().unwrap() >= 300.0, "{flow}");
    }
    let shed: Vec<_> = gateway.state().decisions.into_iter().filter(|decision| decision.flow.is_some()).collect();
    let outcomes: Vec<&str> = shed.iter().map(|decision| &*decision.outcome).collect();
    assert_eq!(outcomes, ["shed: expired", "shed: expired", "shed: band_full", "shed: band_full"], "newest first");
    assert!(shed[0].steps.is_empty() && shed[0].flow.as_ref().unwrap().waited_ms >= 300.0);
    // A client that leaves, leaves the queue.
    let gone = post(&client, &[]);
    until("one to wait", || waiting() == [1, 1]).await;
    gone.abort();
    until("it to be gone", || waiting() == [1, 0]).await;

    pod.let_go(EVENTS.len());
    while piece(&mut body).await.is_some() {}
    drop(body);
    let answer = boss.await.unwrap();
    assert_eq!(answer.status, 200);
    let trace = answer.header("x-pointsman-trace").unwrap();
    assert!(trace.contains(r#""band":"urgent","key":"boss","waited":"saturated""#), "{trace}");
    let metrics = client.get("/metrics").await;
    for line in [
        r#"pointsman_gateway_flow_requests_total{band="urgent",outcome="waited"} 1"#,
        r#"pointsman_gateway_flow_requests_total{band="normal",outcome="band_full"} 2"#,
        r#"pointsman_gateway_flow_requests_total{band="normal",outcome="expired"} 2"#,
        r#"pointsman_gateway_flow_requests_total{band="normal",outcome="passed"} 1"#,
        r#"pointsman_gateway_flow_requests_total{band="normal",outcome="left"} 1"#,
        r#"pointsman_gateway_flow_key_requests_total{key="t",outcome="shed"} 4"#,
        r#"pointsman_gateway_flow_waiting_requests{model="sim",band="urgent"} 0"#,
    ] {
        assert!(metrics.text().contains(line), "{line} is not in\n{}", metrics.text());
    }
    gateway.drain(Duration::ZERO).await;
}

/// What flow control says in a trace.
fn flow_of(answer: &ClientResponse) -> serde_json::Value {
    let trace: serde_json::Value = serde_json::from_str(answer.header("x-pointsman-trace").unwrap()).unwrap();
    assert_eq!(trace["steps"], serde_json::json!([]));
    trace["flow"].clone()
}

/// Who says for how long its answer is of use, waits no longer; who is larger than all that may wait is not told to come again.
#[tokio::test]
async fn a_deadline_ends_the_wait_and_what_is_too_large_does_not_come_again() {
    let pod = FakePod::start("a", Script::Gated(EVENTS)).await;
    let mut config = with_flow(&[&pod]);
    config.clients = serde_yaml_ng::from_str("deadline_header: x-deadline").unwrap();
    config.flow_control = Some(
        serde_yaml_ng::from_str(
            "bands: [{ name: all, time_to_live: 60s, limits: { bytes: 4000 } }]\nsaturation: { concurrency: { requests: 1 } }",
        )
        .unwrap(),
    );
    let (gateway, client) = started(config).await;
    let mut body = client.begin("/v1/chat/completions", STREAMED, &[]).await.into_body();
    piece(&mut body).await.unwrap().unwrap();
    let late = post(&client, &[("x-deadline", "100"), ("x-pointsman-explain", "1")]).await.unwrap();
    assert_eq!(late.status, 503, "long before its minute");
    let flow = flow_of(&late);
    // It runs from when the request came, a little before it waits.
    assert!((90.0..30_000.0).contains(&flow["waited_ms"].as_f64().unwrap()), "{flow}");
    // What is no number says nothing.
    let waits = post(&client, &[("x-deadline", "soon")]);
    until("it to wait", || gateway.state().flow[0].requests == 1).await;
    waits.abort();
    let large = format!(r#"{{"model":"sim","messages":[{{"role":"user","content":"{}"}}]}}"#, "word ".repeat(1_000));
    let large = client.post("/v1/chat/completions", &large, &[]).await;
    assert_eq!((large.status, large.header("retry-after")), (413, None));
    assert!(large.text().contains("too_large"), "{}", large.text());
    let metrics = client.get("/metrics").await;
    let line = r#"pointsman_gateway_flow_requests_total{band="all",outcome="too_large"} 1"#;
    assert!(metrics.text().contains(line), "{}", metrics.text());
    pod.let_go(EVENTS.len());
    while piece(&mut body).await.is_some() {}
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn settings_are_checked_whole_and_reloaded_while_requests_wait() {
    let pod = FakePod::start("a", Script::Gated(EVENTS)).await;
    let (gateway, client) = started(with_flow(&[&pod])).await;
    let mut body = client.begin("/v1/chat/completions", STREAMED, &[]).await.into_body();
    piece(&mut body).await.unwrap().unwrap();
    pod.answers(Script::Whole(WHOLE));
    let waits = post(&client, &[("x-api-key", "secret")]);
    until("one to wait", || gateway.state().flow[0].requests == 1).await;

    let mut wrong = with_flow(&[&pod]);
    wrong.flow_control = Some(serde_yaml_ng::from_str("bands: [{ name: a, ceiling: 0 }, { name: a }]").unwrap());
    wrong.clients =
        serde_yaml_ng::from_str("{ key_header: 'not a name', api_keys: [{ name: '', api_key: '' }] }").unwrap();
    let error = gateway.reload(wrong).unwrap_err().to_string();
    for part in
        ["a ceiling of 0", "two bands are called `a`", "same priority", "`not a name` is no name", "the key is empty"]
    {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    assert_eq!(gateway.state().flow[0].requests, 1, "nothing changed");
    let mut next = with_flow(&[&pod]);
    next.flow_control = None;
    gateway.reload(next).unwrap();
    assert_eq!(waits.await.unwrap().status, 200, "nobody waits any more");
    assert!(gateway.state().flow.is_empty());
    pod.let_go(EVENTS.len());
    while piece(&mut body).await.is_some() {}
    gateway.drain(Duration::ZERO).await;
}
