//! Which paths there are, and on which listener.
//!
//! Clients have `/v1/*` and `/health`. `/internal/*`, `/metrics`, `/state` and the page are on the internal listener, or on
//! the clients' one if there is no other. `/internal/*` always wants the token, and is not there without one.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde_json::json;

use super::answer::Refusal;
use super::complete::{complete, json as json_answer};
use super::shared::Shared;
use super::{metrics, sources, state};

/// What clients see.
pub(super) fn public(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/v1/completions", post(complete))
        .route("/v1/models", get(models))
        .route("/health", get(health))
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .with_state(Arc::clone(shared))
}

/// What operators and reporters see.
pub(super) fn internal(shared: &Arc<Shared>, token: Option<&str>) -> Router {
    let figures = Router::new()
        .route("/metrics", get(metrics_page))
        .route("/state", get(state_page))
        .with_state(Arc::clone(shared));
    let pushed = token.map_or_else(Router::new, |token| sources::routes(&shared.inbox, token));
    figures.merge(pushed).merge(sources::page())
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    let names = std::iter::once(&shared.model.name).chain(&shared.model.aliases);
    let list: Vec<_> =
        names.map(|name| json!({"id": name, "object": "model", "created": 0, "owned_by": "pointsman"})).collect();
    json_answer(StatusCode::OK, &json!({"object": "list", "data": list}))
}

async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let fleet = Arc::clone(&shared.serving.load().fleet);
    let (healthy, pods) = (fleet.healthy().len(), fleet.pods().len());
    let status = match (shared.is_draining(), healthy) {
        (true, _) => "draining",
        (false, 0) => "no healthy pod",
        (false, _) => "ok",
    };
    let code = if status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut answer = json_answer(code, &json!({"status": status, "pods": pods, "healthy": healthy}));
    if shared.is_draining() {
        answer.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

async fn metrics_page(State(shared): State<Arc<Shared>>) -> Response {
    let mut answer = Response::new(metrics::text(&shared).into());
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

async fn state_page(State(shared): State<Arc<Shared>>) -> Response {
    shared.look();
    json_answer(StatusCode::OK, &state::gather(&shared))
}

async fn nowhere() -> Response {
    Refusal::new(StatusCode::NOT_FOUND, "no_such_path", "there is nothing at this path").response()
}

async fn not_so() -> Response {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "no_such_method", "this path is asked for in another way").response()
}
