//! PUB socket for live batches, ROUTER socket for replays.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use kv_index::engine::parse_replay_request;
use tokio::time::timeout;
use zeromq::{PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqError, ZmqMessage};

use super::replay_buffer::{Batch, ReplayBuffer};
use crate::http::reserved_port::ReservedPort;
use pointsman_example_common::zmq_close::close;

/// Both sockets, open.
pub(super) struct Sockets {
    events: PubSocket,
    replay: RouterSocket,
}

/// A client that asks for a replay, and its first batch.
pub(super) struct ReplayRequest {
    client: Bytes,
    start: u64,
}

impl Sockets {
    /// Listens on both ports.
    pub(super) async fn open(events: &ReservedPort, replay: &ReservedPort) -> io::Result<Self> {
        let mut sockets = Self { events: PubSocket::new(), replay: RouterSocket::new() };
        sockets.events.bind_listener(events.listen()?.into_std()?).await.map_err(io::Error::other)?;
        sockets.replay.bind_listener(replay.listen()?.into_std()?).await.map_err(io::Error::other)?;
        Ok(sockets)
    }

    /// Sends a batch to whoever is connected.
    pub(super) async fn publish(&mut self, topic: &Bytes, batch: Batch) {
        let frames = vec![topic.clone(), number(batch.sequence), batch.payload];
        // A PUB socket drops what it cannot send, and says nothing: its subscribers see a gap.
        let _ = self.events.send(message(frames)).await;
    }

    /// The next request for a replay. Anything else that comes is not answered, as by the engine.
    pub(super) async fn asked(&mut self) -> Result<ReplayRequest, ZmqError> {
        loop {
            let frames = self.replay.recv().await?.into_vec();
            let Some((client, request)) = frames.split_first() else { continue };
            if let Ok(start) = parse_replay_request(request) {
                return Ok(ReplayRequest { client: client.clone(), start });
            }
        }
    }

    /// Answers a request with every batch that is kept, and the end.
    pub(super) async fn answer(&mut self, topic: &Bytes, ask: ReplayRequest, replay: &ReplayBuffer) {
        let reply = |topic: Bytes, sequence, payload| {
            message(vec![ask.client.clone(), Bytes::new(), topic, number(sequence), payload])
        };
        let all = async {
            for batch in replay.since(ask.start) {
                self.replay.send(reply(topic.clone(), batch.sequence, batch.payload.clone())).await?;
            }
            self.replay.send(reply(Bytes::new(), END, Bytes::new())).await
        };
        // A client that went away meanwhile gets nothing; one that does not read holds nobody up for long.
        let _ = timeout(REPLAY_TIMEOUT, all).await;
    }

    /// Closes both, until nothing is left of them.
    pub(super) async fn close(self) {
        tokio::join!(close(self.events), close(self.replay));
    }
}

fn number(sequence: u64) -> Bytes {
    Bytes::copy_from_slice(&sequence.to_be_bytes())
}

fn message(frames: Vec<Bytes>) -> ZmqMessage {
    ZmqMessage::try_from(frames).expect("there are frames")
}

/// The number that ends a replay.
const END: u64 = u64::MAX;

/// How long a client may take to make room in its queue of 100 000 replies.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(1);
