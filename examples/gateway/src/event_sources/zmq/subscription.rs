//! SUB socket that reconnects.
//!
//! A task owns the socket. The crate's own reconnection is not used: its backoff grows to half a minute and cannot be set. So a
//! disconnected socket is closed, and a new one connects within [`Timing::retry_max`].

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use zeromq::{Socket, SocketEvent, SocketOptions, SocketRecv, SubSocket};

use super::Timing;
use pointsman_example_common::zmq_close::close;

/// An update of the socket.
#[derive(Debug)]
pub(super) enum SocketUpdate {
    /// Connected; messages published from now on arrive.
    Connected,
    /// The frames of a message.
    Message(Vec<Bytes>),
    /// The engine disconnected.
    Disconnected,
}

/// A subscription. Dropping it ends its task, some time later.
#[derive(Debug)]
pub(super) struct Subscription {
    updates: mpsc::Receiver<SocketUpdate>,
    _stop: DropGuard,
}

impl Subscription {
    /// Connects to an endpoint, by a task of `tasks`.
    pub(super) fn open(tasks: &TaskTracker, endpoint: &str, topic: &str, timing: Timing) -> Self {
        let (updates_tx, updates) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let task =
            Task { endpoint: endpoint.to_owned(), topic: topic.to_owned(), timing, updates_tx, stop: stop.clone() };
        tasks.spawn(task.run());
        Self { updates, _stop: stop.drop_guard() }
    }

    /// The next update.
    pub(super) async fn next(&mut self) -> SocketUpdate {
        match self.updates.recv().await {
            Some(update) => update,
            // Its task ends only when the runtime does.
            None => std::future::pending().await,
        }
    }
}

struct Task {
    endpoint: String,
    topic: String,
    timing: Timing,
    updates_tx: mpsc::Sender<SocketUpdate>,
    stop: CancellationToken,
}

impl Task {
    async fn run(self) {
        let stop = self.stop.clone();
        let mut pause = self.timing.retry_initial;
        while !stop.is_cancelled() {
            let mut socket = self.socket();
            tokio::select! {
                () = stop.cancelled() => {}
                was_connected = self.receive(&mut socket) => {
                    pause = if was_connected { self.timing.retry_initial } else { (pause * 2).min(self.timing.retry_max) };
                }
            }
            close(socket).await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep(pause) => {}
            }
        }
    }

    fn socket(&self) -> SubSocket {
        let mut options = SocketOptions::default();
        // While the engine refuses, the crate tries again within this time, at growing pauses.
        options.connect_timeout(self.timing.retry_max);
        SubSocket::with_options(options)
    }

    /// Connects and forwards messages until the engine disconnects. Returns whether it was connected at all.
    async fn receive(&self, socket: &mut SubSocket) -> bool {
        let mut monitor = socket.monitor();
        if socket.subscribe(&self.topic).await.is_err() || socket.connect(&self.endpoint).await.is_err() {
            return false;
        }
        let _ = self.updates_tx.send(SocketUpdate::Connected).await;
        loop {
            tokio::select! {
                message = socket.recv() => match message {
                    Ok(message) => drop(self.updates_tx.send(SocketUpdate::Message(message.into_vec())).await),
                    Err(_) => break,
                },
                event = monitor.next() => match event {
                    Some(SocketEvent::Disconnected(_)) | None => break,
                    Some(_) => {}
                },
            }
        }
        let _ = self.updates_tx.send(SocketUpdate::Disconnected).await;
        true
    }
}

/// Messages that wait for the follower; behind them the engine's socket fills, and then drops.
const QUEUE: usize = 256;
