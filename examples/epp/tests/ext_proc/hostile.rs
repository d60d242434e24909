//! Messages that no proxy should send: none of them panics, hangs or leaks.

use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders, HttpTrailers, ProcessingRequest};
use pointsman_epp::PickerOptions;
use pointsman_test_support::SplitMix64;

use crate::fixture::{BODY, Exchange, Fixture, builder, modes, request_headers, status};

const BUFFERED: i32 = 2;

async fn buffering(fixture: &Fixture, headers: &[(&str, &str)]) -> Exchange {
    let exchange = fixture.open().await;
    let request = Some(Request::RequestHeaders(request_headers("POST", "/v1/completions", headers, false)));
    exchange
        .send_with(ProcessingRequest { request, protocol_config: modes(BUFFERED, 0), ..ProcessingRequest::default() })
        .await;
    exchange
}

/// A stream that ends cleanly lets the request go wherever its client wants it: none does before it is decided about.
#[tokio::test]
async fn a_message_beyond_all_bounds_is_a_413_and_no_clean_end() {
    let mut options = PickerOptions::default();
    options.max_body_bytes = 1 << 20;
    let fixture = Fixture::new(builder(2), options).await;
    let mut exchange = buffering(&fixture, &[]).await;
    exchange.next().await;
    exchange.body(&"x".repeat(3 << 20), true).await;
    assert_eq!(status(&exchange.refused().await), 413);
}

#[tokio::test]
async fn trailers_without_a_body_do_not_pass_by_the_picker() {
    let fixture = Fixture::plain().await;
    let forged = [("x-gateway-destination-endpoint", "6.6.6.6:6"), ("x-prefiller-host-port", "6.6.6.6:6")];
    let mut exchange = buffering(&fixture, &forged).await;
    let Some(Response::RequestHeaders(headers)) = exchange.next().await else { panic!("no headers") };
    let removed = headers.response.unwrap().header_mutation.unwrap().remove_headers;
    assert_eq!(removed, forged.map(|(name, _)| name), "at once, whatever follows");
    exchange.trailers().await;
    assert_eq!(status(&exchange.refused().await), 400);
}

#[tokio::test]
async fn bodies_of_all_requests_together_are_bounded_and_their_room_is_given_back() {
    let mut options = PickerOptions::default();
    options.max_buffered_bytes = 1_000;
    let fixture = Fixture::new(builder(2), options).await;
    for _ in 0..3 {
        let first = fixture.open().await;
        first.post("/v1/completions", &[]).await;
        // A byte at a time costs no more than at once.
        for _ in 0..600 {
            first.body("x", false).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let mut second = fixture.open().await;
        second.post("/v1/completions", &[]).await;
        second.body(&"x".repeat(600), false).await;
        assert_eq!(status(&second.refused().await), 503);
        first.leave();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    fixture.picked(BODY).await;
}

/// Bodies that last as long as their answers: what is sent both ways at once goes by its headers.
#[tokio::test]
async fn streams_both_ways_are_not_waited_for() {
    let fixture = Fixture::plain().await;
    for headers in [[("content-type", "application/grpc")], [("upgrade", "websocket")]] {
        let mut exchange = fixture.open().await;
        exchange.post("/any", &headers).await;
        exchange.picked().await;
        for end in [false, true] {
            exchange.body("piece", end).await;
            let Some(Response::RequestBody(body)) = exchange.next().await else { panic!("no body") };
            assert_eq!(crate::fixture::streamed(body.response.unwrap()), (b"piece".to_vec(), end));
        }
    }
}

#[tokio::test]
async fn messages_in_any_order_leave_nothing_behind() {
    let fixture = Fixture::new(builder(2), PickerOptions::default()).await;
    let mut random = SplitMix64::new(7);
    for _ in 0..400 {
        let exchange = fixture.open().await;
        for _ in 0..random.below(8) {
            let end_of_stream = random.below(3) == 0;
            let body = if random.below(2) == 0 { BODY.into() } else { Vec::new() };
            let body = HttpBody { body, end_of_stream, ..HttpBody::default() };
            let request = match random.below(8) {
                0 => Request::RequestHeaders(request_headers("POST", "/v1/completions", &[], end_of_stream)),
                1 => Request::RequestHeaders(HttpHeaders::default()),
                2 | 3 => Request::RequestBody(body),
                4 => Request::RequestTrailers(HttpTrailers::default()),
                5 => Request::ResponseHeaders(HttpHeaders { end_of_stream, ..HttpHeaders::default() }),
                6 => Request::ResponseBody(body),
                _ => Request::ResponseTrailers(HttpTrailers::default()),
            };
            let request = (random.below(10) > 0).then_some(request);
            let any_mode = [0, 1, 2, 3, 4, 5, 99, -1][random.below(8)];
            let protocol_config = modes(any_mode, any_mode).filter(|_| random.below(3) == 0);
            let message = ProcessingRequest { request, protocol_config, ..ProcessingRequest::default() };
            if !exchange.try_send(message).await {
                break;
            }
        }
        exchange.leave();
    }
    fixture.until("nothing counts", |fixture| fixture.in_flight(1) + fixture.in_flight(2) == 0).await;
    // It still serves.
    fixture.picked(BODY).await;
}
