//! A pod's socket over its lives: it listens, is cut off, and comes back under the same address.
//!
//! The rule that must never break: when a life ends, its connections are gone before the next one begins.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::sim::core::Core;

/// Whether a pod is to be up, and in which life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) up: bool,
    /// How often it was restarted.
    pub(super) restarts: u64,
    pub(super) hash_seed: Option<String>,
}

/// A socket, what answers on it, and who keeps count of its connections.
pub(super) struct Service {
    pub(super) core: Arc<Core>,
    pub(super) router: Router,
    /// Every connection of every life is tracked here.
    pub(super) tasks: TaskTracker,
}

impl Service {
    /// Serves one life after the other, until it is dropped.
    pub(super) async fn live(self, listener: TcpListener, mut wanted: watch::Receiver<Wanted>) {
        let Ok(address) = listener.local_addr() else { return };
        let (mut listener, mut life) = (Some(listener), 0);
        loop {
            if let Some(listener) = listener.take() {
                let connections = Connections::default();
                let over = wanted.wait_for(|wanted| !wanted.up || wanted.restarts != life);
                tokio::select! {
                    () = self.accept(listener, &connections) => {}
                    _ = over => {}
                }
                connections.cut().await;
            }
            // Dead already, unless it was told to restart once more while it was coming up.
            self.core.die();
            // Bound and deaf: connections are refused, and nobody else gets the port.
            let Ok(deaf) = bound(address).await else { return };
            let next = wanted.wait_for(|wanted| wanted.up && wanted.restarts != life).await;
            let Ok(next) = next.map(|next| next.clone()) else { return };
            life = next.restarts;
            self.core.revive(next.hash_seed);
            listener = deaf.listen(BACKLOG).ok();
        }
    }

    /// Takes connections for as long as it is polled.
    async fn accept(&self, listener: TcpListener, connections: &Connections) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = serve(stream, self.router.clone(), connections.end.clone());
                    connections.tasks.spawn(self.tasks.track_future(connection));
                }
                // Out of files, or a client that went before it came: both pass.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Binds an address, at first for its listener and later to keep it.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Connections that may come in before they are taken.
pub(super) const BACKLOG: u32 = 1024;

/// Binds an address that was ours a moment ago.
async fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    for _ in 0..TRIES {
        if let Ok(socket) = bind(address) {
            return Ok(socket);
        }
        tokio::time::sleep(PAUSE).await;
    }
    bind(address)
}

const TRIES: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(10);

/// The connections of one life. Dropped, all of them end.
#[derive(Debug, Default)]
struct Connections {
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Connections {
    /// Cuts every connection, and waits until they are gone.
    async fn cut(&self) {
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

async fn serve(stream: TcpStream, router: Router, end: CancellationToken) {
    _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new());
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // An error is a client that went away, or a stream that was cut on demand.
    _ = end.run_until_cancelled(connection).await;
}
