//! HTTP/1 listener of a pod over its incarnations: closed, and open again at the same address.
//!
//! Invariant: when an incarnation ends, its connections are gone before the next one begins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use super::config::Fault;
use super::engine::Engine;
use super::faults::FaultInjector;
use super::reserved_port::ReservedPort;

/// Whether a pod is to be up, and in which incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DesiredState {
    pub(super) up: bool,
    /// When it comes back by itself, if it does.
    pub(super) back: Option<Instant>,
    /// How often it was restarted.
    pub(super) restarts: u64,
    pub(super) hash_seed: Option<String>,
}

/// A router, and the connections that it serves.
pub(super) struct Server {
    pub(super) engine: Arc<Engine>,
    pub(super) injector: Arc<FaultInjector>,
    pub(super) router: Router,
    /// Every connection of every incarnation is tracked here.
    pub(super) tasks: TaskTracker,
}

impl Server {
    /// Serves one incarnation after the other, until it is dropped.
    pub(super) async fn run(self, port: ReservedPort, listener: TcpListener) {
        let mut desired = self.injector.desired();
        let (mut listener, mut incarnation) = (Some(listener), 0);
        loop {
            if let Some(listener) = listener.take() {
                let mut connections = JoinSet::new();
                let over = desired.wait_for(|desired| !desired.up || desired.restarts != incarnation);
                tokio::select! {
                    () = self.accept(listener, &mut connections) => {}
                    _ = over => {}
                }
                connections.shutdown().await;
            }
            // Dead already, unless it was told to restart once more while it was coming up.
            self.engine.die();
            let Some(next) = self.next_incarnation(&mut desired, incarnation).await else { return };
            incarnation = next.restarts;
            self.engine.revive(next.hash_seed);
            listener = port.listen().ok();
        }
    }

    /// Waits until a dead pod is to live again. Where its time is up, that is a restart as any other.
    async fn next_incarnation(
        &self,
        desired: &mut watch::Receiver<DesiredState>,
        incarnation: u64,
    ) -> Option<DesiredState> {
        loop {
            let now = desired.borrow_and_update().clone();
            if now.up && now.restarts != incarnation {
                return Some(now);
            }
            tokio::select! {
                changed = desired.changed() => changed.ok()?,
                () = reached(now.back) => self.injector.inject(Fault::Restart),
            }
        }
    }

    /// Takes connections for as long as it is polled.
    async fn accept(&self, listener: TcpListener, connections: &mut JoinSet<()>) {
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(self.tasks.track_future(serve(stream, self.router.clone())));
                    }
                    // Out of files, or a client that went before it came: both pass.
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                // One that has ended is forgotten.
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

/// Waits for a time. Never returns where there is none.
async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Before a failed accept is tried again.
const PAUSE: Duration = Duration::from_millis(10);

async fn serve(stream: TcpStream, router: Router) {
    _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new());
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // An error is a client that went away, or a stream that was cut on demand.
    _ = connection.await;
}
