//! Flow control: requests wait for room, are shed with the status that they should have, and leave the queue with their clients.

use std::num::NonZeroU32;
use std::time::Duration;

use pointsman::core::flow::{BandConfig, FlowConfig, FlowControl, QueueLimits};
use pointsman::plugins::flow::{ConcurrencyDetector, ConcurrencyLimits};
use pointsman_epp::PickerOptions;

use crate::fixture::{BODY, Fixture, builder, immediate_header, status};

/// One pod that takes one request, and so many may wait.
async fn fixture(waiting: usize) -> Fixture {
    with_options(waiting, PickerOptions::default()).await
}

async fn with_options(waiting: usize, options: PickerOptions) -> Fixture {
    let router = builder(1).flow_control(move |state| {
        let limits = ConcurrencyLimits::default().requests(NonZeroU32::MIN);
        let band = BandConfig::new("all").limits(QueueLimits::default().requests(waiting));
        Ok(FlowControl::new(FlowConfig::default().band(band)).detector(ConcurrencyDetector::new(limits, state)))
    });
    Fixture::new(router, options).await
}

fn waiting(fixture: &Fixture) -> usize {
    fixture.router().flow_status(0).iter().map(|band| band.requests).sum()
}

#[tokio::test]
async fn a_request_waits_for_the_one_before_it() {
    let fixture = fixture(10).await;
    let (mut first, _) = fixture.picked(BODY).await;
    let mut second = fixture.open().await;
    second.post("/v1/completions", &[("x-llm-d-inference-fairness-id", "tenant")]).await;
    second.body(BODY, true).await;
    fixture.until("it waits", |fixture| waiting(fixture) == 1).await;
    assert_eq!(fixture.router().flow_status(1)[0].keys, [("tenant".into(), 1)]);
    first.request_body().await;
    first.answers("200", "application/json", None).await;
    first.passes("{}", true).await;
    second.picked().await;
    assert_eq!((waiting(&fixture), fixture.in_flight(1)), (0, 1));
}

/// llm-d: with `agent-identity` an agent's session is a flow, unless its client names another.
#[tokio::test]
async fn an_agents_session_shares_as_one_unless_it_says_otherwise() {
    let mut options = PickerOptions::default();
    options.agent_headers = vec!["x-first".to_owned(), "x-second".to_owned()];
    let fixture = with_options(10, options).await;
    let (_first, _) = fixture.picked(BODY).await;
    let mut waits = Vec::new();
    let (second, first, own) = (("x-second", "b"), ("x-first", "a"), ("x-llm-d-inference-fairness-id", "own"));
    for headers in [&[second][..], &[second, first], &[first, own], &[]] {
        let exchange = fixture.open().await;
        exchange.post("/v1/completions", headers).await;
        exchange.body(BODY, true).await;
        waits.push(exchange);
    }
    fixture.until("all wait", |fixture| waiting(fixture) == 4).await;
    let mut keys = fixture.router().flow_status(9)[0].keys.clone();
    keys.sort();
    assert_eq!(keys, [("".into(), 1), ("a".into(), 1), ("b".into(), 1), ("own".into(), 1)]);
}

#[tokio::test]
async fn who_leaves_while_waiting_is_out_of_the_queue() {
    let fixture = fixture(10).await;
    let (_first, _) = fixture.picked(BODY).await;
    let second = fixture.open().await;
    second.post("/v1/completions", &[]).await;
    second.body(BODY, true).await;
    fixture.until("it waits", |fixture| waiting(fixture) == 1).await;
    second.leave();
    fixture.until("it is gone", |fixture| waiting(fixture) == 0).await;
}

#[tokio::test]
async fn whoever_finds_the_queue_full_is_told_when_to_come_again() {
    let fixture = fixture(1).await;
    let (_first, _) = fixture.picked(BODY).await;
    let second = fixture.open().await;
    second.post("/v1/completions", &[]).await;
    second.body(BODY, true).await;
    fixture.until("it waits", |fixture| waiting(fixture) == 1).await;
    let mut third = fixture.open().await;
    third.post("/v1/completions", &[]).await;
    third.body(BODY, true).await;
    let immediate = third.refused().await;
    assert_eq!(status(&immediate), 429);
    let seconds: u64 = immediate_header(&immediate, "retry-after").unwrap().parse().unwrap();
    assert!(Duration::from_secs(seconds) <= Duration::from_secs(120));
    assert!(immediate_header(&immediate, "x-llm-d-request-dropped-reason").is_some());
    let error: serde_json::Value = serde_json::from_slice(&immediate.body).unwrap();
    assert!(error["error"]["message"].is_string());
}
