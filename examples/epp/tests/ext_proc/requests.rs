//! Requests: whole and in pieces, without a body, with trailers, in every mode of a proxy.
//!
//! Several restate cases of llm-d's picker (`test/integration/epp/hermetic_test.go` and `common_tests.go`); each says which.

use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, ProcessingRequest};
use pointsman_epp::PickerOptions;

use crate::fixture::{BODY, Fixture, builder, modes, mutation, request_headers, status};

/// llm-d: "split body across chunks". Ours comes back byte for byte, and so in the length that the client announced.
#[tokio::test]
async fn a_body_in_pieces_is_decided_about_once_it_is_whole_and_comes_back_as_it_was() {
    let fixture = Fixture::plain().await;
    for cuts in [1, 7, 30, BODY.len()] {
        let mut exchange = fixture.open().await;
        exchange.post("/v1/completions", &[("hi", "mom")]).await;
        let pieces: Vec<&[u8]> = BODY.as_bytes().chunks(cuts).collect();
        for (at, piece) in pieces.iter().enumerate() {
            exchange.body(std::str::from_utf8(piece).unwrap(), at + 1 == pieces.len()).await;
        }
        let picked = exchange.picked().await;
        assert!(picked.endpoints.starts_with("10.0.0."), "{picked:?}");
        assert_eq!(picked.header("content-length"), None, "its length is as it was");
        assert_eq!(exchange.request_body().await, (BODY.to_owned(), true));
    }
}

