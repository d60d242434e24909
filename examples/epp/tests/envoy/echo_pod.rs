//! A pod that says who it is and what came to it.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::routing::any;
use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Dropped, it stops.
pub(crate) struct EchoPod {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl EchoPod {
    pub(crate) async fn start() -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into()).await
    }

    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let echo = move |headers: HeaderMap, request: Request| async move {
            let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let names =
                headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").to_owned()));
            let headers: serde_json::Map<_, _> = names.map(|(name, value)| (name, value.into())).collect();
            let body = String::from_utf8_lossy(&body).into_owned();
            let model = serde_json::from_str::<serde_json::Value>(&body).ok().map(|body| body["model"].clone());
            let said = serde_json::json!({
                "model": model,
                "served_by": address.to_string(), "method": method, "path": path, "headers": headers, "body": body,
            });
            said.to_string()
        };
        let routes = Router::new().route("/health", any(|| async { "" })).fallback(echo);
        let task = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { address, task }
    }
}

impl Drop for EchoPod {
    fn drop(&mut self) {
        self.task.abort();
    }
}
