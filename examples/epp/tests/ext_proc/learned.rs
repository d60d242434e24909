//! What answers teach: how much longer each pod takes than the costs say.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::service::ext_proc::v3::ProcessingRequest;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use pointsman::RegisteredPod;
use pointsman_epp::PickerOptions;
use pointsman_epp::picker_config::EstimateTokenizer;

use crate::fixture::{Exchange, Fixture, builder, request_headers, subset};

/// Two pods by the rule that learns, with prompts of estimated tokens.
async fn fixture() -> Fixture {
    let router = builder(2).tokens_given().profile("total_latency");
    let router = router.plugin_state(|state| state.tokenizers(Arc::new(EstimateTokenizer::default())));
    Fixture::new(router, PickerOptions::default()).await
}

/// A streamed request to a pod, of a prompt that nobody has seen.
async fn ask(fixture: &Fixture, turn: usize, pod: usize) -> Exchange {
    let mut exchange = fixture.open().await;
    let request = Some(Request::RequestHeaders(request_headers("POST", "/v1/completions", &[], false)));
    let metadata_context = subset(&[&format!("10.0.0.{pod}:8000")]);
    exchange.send_with(ProcessingRequest { request, metadata_context, ..ProcessingRequest::default() }).await;
    let prompt = format!("{turn} ").repeat(8_000);
    let body = format!(r#"{{"model":"model","prompt":"{prompt}","max_tokens":20,"stream":true}}"#);
    exchange.body(&body, true).await;
    exchange.picked().await;
    exchange.request_body().await;
    exchange
}

/// The first token after so long, and each of the others after so long again.
async fn streams(exchange: &mut Exchange, first: Duration, each: Duration) {
    tokio::time::sleep(first).await;
    exchange.answers("200", "text/event-stream", None).await;
    // With the tokens so far in each event, as engines tell them if asked to.
    for at in 1..=20 {
        let usage =
            format!(r#""usage":{{"prompt_tokens":16000,"completion_tokens":{at},"total_tokens":{}}}"#, 16_000 + at);
        exchange.passes(&format!("data: {{\"choices\":[{{\"index\":0,\"text\":\"a\"}}],{usage}}}\n\n"), false).await;
        tokio::time::sleep(each).await;
    }
}

async fn ends(mut exchange: Exchange) {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":16000,"completion_tokens":20,"total_tokens":16020}}"#;
    exchange.passes(&format!("data: {usage}\n\ndata: [DONE]\n\n"), false).await;
    exchange.passes("", true).await;
}

fn entry(fixture: &Fixture, pod: usize) -> RegisteredPod {
    let name = format!("pod-{pod}");
    fixture.router().pods().into_iter().find(|entry| entry.spec.name == name).unwrap()
}

/// Pod 2 takes ten times as long for everything, of which a busy machine leaves something.
#[tokio::test]
async fn the_pod_that_streams_more_slowly_has_the_higher_pace() {
    let fixture = fixture().await;
    for turn in 0..16 {
        let pod = 1 + turn % 2;
        let slower = if pod == 2 { 10 } else { 1 };
        let mut exchange = ask(&fixture, turn, pod).await;
        streams(&mut exchange, slower * Duration::from_millis(20), slower * Duration::from_millis(2)).await;
        ends(exchange).await;
    }
    let (fast, slow) = (entry(&fixture, 1), entry(&fixture, 2));
    assert!(slow.pace > 1.2 * fast.pace, "first tokens: {} and {}", fast.pace, slow.pace);
    assert!(slow.decode_pace > 1.2 * fast.decode_pace, "others: {} and {}", fast.decode_pace, slow.decode_pace);
}

/// An answer that broke off says nothing of how long its tokens take, nor of how many there are.
#[tokio::test]
async fn an_answer_that_breaks_off_teaches_nothing_of_decoding() {
    let fixture = fixture().await;
    let before = [1, 2].map(|pod| entry(&fixture, pod).decode_pace);
    for turn in 0..6 {
        let mut exchange = ask(&fixture, turn, 1 + turn % 2).await;
        // Its head alone: no token came, and so there is nothing to learn of first ones either.
        exchange.answers("200", "text/event-stream", None).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        exchange.leave();
    }
    fixture.until("given back", |fixture| fixture.in_flight(1) + fixture.in_flight(2) == 0).await;
    assert_eq!([1, 2].map(|pod| entry(&fixture, pod).pace), [1.0, 1.0]);
    for turn in 6..12 {
        let mut exchange = ask(&fixture, turn, 1 + turn % 2).await;
        streams(&mut exchange, Duration::from_millis(20), Duration::from_millis(5)).await;
        exchange.leave();
    }
    fixture.until("given back", |fixture| fixture.in_flight(1) + fixture.in_flight(2) == 0).await;
    // What they tell of first tokens is true, and of decoding nothing was seen: it is what first tokens make of it.
    let paces = [1, 2].map(|pod| entry(&fixture, pod));
    for (pod, before) in paces.iter().zip(before) {
        let guessed = pod.pace * before;
        assert!((pod.decode_pace - guessed).abs() < 1e-9, "{} instead of {guessed}", pod.decode_pace);
    }
}