#[tokio::test]
async fn a_long_body_goes_on_in_pieces_that_envoy_takes() {
    let fixture = Fixture::plain().await;
    let body = format!(r#"{{"model":"model","prompt":"{}"}}"#, "word ".repeat(60_000));
    let (mut exchange, _) = fixture.picked(&body).await;
    assert_eq!(exchange.request_body().await, (body, true));
}

/// llm-d: "protocol: simple GET (header only)".
#[tokio::test]
async fn a_request_without_a_body_goes_to_any_pod_and_counts_for_nothing() {
    let fixture = Fixture::plain().await;
    let mut exchange = fixture.open().await;
    exchange.send(Request::RequestHeaders(request_headers("GET", "/v1/models", &[], true))).await;
    let picked = exchange.picked().await;
    assert!(picked.endpoints.starts_with("10.0.0."));
    assert_eq!(fixture.in_flight(1) + fixture.in_flight(2), 0);
    exchange.answers("200", "application/json", None).await;
    exchange.passes("{}", true).await;
}

/// llm-d: "no backend pods available" (a 500 there; the protocol says 503).
#[tokio::test]
async fn without_pods_the_answer_is_a_503() {
    let fixture = Fixture::new(builder(0), PickerOptions::default()).await;
    let mut exchange = fixture.open().await;
    exchange.send(Request::RequestHeaders(request_headers("GET", "/v1/models", &[], true))).await;
    assert_eq!(status(&exchange.refused().await), 503);
    let mut exchange = fixture.open().await;
    exchange.post("/v1/completions", &[]).await;
    exchange.body(BODY, true).await;
    assert_eq!(status(&exchange.refused().await), 503);
}

/// llm-d: "invalid json body", "request missing model field".
#[tokio::test]
async fn a_body_that_cannot_be_read_is_a_400_in_the_form_of_its_api() {
    let fixture = Fixture::plain().await;
    for (path, body, code) in [
        ("/v1/completions", "no healthy upstream", "invalid_json"),
        ("/v1/completions", r#"{"prompt":"hello world"}"#, "missing_model"),
        ("/v1/completions", "", "invalid_json"),
        ("/v1/messages", "{", "invalid_request_error"),
    ] {
        let mut exchange = fixture.open().await;
        exchange.post(path, &[]).await;
        exchange.body(body, true).await;
        let immediate = exchange.refused().await;
        assert_eq!(status(&immediate), 400);
        let error: serde_json::Value = serde_json::from_slice(&immediate.body).unwrap();
        let said = if path == "/v1/messages" { &error["error"]["type"] } else { &error["error"]["code"] };
        assert_eq!(said, code, "{body}");
    }
}

#[tokio::test]
async fn what_is_of_no_known_api_may_be_anything() {
    let fixture = Fixture::plain().await;
    let mut exchange = fixture.open().await;
    exchange.post("/v1/audio/transcriptions", &[("content-type", "multipart/form-data; boundary=x")]).await;
    exchange.body("--x\r\nsound", true).await;
    exchange.picked().await;
    assert_eq!(exchange.request_body().await, ("--x\r\nsound".to_owned(), true));
}

/// llm-d: "passthrough parser success".
#[tokio::test]
async fn bodies_that_are_not_to_be_read_are_not() {
    let mut options = PickerOptions::default();
    options.reads_bodies = false;
    let fixture = Fixture::new(builder(2), options).await;
    let (mut exchange, _) = fixture.picked("passthrough-parser").await;
    assert_eq!(exchange.request_body().await, ("passthrough-parser".to_owned(), true));
}

/// Nothing is held of what nobody reads, and so there is no bound on it.
#[tokio::test]
async fn a_body_that_nobody_reads_passes_piece_by_piece_behind_its_destination() {
    for (reads_bodies, path, waits_for_a_piece) in
        [(false, "/v1/completions", false), (false, "/any", false), (true, "/v1/audio/transcriptions", true)]
    {
        let mut options = PickerOptions::default();
        (options.reads_bodies, options.max_body_bytes, options.max_buffered_bytes) = (reads_bodies, 100, 100);
        let fixture = Fixture::new(builder(2), options).await;
        let mut exchange = fixture.open().await;
        exchange.post(path, &[("content-length", "1000000")]).await;
        if !waits_for_a_piece {
            exchange.picked().await;
        }
        // By the first piece it is known that it is no object.
        for at in 0..10 {
            let piece = vec![b'x'; 50_000];
            exchange.body(&piece, at == 9).await;
            if waits_for_a_piece && at == 0 {
                exchange.picked().await;
            }
            let Some(Response::RequestBody(body)) = exchange.next().await else { panic!("no body") };
            assert_eq!(crate::fixture::streamed(body.response.unwrap()), (piece, at == 9), "{path}");
        }
        assert_eq!(fixture.in_flight(1) + fixture.in_flight(2), 1, "it counts as any other");
        exchange.answers("200", "application/json", None).await;
        exchange.passes("{}", true).await;
        fixture
            .until("its size is counted", |fixture| {
                fixture
                    .picker
                    .metrics_page()
                    .lines()
                    .any(|line| line.starts_with("llm_d_epp_request_size_bytes_sum") && line.ends_with(" 500000"))
            })
            .await;
    }
}

/// Blanks and zeros do not tell, and neither does a part of a mark.
#[tokio::test]
async fn what_may_still_be_an_object_is_waited_for() {
    let fixture = Fixture::plain().await;
    let object = "\u{feff} \n {\"model\": \"model\", \"bootstrap_host\": \"6.6.6.6\"}";
    let mut exchange = fixture.open().await;
    exchange.post("/any", &[]).await;
    for (at, byte) in object.bytes().enumerate() {
        exchange.body([byte], at + 1 == object.len()).await;
    }
    assert_eq!(status(&exchange.refused().await), 400, "an engine may read it as an object, and the picker does not");
    let mut sound = fixture.open().await;
    sound.post("/any", &[]).await;
    for piece in ["\0", "\0\0 \0\0", "ftyp"] {
        sound.body(piece, false).await;
    }
    sound.picked().await;
    let Some(Response::RequestBody(body)) = sound.next().await else { panic!("no body") };
    assert_eq!(crate::fixture::streamed(body.response.unwrap()), (b"\0\0\0 \0\0ftyp".to_vec(), false));
}

#[tokio::test]
async fn trailers_come_behind_a_body_that_did_not_end() {
    let fixture = Fixture::plain().await;
    let mut exchange = fixture.open().await;
    exchange.post("/v1/completions", &[]).await;
    exchange.body(BODY, false).await;
    exchange.trailers().await;
    exchange.picked().await;
    let Some(Response::RequestBody(body)) = exchange.next().await else { panic!("no body") };
    assert_eq!(crate::fixture::streamed(body.response.unwrap()), (BODY.into(), false));
    assert!(matches!(exchange.next().await, Some(Response::RequestTrailers(_))));
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_refused_by_its_announced_length_or_by_what_comes() {
    let mut options = PickerOptions::default();
    options.max_body_bytes = 100;
    let fixture = Fixture::new(builder(2), options).await;
    let mut announced = fixture.open().await;
    announced.post("/v1/completions", &[("content-length", "101")]).await;
    assert_eq!(status(&announced.refused().await), 413);
    let mut unannounced = fixture.open().await;
    unannounced.post("/v1/completions", &[]).await;
    unannounced.body(&"x".repeat(60), false).await;
    unannounced.body(&"x".repeat(60), false).await;
    assert_eq!(status(&unannounced.refused().await), 413);
}

/// Proxies that keep the body, and wait with the headers until it was looked at.
#[tokio::test]
async fn a_proxy_that_buffers_bodies_is_told_the_destination_with_the_body() {
    const BUFFERED: i32 = 2;
    let fixture = Fixture::plain().await;
    let mut exchange = fixture.open().await;
    let request = Some(Request::RequestHeaders(request_headers("POST", "/v1/completions", &[], false)));
    let protocol_config = modes(BUFFERED, 0);
    exchange.send_with(ProcessingRequest { request, protocol_config, ..ProcessingRequest::default() }).await;
    assert!(matches!(exchange.next().await, Some(Response::RequestHeaders(_))), "it waits for this");
    // Trailers follow, so that the body does not end the request.
    exchange.body(BODY, false).await;
    let Some(Response::RequestBody(body)) = exchange.next().await else { panic!("no body") };
    let common = body.response.unwrap();
    assert!(common.body_mutation.is_none(), "it keeps what it sent");
    assert!(mutation(common).endpoints.starts_with("10.0.0."));
    exchange.trailers().await;
    assert!(matches!(exchange.next().await, Some(Response::RequestTrailers(_))));
    // It shows no bodies of answers: what its headers say has to do.
    assert_eq!(fixture.in_flight(1) + fixture.in_flight(2), 1);
    exchange.answers("200", "text/event-stream", None).await;
    fixture.until("given back", |fixture| fixture.in_flight(1) + fixture.in_flight(2) == 0).await;
    assert_eq!(fixture.picker.metrics().answers(), (1, 0));
}

/// Proxies that send a request on before its body was seen: it goes by its headers alone.
#[tokio::test]
async fn a_proxy_that_does_not_wait_for_bodies_is_told_the_destination_with_the_headers() {
    let fixture = Fixture::plain().await;
    for (mode, has_body) in [(1, true), (3, true), (0, false)] {
        let mut exchange = fixture.open().await;
        let request = Some(Request::RequestHeaders(request_headers("POST", "/v1/completions", &[], false)));
        let protocol_config = modes(mode, mode);
        exchange.send_with(ProcessingRequest { request, protocol_config, ..ProcessingRequest::default() }).await;
        assert!(exchange.picked().await.endpoints.starts_with("10.0.0."));
        for end in [false, true].into_iter().filter(|_| has_body) {
            exchange.body(BODY, end).await;
            let Some(Response::RequestBody(body)) = exchange.next().await else { panic!("no body") };
            assert!(body.response.is_none(), "it passes");
        }
    }
}

/// llm-d: model names are rewritten where a header says so; here with the body's other bytes as they were.
#[tokio::test]
async fn a_header_may_name_another_model() {
    let fixture = Fixture::plain().await;
    for name in ["x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite"] {
        let mut exchange = fixture.open().await;
        exchange.post("/v1/completions", &[(name, "sql-lora-1fdg2")]).await;
        exchange.body(r#"{"model":"sql-lora", "prompt":"p"}"#, true).await;
        let rewritten = r#"{"model":"sql-lora-1fdg2", "prompt":"p"}"#;
        assert_eq!(exchange.picked().await.header("content-length"), Some(&*rewritten.len().to_string()));
        assert_eq!(exchange.request_body().await, (rewritten.to_owned(), true));
    }
    const BUFFERED: i32 = 2;
    let mut kept = fixture.open().await;
    let headers = request_headers("POST", "/v1/completions", &[("x-llm-d-model-name-rewrite", "other")], false);
    let request = Some(Request::RequestHeaders(headers));
    kept.send_with(ProcessingRequest { request, protocol_config: modes(BUFFERED, 0), ..ProcessingRequest::default() })
        .await;
    kept.next().await;
    let body = HttpBody { body: r#"{"model":"a"}"#.into(), end_of_stream: true, ..HttpBody::default() };
    kept.send(Request::RequestBody(body)).await;
    let Some(Response::RequestBody(body)) = kept.next().await else { panic!("no body") };
    let mutation = body.response.unwrap().body_mutation.unwrap().mutation;
    assert_eq!(mutation, Some(Mutation::Body(br#"{"model":"other"}"#.to_vec())));
}
