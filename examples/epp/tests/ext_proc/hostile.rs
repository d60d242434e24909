//! Messages that no proxy should send: none of them panics, hangs or leaks.

use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders, HttpTrailers, ProcessingRequest};
use pointsman_epp::PickerOptions;
use pointsman_test_support::SplitMix64;

use crate::fixture::{BODY, Fixture, builder, modes, request_headers};

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
