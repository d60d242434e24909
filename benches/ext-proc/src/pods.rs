//! Pods: one server at every loopback address, which streams 50 chunks, one a millisecond.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::stream::unfold;
use tokio::net::TcpListener;

/// Serves for as long as the program runs, on the port that is returned.
pub(crate) async fn serve() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("0.0.0.0:0").await?;
    let address = SocketAddr::from(([127, 0, 0, 1], listener.local_addr()?.port()));
    let routes = Router::new().route("/v1/completions", post(stream)).route("/metrics", get(|| async { "" }));
    tokio::spawn(async move {
        axum::serve(axum::serve::ListenerExt::tap_io(listener, |stream| drop(stream.set_nodelay(true))), routes).await
    });
    Ok(address)
}

async fn stream(_: Bytes) -> Response {
    let chunks = unfold(0, |sent| async move {
        if sent > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        match sent {
            0..CHUNKS => Some((Ok::<_, Infallible>(Bytes::from_static(CHUNK)), sent + 1)),
            CHUNKS => Some((Ok(Bytes::from_static(b"data: [DONE]\n\n")), sent + 1)),
            _ => None,
        }
    });
    let mut response = Response::new(Body::from_stream(chunks));
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("text/event-stream"));
    response
}

const CHUNKS: usize = 50;
const CHUNK: &[u8] = b"data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":0,\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\" word\",\"finish_reason\":null}]}\n\n";
