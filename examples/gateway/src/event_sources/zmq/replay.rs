//! Event replay: one exchange with an engine's ROUTER socket, reply by reply, to its end.
//!
//! A task owns the socket, a new one each time, so that replies to a dropped request are never taken for those to the next.

use bytes::Bytes;
use futures_util::StreamExt;
use kv_index::engine::{ReplayReply, replay_request};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use zeromq::{DealerSocket, Socket, SocketEvent, SocketRecv, SocketSend, ZmqMessage};

use super::Timing;
use pointsman_example_common::zmq_close::close;

/// A replay under way. Dropping it ends its task, some time later.
#[derive(Debug)]
pub(super) struct Replay {
    replies: mpsc::Receiver<Vec<Bytes>>,
    pub(super) cause: Cause,
    /// Replies that were batches.
    pub(super) batches: u64,
    /// Whether a live message arrived since the request.
    pub(super) live: bool,
    _stop: DropGuard,
}

impl Replay {
    /// Requests everything from `start` on, by a task of `tasks`.
    pub(super) fn request(tasks: &TaskTracker, endpoint: &str, start: u64, timing: Timing, cause: Cause) -> Self {
        let (replies_tx, replies) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let (endpoint, stopped) = (endpoint.to_owned(), stop.clone());
        tasks.spawn(async move {
            let mut socket = DealerSocket::new();
            tokio::select! {
                () = stopped.cancelled() => {}
                _ = timeout(timing.replay, exchange(&mut socket, &endpoint, start, timing, &replies_tx)) => {}
            }
            close(socket).await;
        });
        Self { replies, cause, batches: 0, live: false, _stop: stop.drop_guard() }
    }

    /// The next reply; none where the engine does not reply, or breaks off.
    pub(super) async fn next(&mut self) -> Option<Vec<Bytes>> {
        self.replies.recv().await
    }
}

/// Why it was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Something is missing, or may be since the connection is new.
    Missing,
    /// No message arrived for a while.
    Silence,
}

/// Forwards replies until the end, which may never come. None where it breaks off.
async fn exchange(
    socket: &mut DealerSocket,
    endpoint: &str,
    start: u64,
    timing: Timing,
    replies_tx: &mpsc::Sender<Vec<Bytes>>,
) -> Option<()> {
    let mut monitor = socket.monitor();
    timeout(timing.reply, socket.connect(endpoint)).await.ok()?.ok()?;
    let request: Vec<Bytes> = replay_request(start).map(Bytes::from).into();
    socket.send(ZmqMessage::try_from(request).expect("there are frames")).await.ok()?;
    loop {
        let reply = tokio::select! {
            reply = timeout(timing.reply, socket.recv()) => reply.ok()?.ok()?.into_vec(),
            () = disconnected(&mut monitor) => return None,
        };
        let ends = matches!(ReplayReply::parse(&reply), Ok(ReplayReply::End));
        replies_tx.send(reply).await.ok()?;
        if ends {
            return Some(());
        }
    }
}

/// Returns when the engine disconnects.
async fn disconnected(monitor: &mut (impl StreamExt<Item = SocketEvent> + Unpin)) {
    while let Some(event) = monitor.next().await {
        if matches!(event, SocketEvent::Disconnected(_)) {
            return;
        }
    }
}

/// Replies that wait for the follower; beyond them the engine's queue fills (backpressure).
const QUEUE: usize = 64;
