//! Listener: accept loop, TLS handshake, HTTP/1.1 connections with graceful shutdown.
//!
//! A connection is one task. When a drain begins, idle connections are closed and the others close after their response; later
//! requests get a 503. Slow clients (slowloris) have a connection for a bounded time only, and connections are limited.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use super::app_state::AppState;
use super::config::Limits;
use super::request_record::ClientAddress;
use super::tls::Acceptor;
use super::write_timeout::write_timeout;

/// A listener and its routes.
#[derive(Clone)]
pub(super) struct Listener {
    pub(super) app: Arc<AppState>,
    pub(super) router: Router,
    pub(super) tls: Option<Acceptor>,
    pub(super) limits: Limits,
    pub(super) connections: TaskTracker,
}

impl Listener {
    /// Accepts connections until the gateway closes.
    pub(super) async fn run(self, socket: TcpListener) {
        let mut closed = self.app.closed.given();
        let permits = Arc::new(Semaphore::new(self.limits.max_connections.min(Semaphore::MAX_PERMITS)));
        loop {
            let accepted = tokio::select! {
                () = &mut closed => return,
                accepted = accept(&socket, &permits) => accepted,
            };
            let Ok((stream, client, permit)) = accepted else {
                // Out of descriptors, though `descriptors` keeps some: they come back as connections end.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let listener = self.clone();
            let counted = self.connections.token();
            self.app.tasks.spawn(async move {
                listener.handshake(stream, ClientAddress(client)).await;
                drop((counted, permit));
            });
        }
    }

    async fn handshake(self, stream: TcpStream, client: ClientAddress) {
        // Tokens are small and latency matters.
        let _ = stream.set_nodelay(true);
        match self.tls.clone() {
            None => self.serve(stream, client).await,
            Some(tls) => {
                let accepted = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await;
                if let Ok(Some(stream)) = accepted {
                    self.serve(stream, client).await;
                }
            }
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, client: ClientAddress) {
        let mut winding_down = self.app.winding_down.given();
        let is_late = winding_down.is_given();
        let limits = self.app.limits.load_full();
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.headers_timeout)
            .max_buf_size(self.limits.max_request_headers_bytes);
        let stream = write_timeout(stream, limits.idle_timeout);
        let router = TowerToHyperService::new(self.router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(client);
            router.call(request)
        });
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        if !is_late {
            tokio::select! {
                biased;
                _ = connection.as_mut() => return,
                () = &mut winding_down => connection.as_mut().graceful_shutdown(),
            }
        }
        let _ = connection.await;
    }
}

/// The next connection, once there is a permit for it.
async fn accept(
    socket: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, client) = socket.accept().await?;
    Ok((stream, client, permit))
}

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
