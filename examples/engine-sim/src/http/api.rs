//! HTTP API of a pod: OpenAI's and Anthropic's, vLLM's health and metrics, fault injection, KV transfer.
//!
//! | path | what |
//! |---|---|
//! | `POST /v1/chat/completions`, `POST /v1/completions` | a completion, whole or streamed |
//! | `POST /v1/responses`, `POST /v1/messages` | the same as OpenAI's Responses and Anthropic's Messages |
//! | `POST /v1/embeddings`, `POST /v1/messages/count_tokens` | a vector for each input; a number |
//! | `GET /v1/models`, `GET /health`, `GET /metrics` | as vLLM |
//! | `POST /sim/fault` | a fault as JSON: `"hang"`, `{"slow": 4.0}`, `{"die_for": 10}`, `{"respond": 503}`; answered even by a pod that hangs |
//! | `POST /sim/kv` | another pod fetches the blocks of a prompt that was prefilled here |

mod completions;
mod error;
mod kv_transfer;
mod named_events;
mod other_apis;
mod request_body;
mod response_body;
mod sse;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use routing_plugins::tokenize::{ModelPrompts, TemplateError};
use serde_json::json;

use crate::http::config::Fault;
use crate::http::engine::Engine;
use crate::http::faults::FaultInjector;
use pointsman_example_common::words;

use error::ApiError;

/// What handlers share.
#[derive(Debug)]
struct Api {
    engine: Arc<Engine>,
    prompts: ModelPrompts,
}

/// All routes of a pod.
pub(super) fn router(engine: Arc<Engine>, injector: Arc<FaultInjector>) -> Result<Router, TemplateError> {
    let api = Arc::new(Api { engine: Arc::clone(&engine), prompts: words::prompts()? });
    let faults = Router::new().route("/sim/fault", post(fault)).with_state(injector);
    Ok(Router::new()
        .route("/v1/chat/completions", post(completions::chat))
        .route("/v1/completions", post(completions::completion))
        .route("/v1/responses", post(other_apis::responses))
        .route("/v1/messages", post(other_apis::messages))
        .route("/v1/messages/count_tokens", post(other_apis::count_tokens))
        .route("/v1/embeddings", post(other_apis::embeddings))
        .route("/v1/models", get(models))
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/metrics", get(metrics))
        .route("/sim/kv", post(kv_transfer::give))
        .with_state(api)
        .fallback(|| async { ApiError::not_found("there is no such path") })
        .layer(middleware::from_fn_with_state(engine, wait_while_hung))
        .merge(faults)
        .layer(DefaultBodyLimit::max(MOST_BYTES)))
}

/// A hung pod accepts requests and does not respond.
async fn wait_while_hung(State(engine): State<Arc<Engine>>, request: Request, next: Next) -> Response {
    let mut condition = engine.condition.subscribe();
    _ = condition.wait_for(|condition| !condition.hung).await;
    let response = next.run(request).await;
    _ = condition.wait_for(|condition| !condition.hung).await;
    response
}

async fn models(State(api): State<Arc<Api>>) -> Response {
    let (model, most) = (&api.engine.config.model, api.engine.context());
    let model =
        json!({"id": model, "object": "model", "created": 0, "owned_by": "vllm", "root": model, "max_model_len": most});
    Json(json!({"object": "list", "data": [model]})).into_response()
}

async fn metrics(State(api): State<Arc<Api>>) -> Response {
    let config = &api.engine.config;
    let text = api.engine.metrics().prometheus(&config.model, config.block_size.tokens());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn fault(State(injector): State<Arc<FaultInjector>>, body: Bytes) -> Result<StatusCode, ApiError> {
    let fault: Fault = serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    if !fault.is_possible() {
        return Err(ApiError::bad_request("how long or how slow is not a number that can be done"));
    }
    injector.inject(fault);
    Ok(StatusCode::NO_CONTENT)
}

/// Prompts are long: a hundred thousand tokens are half a megabyte of words.
const MOST_BYTES: usize = 64 << 20;
