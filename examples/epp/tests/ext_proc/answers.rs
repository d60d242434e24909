//! Answers: they pass as they are, and loads and breakers are true by them; what is learned is in `learned.rs`.

use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpHeaders, HttpTrailers, ProcessingRequest};
use pointsman::exec::BreakerState;
use pointsman_epp::PickerOptions;

use crate::fixture::{BODY, Exchange, Fixture, attributes, builder, header_map, text};

/// One pod, and a request that was sent to it.
async fn sent() -> (Fixture, Exchange) {
    let fixture = Fixture::new(builder(1), PickerOptions::default()).await;
    let exchange = send(&fixture).await;
    (fixture, exchange)
}

async fn send(fixture: &Fixture) -> Exchange {
    let (mut exchange, _) = fixture.picked(BODY).await;
    exchange.request_body().await;
    exchange
}

/// llm-d: "response streaming: SSE token counting".
#[tokio::test]
async fn a_stream_passes_and_counts_until_its_end() {
    let (fixture, mut exchange) = sent().await;
    exchange.answers("200", "text/event-stream", None).await;
    exchange.passes("data: {}\n", false).await;
    exchange.passes("\n", false).await;
    exchange
        .passes(
            "data: {\"usage\":{\"prompt_tokens\":7,\"total_tokens\":17,\"completion_tokens\":10}}\n\ndata: [DONE]\n\n",
            false,
        )
        .await;
    assert_eq!(fixture.in_flight(1), 1);
    exchange.passes("", true).await;
    assert_eq!((fixture.in_flight(1), fixture.picker.metrics().answers()), (0, (1, 0)));
    assert!(exchange.message().await.is_none(), "nothing more is said");
}

/// llm-d: "response buffering: multi-chunk JSON", "invalid JSON", "empty EOS chunk". Ours holds none of them back.
#[tokio::test]
async fn a_whole_answer_passes_piece_by_piece_whatever_is_in_it() {
    for pieces in [&["{\"a\":", "1}"][..], &["no healthy upstream"], &["{}", ""]] {
        let (fixture, mut exchange) = sent().await;
        exchange.answers("200", "application/json", None).await;
        for (at, piece) in pieces.iter().enumerate() {
            exchange.passes(piece, at + 1 == pieces.len()).await;
        }
        assert_eq!((fixture.in_flight(1), fixture.picker.metrics().answers()), (0, (1, 0)));
    }
}

#[tokio::test]
async fn trailers_end_an_answer() {
    let (fixture, mut exchange) = sent().await;
    exchange.answers("200", "application/json", None).await;
    exchange.passes("{}", false).await;
    exchange.send(Request::ResponseTrailers(HttpTrailers::default())).await;
    assert!(matches!(exchange.next().await, Some(Response::ResponseTrailers(_))));
    assert_eq!((fixture.in_flight(1), fixture.picker.metrics().answers()), (0, (1, 0)));
}

#[tokio::test]
async fn a_client_that_leaves_is_no_pods_failure_whenever_it_does() {
    let fixture = Fixture::new(builder(1), PickerOptions::default()).await;
    for stage in 0..40 {
        let mut exchange = send(&fixture).await;
        if stage % 4 > 0 {
            exchange.answers("200", "text/event-stream", None).await;
        }
        if stage % 4 > 1 {
            exchange.passes("data: {}\n\n", false).await;
        }
        if stage % 4 > 2 {
            exchange.half_close();
        }
        exchange.leave();
    }
    fixture.until("all is given back", |fixture| fixture.in_flight(1) == 0).await;
    assert_eq!(fixture.router().pods()[0].breaker.state, BreakerState::Closed);
}

#[tokio::test]
async fn answers_that_a_pod_fails_open_its_breaker_and_a_clients_own_errors_do_not() {
    let cases = [
        ("500", "application/json", "{}", true),
        ("200", "text/event-stream", "data: {}\n\n", true),
        ("200", "text/event-stream", "data: {\"error\":{\"code\":500}}\n\n", true),
        ("503", "application/json", "{}", true),
        ("400", "application/json", "{}", false),
        ("404", "application/json", "{}", false),
    ];
    for (status, kind, body, is_failure) in cases {
        let fixture = Fixture::new(builder(1), PickerOptions::default()).await;
        for _ in 0..40 {
            let mut exchange = send(&fixture).await;
            exchange.answers(status, kind, None).await;
            exchange.passes(body, true).await;
            if fixture.router().pods()[0].breaker.state != BreakerState::Closed {
                break;
            }
        }
        let is_open = fixture.router().pods()[0].breaker.state != BreakerState::Closed;
        assert_eq!(is_open, is_failure, "{status} {body}");
    }
}

/// A proxy that could not reach the pod answers itself, and may say so. What is its own want is not the pod's fault.
#[tokio::test]
async fn an_answer_of_the_proxys_own_is_the_pods_failure_if_it_says_so() {
    for (details, is_failure) in [
        ("upstream_reset_before_response_started{remote_connection_failure}", true),
        ("upstream_reset_before_response_started{connection_timeout}", true),
        ("upstream_response_timeout", true),
        ("upstream_reset_before_response_started{overflow}", false),
        ("request_rate_limited", false),
        ("no_healthy_upstream", false),
    ] {
        let fixture = Fixture::new(builder(1), PickerOptions::default()).await;
        let mut is_open = false;
        for _ in 0..40 {
            let mut exchange = send(&fixture).await;
            let headers = Some(header_map(&[(":status", "503")]));
            let request = Some(Request::ResponseHeaders(HttpHeaders { headers, ..HttpHeaders::default() }));
            let attributes = attributes("response.code_details", text(details));
            exchange.send_with(ProcessingRequest { request, attributes, ..ProcessingRequest::default() }).await;
            exchange.next().await;
            assert_eq!(fixture.in_flight(1), 0);
            exchange.passes("upstream connect error", true).await;
            is_open |= fixture.router().pods()[0].breaker.state == BreakerState::Open;
        }
        assert_eq!(is_open, is_failure, "{details}");
        assert_eq!(fixture.picker.metrics().answers().1 > 0, is_failure, "{details}");
    }
}
