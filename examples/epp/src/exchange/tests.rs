//! Exchanges by themselves: when what an answer tells is looked at.

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders};
use pointsman::{PodSpec, Router};

use super::*;
use crate::picker::PickerOptions;

fn picker() -> Arc<Picker> {
    let router = Router::builder("m").any_adapter().pod(PodSpec::new("a", "10.0.0.1:8000")).build().unwrap();
    Arc::new(Picker::new(router, PickerOptions::default()))
}

fn headers(pairs: &[(&str, &str)]) -> HttpHeaders {
    let header = |(key, value): &(&str, &str)| HeaderValue {
        key: (*key).into(),
        raw_value: value.as_bytes().into(),
        ..HeaderValue::default()
    };
    HttpHeaders { headers: Some(HeaderMap { headers: pairs.iter().map(header).collect() }), ..HttpHeaders::default() }
}

fn whole(body: &str) -> HttpBody {
    HttpBody { body: body.into(), end_of_stream: true, ..HttpBody::default() }
}

/// An exchange that all messages were shown of, up to the end of the answer.
async fn answered(picker: &Arc<Picker>) -> Exchange {
    let (mut exchange, mut outbox) = (Exchange::new(Arc::clone(picker)), Outbox::new());
    for (request, said) in [
        (Request::RequestHeaders(headers(&[(":method", "POST"), (":path", "/v1/completions")])), 0),
        (Request::RequestBody(whole(r#"{"model":"m","prompt":"Hello"}"#)), 2),
        (Request::ResponseHeaders(headers(&[(":status", "200"), ("content-type", "application/json")])), 1),
        (Request::ResponseBody(whole("{}")), 1),
    ] {
        let message = ProcessingRequest { request: Some(request), ..ProcessingRequest::default() };
        exchange.handle(message, &mut outbox).await;
        assert_eq!(outbox.drain(..).count(), said, "it is said before anything is looked at");
    }
    assert!(exchange.is_behind() && !exchange.is_over());
    assert_eq!(picker.metrics().answers(), (0, 0));
    exchange
}

fn assert_ended(picker: &Picker) {
    assert_eq!(picker.metrics().answers(), (1, 0));
    assert!(picker.metrics_page().contains("answers_cancelled_total 0\n"));
    let pod = picker.router().pod("a").unwrap();
    assert_eq!(picker.router().plugin_state().load.in_flight(pod.id()).requests, 0);
}

#[tokio::test]
async fn an_answer_goes_on_before_it_is_looked_at() {
    let picker = picker();
    let mut exchange = answered(&picker).await;
    exchange.look();
    assert!(exchange.is_over() && !exchange.is_behind());
    assert_ended(&picker);
}

#[tokio::test]
async fn whoever_leaves_right_behind_the_end_had_all_of_it() {
    let picker = picker();
    drop(answered(&picker).await);
    assert_ended(&picker);
    let picker = self::picker();
    assert!(!answered(&picker).await.failed(&Status::cancelled("reset"), &mut Outbox::new()));
    assert_ended(&picker);
}
