//! Probes: `/livez` (the process answers), `/readyz` (send clients here), and `/health`, which is readiness with numbers.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::header::CONNECTION;
use http::{HeaderValue, StatusCode};
use serde_json::json;

use super::app_state::AppState;
use super::handler::json as json_response;

/// The probes, for either listener.
pub(super) fn routes(app: &Arc<AppState>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/health", get(health))
        .with_state(Arc::clone(app))
}

/// A gateway that drains is alive: who restarts it now cuts streams.
async fn livez() -> &'static str {
    "ok"
}

async fn readyz(State(app): State<Arc<AppState>>) -> (StatusCode, &'static str) {
    let readiness = Readiness::of(&app);
    (readiness.code(), readiness.status)
}

async fn health(State(app): State<Arc<AppState>>) -> Response {
    let readiness = Readiness::of(&app);
    let Readiness { status, pods, healthy } = readiness;
    let mut response = json_response(readiness.code(), &json!({"status": status, "pods": pods, "healthy": healthy}));
    if app.is_draining() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether clients should be sent here.
struct Readiness {
    status: &'static str,
    pods: usize,
    healthy: usize,
}

impl Readiness {
    fn of(app: &AppState) -> Self {
        let fleets: Vec<_> = app.models.iter().map(|model| model.router.fleet()).collect();
        let healthy: usize = fleets.iter().map(|fleet| fleet.healthy().len()).sum();
        let pods: usize = fleets.iter().map(|fleet| fleet.pods().len()).sum();
        // A gateway that can serve none of its models is of no use to a balancer; one that can serve some is.
        let status = match (app.is_withdrawn(), healthy) {
            (true, _) => "draining",
            (false, 0) => "no healthy pod",
            (false, _) => "ok",
        };
        Self { status, pods, healthy }
    }

    fn code(&self) -> StatusCode {
        if self.status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
    }
}
