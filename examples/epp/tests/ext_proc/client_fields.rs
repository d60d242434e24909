//! What clients may not say to engines: fields of bodies, and headers.

use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use pointsman::exec::ClientFields;
use pointsman_epp::{Picker, PickerOptions};

use crate::fixture::{Fixture, builder, request_headers, status};

/// What goes on of a body.
async fn sent_on(fixture: &Fixture, path: &str, body: &str) -> String {
    let mut exchange = fixture.open().await;
    exchange.post(path, &[]).await;
    exchange.body(body, true).await;
    let length = exchange.picked().await.header("content-length").map(str::to_owned);
    let sent = exchange.request_body().await.0;
    let changed = (sent != body).then(|| sent.len().to_string());
    assert_eq!(length, changed, "{sent}");
    sent
}

#[tokio::test]
async fn fields_that_name_hosts_or_ranks_are_removed() {
    let fixture = Fixture::plain().await;
    for path in PATHS {
        let body = r#"{"model":"m","prompt":"p","kv_transfer_params":{"remote_host":"evil"},"x": 1}"#;
        assert_eq!(sent_on(&fixture, path, body).await, r#"{"model":"m","prompt":"p","x": 1}"#);
        let escaped = r#"{"model":"m","prompt":"p","data\u005fparallel_rank":3}"#;
        assert_eq!(sent_on(&fixture, path, escaped).await, r#"{"model":"m","prompt":"p"}"#);
        let nested = r#"{"model":"m","prompt":"p","vllm_xargs":{"kv_transfer_params":1,"y":2}}"#;
        assert_eq!(sent_on(&fixture, path, nested).await, r#"{"model":"m","prompt":"p","vllm_xargs":{"y":2}}"#);
        let harmless = r#"{"model":"m","prompt":"p", "vllm_xargs":{"y":2},"kv_transfer_param":1}"#;
        assert_eq!(sent_on(&fixture, path, harmless).await, harmless);
    }
}

#[tokio::test]
async fn an_operator_may_allow_a_field_and_the_name_is_replaced_beside_it() {
    let mut options = PickerOptions::default();
    options.client_fields = ClientFields::default().allow("kv_transfer_params").unwrap();
    let fixture = Fixture::new(builder(1), options).await;
    let body = r#"{"model":"m","prompt":"p","kv_transfer_params":{},"bootstrap_host":"h"}"#;
    let stripped = r#"{"model":"m","prompt":"p","kv_transfer_params":{}}"#;
    assert_eq!(sent_on(&fixture, "/v1/completions", body).await, stripped);
    let mut renamed = fixture.open().await;
    renamed.post("/v1/completions", &[("x-llm-d-model-name-rewrite", "other")]).await;
    renamed.body(body, true).await;
    renamed.picked().await;
    assert_eq!(renamed.request_body().await.0, stripped.replace("\"m\"", "\"other\""));
}

/// Engines take byte-order marks and other encodings where this reader does not: no way around it, on whatever path.
#[tokio::test]
async fn what_an_engine_may_read_otherwise_is_refused() {
    let fixture = Fixture::plain().await;
    let encodings: [fn(char) -> Vec<u8>; 3] = [
        |char| char.to_string().into_bytes(),
        |char| (char as u16).to_le_bytes().into(),
        |char| (char as u16).to_be_bytes().into(),
    ];
    let object = "{\"model\":\"m\",\"prompt\":\"p\",\"kv_transfer_params\":{}}";
    for (encoding, encode) in encodings.into_iter().enumerate() {
        for before in ["", " ", "\r\n", "\u{feff}", "\u{feff}\n "] {
            if encoding == 0 && !before.starts_with('\u{feff}') {
                continue;
            }
            let body: Vec<u8> = before.chars().chain(object.chars()).flat_map(encode).collect();
            for path in PATHS {
                let mut exchange = fixture.open().await;
                exchange.post(path, &[]).await;
                exchange.body(&body, true).await;
                assert_eq!(status(&exchange.refused().await), 400, "{path} {encoding} {before:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_upload_that_begins_with_zeros_passes_as_it_is() {
    let film = "\0\0\0\u{18}ftypmp42\0\0\0\0{\"kv_transfer_params\":1}";
    assert_eq!(sent_on(&Fixture::plain().await, "/invocations", film).await, film);
}

#[tokio::test]
async fn headers_that_steer_are_removed() {
    let picker = Picker::new(builder(1).build().unwrap(), PickerOptions::default());
    let fixture = Fixture::of(picker.into()).await;
    let mut exchange = fixture.open().await;
    let forged = [("x-data-parallel-rank", "6"), ("x-kv-cache-source-host-port", "6.6.6.6:6"), ("x-other", "1")];
    exchange.send(Request::RequestHeaders(request_headers("GET", "/v1/models", &forged, true))).await;
    let removed = exchange.picked().await.removed;
    assert_eq!(removed, ["x-data-parallel-rank", "x-kv-cache-source-host-port"]);
}

/// The last is of no API that is known here; vLLM serves several by it.
const PATHS: [&str; 3] = ["/v1/completions", "/inference/v1/generate", "/invocations"];
