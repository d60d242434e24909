//! A pod's face: OpenAI's API, vLLM's health and metrics, and what only simulated pods have.
//!
//! | path | what |
//! |---|---|
//! | `POST /v1/chat/completions`, `POST /v1/completions` | an answer, whole or streamed |
//! | `GET /v1/models`, `GET /health`, `GET /metrics` | as vLLM |
//! | `POST /sim/fault` | a fault as JSON: `"hang"`, `{"slow": 4.0}`, `{"die_for": 10}`; answered even by a pod that hangs |
//! | `POST /sim/kv` | another pod fetches the blocks of a prompt that was prefilled here |

mod body;
mod error;
mod generate;
mod handoff;
mod reply;
mod stream;

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

use crate::config::Fault;
use crate::control::Control;
use crate::core::Core;
use pointsman_example_common::words;

use error::ApiError;

/// What handlers share.
#[derive(Debug)]
struct Api {
    core: Arc<Core>,
    prompts: ModelPrompts,
}

/// Everything a pod answers.
pub(super) fn router(core: Arc<Core>, control: Arc<Control>) -> Result<Router, TemplateError> {
    let api = Arc::new(Api { core: Arc::clone(&core), prompts: words::prompts()? });
    let faults = Router::new().route("/sim/fault", post(fault)).with_state(control);
    Ok(Router::new()
        .route("/v1/chat/completions", post(generate::chat))
        .route("/v1/completions", post(generate::completion))
        .route("/v1/models", get(models))
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/metrics", get(metrics))
        .route("/sim/kv", post(handoff::give))
        .with_state(api)
        .fallback(|| async { ApiError::not_found("there is no such path") })
        .layer(middleware::from_fn_with_state(core, wait_while_hung))
        .merge(faults)
        .layer(DefaultBodyLimit::max(MOST_BYTES)))
}

/// A pod that hangs takes requests and says nothing.
async fn wait_while_hung(State(core): State<Arc<Core>>, request: Request, next: Next) -> Response {
    let mut mood = core.mood.subscribe();
    _ = mood.wait_for(|mood| !mood.hung).await;
    let response = next.run(request).await;
    _ = mood.wait_for(|mood| !mood.hung).await;
    response
}

async fn models(State(api): State<Arc<Api>>) -> Response {
    let (model, most) = (&api.core.config.model, api.core.context());
    let model =
        json!({"id": model, "object": "model", "created": 0, "owned_by": "vllm", "root": model, "max_model_len": most});
    Json(json!({"object": "list", "data": [model]})).into_response()
}

async fn metrics(State(api): State<Arc<Api>>) -> Response {
    let config = &api.core.config;
    let text = api.core.figures().prometheus(&config.model, config.block_size.tokens());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn fault(State(control): State<Arc<Control>>, body: Bytes) -> Result<StatusCode, ApiError> {
    let fault: Fault = serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    if !fault.is_possible() {
        return Err(ApiError::bad_request("how long or how slow is not a number that can be done"));
    }
    control.fault(fault);
    Ok(StatusCode::NO_CONTENT)
}

/// Prompts are long: a hundred thousand tokens are half a megabyte of words.
const MOST_BYTES: usize = 64 << 20;
