//! HTTP routes of the two listeners.
//!
//! Clients have `/v1/*`. `/internal/*`, `/metrics`, `/state` and the page are on the internal listener, or on the clients' if
//! there is no other. `/livez`, `/readyz` and `/health` are on both. `/internal/*` needs the token, and is off without one.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode, Uri};
use pointsman::{model_list, model_object, model_of_path};
use routing_exec::handoff::Api;

use super::app_state::AppState;
use super::error_response::{self, ApiError};
use super::handler::{completions, json as json_response};
use super::state_page::{self, StateQuery};
use super::{admin_page, event_sources, metrics, probes, state};

/// Routes for clients.
pub(super) fn public(app: &Arc<AppState>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(completions))
        .route("/v1/completions", post(completions))
        .route("/v1/embeddings", post(completions))
        .route("/v1/responses", post(completions))
        .route("/v1/messages", post(completions))
        .route("/v1/messages/count_tokens", post(completions))
        .route("/v1/models", get(models))
        .route("/v1/models/{*name}", get(model))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(Arc::clone(app))
        .merge(probes::routes(app))
}

/// Routes for operators and reporters.
pub(super) fn internal(app: &Arc<AppState>, token: Option<&str>) -> Router {
    let admin =
        Router::new().route("/metrics", get(metrics_page)).route("/state", get(state_page)).with_state(Arc::clone(app));
    let pushed = token.map_or_else(Router::new, |token| event_sources::push_routes(&app.ingest, token));
    admin.merge(pushed).merge(admin_page::routes())
}

async fn models(State(app): State<Arc<AppState>>) -> Response {
    json_text(model_list(app.models.iter().flat_map(|model| model.router.names())))
}

async fn model(State(app): State<Arc<AppState>>, uri: Uri) -> Response {
    let name = model_of_path(uri.path()).unwrap_or_default();
    match app.models.iter().any(|model| model.router.named_model(&name).is_some()) {
        true => json_text(model_object(&name)),
        false => error_response::response(&ApiError::unknown_model(&name), Api::default()),
    }
}

fn json_text(json: String) -> Response {
    let mut response = Response::new(json.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn metrics_page(State(app): State<Arc<AppState>>) -> Response {
    let mut response = Response::new(metrics::text(&app).into());
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

async fn state_page(State(app): State<Arc<AppState>>, query: Result<Query<StateQuery>, QueryRejection>) -> Response {
    app.mark_viewed();
    match query {
        Ok(Query(query)) => json_response(StatusCode::OK, &state_page::page(state::gather(&app), &query)),
        Err(error) => {
            error_response::response(&ApiError::bad_request("invalid_query", error.body_text()), Api::default())
        }
    }
}

async fn not_found(uri: Uri) -> Response {
    let error = ApiError::new(StatusCode::NOT_FOUND, "no_such_path", "no such path");
    error_response::response(&error, Api::of(uri.path()))
}

async fn method_not_allowed(uri: Uri) -> Response {
    let message = "this path does not take this method";
    let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "no_such_method", message);
    error_response::response(&error, Api::of(uri.path()))
}
