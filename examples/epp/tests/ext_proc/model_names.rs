//! Models' names: what takes their place on the way to pods, and the client's own name in the answer.

use std::sync::Arc;

use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpTrailers, ProcessingRequest};
use pointsman_epp::{ModelRewrites, Picker, PickerOptions, RewriteRule, RewriteRules};

use crate::fixture::{Exchange, Fixture, builder, modes, request_headers, status, streamed};

/// A picker that has `v2` take the place of `chat`.
async fn fixture() -> Fixture {
    fixture_of(vec!["chat".to_owned()]).await
}

/// The same for these models; for all, if there are none.
async fn fixture_of(models: Vec<String>) -> Fixture {
    let mut rule = RewriteRule::default();
    (rule.resource, rule.models) = ("canary".into(), models);
    rule.targets = vec![("v2".to_owned(), None)];
    let rules = ModelRewrites::default();
    rules.store(Arc::new(RewriteRules::new([rule])));
    let picker = Picker::new(builder(2).build().unwrap(), PickerOptions::default());
    Fixture::of(Arc::new(picker.model_rewrites(rules))).await
}

/// What goes on in the place of a piece of an answer.
async fn piece(exchange: &mut Exchange, piece: &str, end_of_stream: bool) -> String {
    let body = HttpBody { body: piece.into(), end_of_stream, ..HttpBody::default() };
    exchange.send(Request::ResponseBody(body)).await;
    let Some(Response::ResponseBody(answer)) = exchange.next().await else { panic!("no body") };
    String::from_utf8(streamed(answer.response.unwrap()).0).unwrap()
}

