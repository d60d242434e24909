//! One exchange with an engine's ROUTER socket: what is asked for, reply by reply, to its end.
//!
//! A task owns the socket, a new one each time, so that replies to an ask that was given up are never taken for replies to
//! the next one.

use bytes::Bytes;
use futures_util::StreamExt;
use kv_index::engine::{ReplayReply, replay_request};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use zeromq::{DealerSocket, Socket, SocketEvent, SocketRecv, SocketSend, ZmqMessage};

use super::Pace;
use pointsman_example_common::zmq_close::close;

/// A replay under way. Dropping it ends its task, some time later.
#[derive(Debug)]
pub(super) struct Replay {
    replies: mpsc::Receiver<Vec<Bytes>>,
    pub(super) cause: Cause,
    /// Replies that were batches.
    pub(super) brought: u64,
    /// Whether something was heard live since it was asked.
    pub(super) live: bool,
    _stop: DropGuard,
}

impl Replay {
    /// Asks an endpoint for everything from `start` on, by a task of `tasks`.
    pub(super) fn ask(tasks: &TaskTracker, endpoint: &str, start: u64, pace: Pace, cause: Cause) -> Self {
        let (gets, replies) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let (endpoint, stopped) = (endpoint.to_owned(), stop.clone());
        tasks.spawn(async move {
            let mut socket = DealerSocket::new();
            tokio::select! {
                () = stopped.cancelled() => {}
                _ = timeout(pace.whole, exchange(&mut socket, &endpoint, start, pace, &gets)) => {}
            }
            close(socket).await;
        });
        Self { replies, cause, brought: 0, live: false, _stop: stop.drop_guard() }
    }

    /// The next reply; none where the engine does not answer, or breaks off.
    pub(super) async fn next(&mut self) -> Option<Vec<Bytes>> {
        self.replies.recv().await
    }
}

/// Why it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Something is missing, or may be since the connection is new.
    Missing,
    /// Nothing was heard for a while.
    Silence,
}

/// Hands over replies until the end, which may never come. None where it breaks off.
async fn exchange(
    socket: &mut DealerSocket,
    endpoint: &str,
    start: u64,
    pace: Pace,
    gets: &mpsc::Sender<Vec<Bytes>>,
) -> Option<()> {
    let mut monitor = socket.monitor();
    timeout(pace.answer, socket.connect(endpoint)).await.ok()?.ok()?;
    let request: Vec<Bytes> = replay_request(start).map(Bytes::from).into();
    socket.send(ZmqMessage::try_from(request).expect("there are frames")).await.ok()?;
    loop {
        let reply = tokio::select! {
            reply = timeout(pace.answer, socket.recv()) => reply.ok()?.ok()?.into_vec(),
            () = cut(&mut monitor) => return None,
        };
        let ends = matches!(ReplayReply::parse(&reply), Ok(ReplayReply::End));
        gets.send(reply).await.ok()?;
        if ends {
            return Some(());
        }
    }
}

/// Returns when the engine is gone.
async fn cut(monitor: &mut (impl StreamExt<Item = SocketEvent> + Unpin)) {
    while let Some(event) = monitor.next().await {
        if matches!(event, SocketEvent::Disconnected(_)) {
            return;
        }
    }
}

/// Replies that wait for the follower; behind them the engine's queue fills.
const QUEUE: usize = 64;
