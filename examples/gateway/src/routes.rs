//! HTTP routes of the two listeners.
//!
//! Clients have `/v1/*` and `/health`. `/internal/*`, `/metrics`, `/state` and the page are on the internal listener, or on
//! the clients' if there is no other. `/internal/*` needs the token, and is off without one.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde_json::json;

use super::app_state::AppState;
use super::error_response::ErrorResponse;
use super::handler::{completions, json as json_response};
use super::{admin_page, event_sources, metrics, state};

/// Routes for clients.
pub(super) fn public(app: &Arc<AppState>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(completions))
        .route("/v1/completions", post(completions))
        .route("/v1/models", get(models))
        .route("/health", get(health))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(Arc::clone(app))
}

/// Routes for operators and reporters.
pub(super) fn internal(app: &Arc<AppState>, token: Option<&str>) -> Router {
    let admin =
        Router::new().route("/metrics", get(metrics_page)).route("/state", get(state_page)).with_state(Arc::clone(app));
    let pushed = token.map_or_else(Router::new, |token| event_sources::push_routes(&app.ingest, token));
    admin.merge(pushed).merge(admin_page::routes())
}

async fn models(State(app): State<Arc<AppState>>) -> Response {
    let names = std::iter::once(&app.model.name).chain(&app.model.aliases).chain(app.model.adapters.keys());
    let list: Vec<_> =
        names.map(|name| json!({"id": name, "object": "model", "created": 0, "owned_by": "pointsman"})).collect();
    json_response(StatusCode::OK, &json!({"object": "list", "data": list}))
}

async fn health(State(app): State<Arc<AppState>>) -> Response {
    let fleet = Arc::clone(&app.live_config.load().fleet);
    let (healthy, pods) = (fleet.healthy().len(), fleet.pods().len());
    let status = match (app.is_draining(), healthy) {
        (true, _) => "draining",
        (false, 0) => "no healthy pod",
        (false, _) => "ok",
    };
    let code = if status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = json_response(code, &json!({"status": status, "pods": pods, "healthy": healthy}));
    if app.is_draining() {
        response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn metrics_page(State(app): State<Arc<AppState>>) -> Response {
    let mut response = Response::new(metrics::text(&app).into());
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

async fn state_page(State(app): State<Arc<AppState>>) -> Response {
    app.mark_viewed();
    json_response(StatusCode::OK, &state::gather(&app))
}

async fn not_found() -> Response {
    ErrorResponse::new(StatusCode::NOT_FOUND, "no_such_path", "no such path").response()
}

async fn method_not_allowed() -> Response {
    ErrorResponse::new(StatusCode::METHOD_NOT_ALLOWED, "no_such_method", "this path does not take this method")
        .response()
}
