//! One end of an engine's PUB socket that stays connected: connects, listens, and connects again when it is cut off.
//!
//! A task owns the socket. The crate's own reconnecting is not relied on: its pauses grow to half a minute and cannot be
//! set. So a socket that is cut off is closed, and a new one tries again within [`Pace::retry_most`].

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use zeromq::{Socket, SocketEvent, SocketOptions, SocketRecv, SubSocket};

use super::Pace;
use pointsman_example_common::zmq_close::close;

/// What was heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// The engine is there. What it publishes from now on is heard, a moment later.
    Connected,
    /// The frames of a message.
    Message(Vec<Bytes>),
    /// The engine is gone.
    Cut,
}

/// A subscription. Dropping it ends its task, some time later.
#[derive(Debug)]
pub(super) struct Subscription {
    heard: mpsc::Receiver<Heard>,
    _stop: DropGuard,
}

impl Subscription {
    /// Connects to an endpoint, by a task of `tasks`.
    pub(super) fn open(tasks: &TaskTracker, endpoint: &str, topic: &str, pace: Pace) -> Self {
        let (hears, heard) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let task = Task { endpoint: endpoint.to_owned(), topic: topic.to_owned(), pace, hears, stop: stop.clone() };
        tasks.spawn(task.run());
        Self { heard, _stop: stop.drop_guard() }
    }

    /// What is heard next.
    pub(super) async fn next(&mut self) -> Heard {
        match self.heard.recv().await {
            Some(heard) => heard,
            // Its task ends only when the runtime does.
            None => std::future::pending().await,
        }
    }
}

struct Task {
    endpoint: String,
    topic: String,
    pace: Pace,
    hears: mpsc::Sender<Heard>,
    stop: CancellationToken,
}

impl Task {
    async fn run(self) {
        let stop = self.stop.clone();
        let mut pause = self.pace.retry;
        while !stop.is_cancelled() {
            let mut socket = self.socket();
            tokio::select! {
                () = stop.cancelled() => {}
                heard = self.hear(&mut socket) => {
                    pause = if heard { self.pace.retry } else { (pause * 2).min(self.pace.retry_most) };
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
        options.connect_timeout(self.pace.retry_most);
        SubSocket::with_options(options)
    }

    /// Connects and hands over what comes, until the engine is gone. Whether it was there at all.
    async fn hear(&self, socket: &mut SubSocket) -> bool {
        let mut monitor = socket.monitor();
        if socket.subscribe(&self.topic).await.is_err() || socket.connect(&self.endpoint).await.is_err() {
            return false;
        }
        let _ = self.hears.send(Heard::Connected).await;
        loop {
            tokio::select! {
                message = socket.recv() => match message {
                    Ok(message) => drop(self.hears.send(Heard::Message(message.into_vec())).await),
                    Err(_) => break,
                },
                event = monitor.next() => match event {
                    Some(SocketEvent::Disconnected(_)) | None => break,
                    Some(_) => {}
                },
            }
        }
        let _ = self.hears.send(Heard::Cut).await;
        true
    }
}

/// Messages that wait for the follower; behind them the engine's socket fills, and then drops.
const QUEUE: usize = 256;