#[tokio::test]
async fn a_rule_goes_before_the_header_and_the_client_reads_its_own_name() {
    let fixture = fixture().await;
    let mut exchange = fixture.open().await;
    exchange.post("/v1/completions", &[("x-llm-d-model-name-rewrite", "other")]).await;
    exchange.body(r#"{"prompt":"p", "model":"chat"}"#, true).await;
    exchange.picked().await;
    assert_eq!(exchange.request_body().await.0, r#"{"prompt":"p", "model":"v2"}"#);
    exchange.answers("200", "text/event-stream", None).await;
    assert_eq!(
        piece(&mut exchange, "data: {\"model\":\"v2\"}\n\ndata: {\"mod", false).await,
        "data: {\"model\":\"chat\"}\n\ndata: {"
    );
    assert_eq!(piece(&mut exchange, "el\": \"v2\"}\n\n", false).await, "\"model\": \"chat\"}\n\n");
    assert_eq!(piece(&mut exchange, "data: [DONE]\n\n", true).await, "data: [DONE]\n\n");
    let page = fixture.picker.metrics_page();
    let counted = r#"{model_rewrite_name="canary",model_name="chat",target_model="v2"} 1"#;
    for name in ["inference_extension_model_rewrite_decisions_total", "llm_d_epp_model_rewrite_decisions_total"] {
        assert!(page.contains(&format!("\n{name}{counted}\n")), "{page}");
    }
    assert!(page.contains(r#"request_total{model_name="chat",target_model_name="v2","#), "{page}");
}

/// A request by such a name that the header replaces, and the answer's headers.
async fn renamed(fixture: &Fixture, client: &str) -> Exchange {
    let mut exchange = fixture.open().await;
    exchange.post("/v1/completions", &[("x-llm-d-model-name-rewrite", "v2")]).await;
    exchange.body(format!(r#"{{"prompt":"p","model":"{client}"}}"#), true).await;
    exchange.picked().await;
    assert_eq!(exchange.request_body().await.0, r#"{"prompt":"p","model":"v2"}"#);
    exchange.answers("200", "text/event-stream", None).await;
    exchange
}

#[tokio::test]
async fn an_answer_that_grew_by_names_goes_on_in_pieces_that_envoy_takes() {
    let fixture = fixture().await;
    let client = "n".repeat(200);
    let mut exchange = renamed(&fixture, &client).await;
    let event = "data: {\"model\":\"v2\"}\n\n";
    let body = HttpBody { body: event.repeat(1_000).into(), end_of_stream: true, ..HttpBody::default() };
    exchange.send(Request::ResponseBody(body)).await;
    let (mut all, mut is_last) = (Vec::new(), false);
    while !is_last {
        let Some(Response::ResponseBody(answer)) = exchange.next().await else { panic!("no body") };
        let piece;
        (piece, is_last) = streamed(answer.response.unwrap());
        assert!(piece.len() <= 64_000, "{}", piece.len());
        all.extend(piece);
    }
    assert_eq!(String::from_utf8(all).unwrap(), event.replace("v2", &client).repeat(1_000));
}

#[tokio::test]
async fn a_name_that_would_make_each_event_long_is_not_written_back() {
    let fixture = fixture().await;
    let mut exchange = renamed(&fixture, &"n".repeat(10_000)).await;
    exchange.passes("data: {\"model\":\"v2\"}\n\n", true).await;
    let page = fixture.picker.metrics_page();
    assert!(!page.contains("nnnn") && page.contains(r#"attempts_total{status="success",target_model_name="v2","#));
}

#[tokio::test]
async fn a_body_that_names_no_model_is_given_none() {
    let fixture = fixture_of(Vec::new()).await;
    for body in [r#"{"prompt":"p"}"#, r#"{"prompt":"p","model":7}"#, r#"{"prompt":"p","model":null}"#] {
        for headers in [&[][..], &[("x-llm-d-model-name-rewrite", "other")]] {
            let mut exchange = fixture.open().await;
            exchange.post("/v1/completions", headers).await;
            exchange.body(body, true).await;
            assert_eq!(status(&exchange.refused().await), 400, "{body}");
        }
    }
}

#[tokio::test]
async fn a_model_without_a_rule_passes_as_it_is() {
    let fixture = fixture().await;
    let mut exchange = fixture.open().await;
    exchange.post("/v1/completions", &[]).await;
    exchange.body(r#"{"prompt":"p","model":"v2"}"#, true).await;
    exchange.picked().await;
    assert_eq!(exchange.request_body().await.0, r#"{"prompt":"p","model":"v2"}"#);
    exchange.answers("200", "application/json", None).await;
    exchange.passes(r#"{"model":"v2"}"#, true).await;
}

#[tokio::test]
async fn what_is_held_back_goes_on_before_trailers() {
    let fixture = fixture().await;
    let mut exchange = fixture.open().await;
    exchange.post("/v1/completions", &[]).await;
    exchange.body(r#"{"prompt":"p","model":"chat"}"#, true).await;
    exchange.picked().await;
    exchange.request_body().await;
    exchange.answers("200", "application/json", None).await;
    assert_eq!(piece(&mut exchange, r#"{"model":"#, false).await, "{");
    exchange.send(Request::ResponseTrailers(HttpTrailers::default())).await;
    let Some(Response::ResponseBody(answer)) = exchange.next().await else { panic!("no body") };
    assert_eq!(streamed(answer.response.unwrap()), (br#""model":"#.to_vec(), false));
    assert!(matches!(exchange.next().await, Some(Response::ResponseTrailers(_))));
}

/// In the modes in which Envoy keeps bodies.
#[tokio::test]
async fn a_piece_that_envoy_keeps_is_replaced() {
    const STREAMED: i32 = 1;
    const BUFFERED: i32 = 2;
    for (mode, length) in [(STREAMED, None), (BUFFERED, Some("16"))] {
        let fixture = fixture().await;
        let mut exchange = fixture.open().await;
        let headers = request_headers("POST", "/v1/completions", &[], false);
        let (request, protocol_config) = (Some(Request::RequestHeaders(headers)), modes(BUFFERED, mode));
        exchange.send_with(ProcessingRequest { request, protocol_config, ..ProcessingRequest::default() }).await;
        exchange.next().await;
        exchange.body(r#"{"prompt":"p","model":"chat"}"#, true).await;
        exchange.next().await;
        exchange.answers("200", "application/json", None).await;
        for (answer, expected) in [(r#"{"x":1}"#, None), (r#"{"model":"v2"}"#, Some(r#"{"model":"chat"}"#))] {
            let body = HttpBody { body: answer.into(), end_of_stream: expected.is_some(), ..HttpBody::default() };
            exchange.send(Request::ResponseBody(body)).await;
            let Some(Response::ResponseBody(body)) = exchange.next().await else { panic!("no body") };
            let Some(common) = body.response else {
                assert_eq!(expected, None, "it passes");
                continue;
            };
            assert_eq!(common.body_mutation.unwrap().mutation, expected.map(|body| Mutation::Body(body.into())));
            let headers = common.header_mutation.map(|headers| headers.set_headers).unwrap_or_default();
            let set = headers.into_iter().map(|option| String::from_utf8(option.header.unwrap().raw_value).unwrap());
            assert_eq!(set.collect::<Vec<_>>(), Vec::from_iter(length));
        }
    }
}
