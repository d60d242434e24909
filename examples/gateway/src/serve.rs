//! Listeners and connections.
//!
//! A connection is one task. When a drain begins, those that wait for a request are closed and the others close behind the
//! answer they are at; who connects after that is told to go elsewhere. A client that takes its time in every possible way
//! has its connection for a bounded time only, and there are only so many connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use super::shared::Shared;
use super::taking::Taking;
use super::tls::Acceptor;

/// A listener with what it serves.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) shared: Arc<Shared>,
    pub(super) router: Router,
    pub(super) tls: Option<Acceptor>,
    pub(super) header_bytes: usize,
    pub(super) connections: TaskTracker,
    /// How many connections there may be.
    pub(super) most: usize,
}

impl Door {
    /// Takes connections until nobody is let in any more.
    pub(super) async fn open(self, listener: TcpListener) {
        let closed = self.shared.closed.clone();
        let room = Arc::new(Semaphore::new(self.most.min(Semaphore::MAX_PERMITS)));
        loop {
            let accepted = tokio::select! {
                () = closed.cancelled() => return,
                accepted = accept(&listener, &room) => accepted,
            };
            let Ok((stream, place)) = accepted else {
                // Out of sockets, most likely: they come back as connections end.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let door = self.clone();
            let counted = self.connections.token();
            self.shared.tasks.spawn(async move {
                door.greet(stream).await;
                drop((counted, place));
            });
        }
    }

    async fn greet(self, stream: TcpStream) {
        // Tokens are small, and are wanted at once.
        let _ = stream.set_nodelay(true);
        match self.tls.clone() {
            None => self.talk(stream).await,
            Some(tls) => {
                let greeted = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await;
                if let Ok(Some(stream)) = greeted {
                    self.talk(stream).await;
                }
            }
        }
    }

    async fn talk(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let winding_down = self.shared.winding_down.clone();
        let is_late = winding_down.is_cancelled();
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(self.header_bytes);
        let stream = Taking::new(stream, self.shared.serving.load().client_pause);
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.router));
        let mut connection = std::pin::pin!(connection);
        if !is_late {
            tokio::select! {
                // A client that breaks off is its own affair.
                _ = connection.as_mut() => return,
                () = winding_down.cancelled() => connection.as_mut().graceful_shutdown(),
            }
        }
        let _ = connection.await;
    }
}

/// The next connection, once there is a place for it.
async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    Ok((listener.accept().await?.0, place))
}

/// How long a client may take to agree on keys.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a client may take to its request's head, also on a connection that had one before.
const HEAD: Duration = Duration::from_secs(60);
