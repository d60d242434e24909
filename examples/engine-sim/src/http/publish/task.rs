//! The task that owns a publisher's sockets: numbers what it is told, publishes it, answers replays in between.

use std::io;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::event_faults::EventFaults;
use super::replay_buffer::{Batch, ReplayBuffer};
use super::sockets::{ReplayRequest, Sockets};
use crate::http::config::Fault;
use crate::http::reserved_port::ReservedPort;

/// What the task is told, in order.
#[derive(Debug)]
pub(super) enum PublishCommand {
    /// The payload of a batch.
    Batch(Bytes),
    /// The engine started anew.
    Restarted,
    /// Something is to go wrong.
    Fault(Fault),
}

/// A publisher at work.
pub(super) struct Publisher {
    topic: Bytes,
    ports: [ReservedPort; 2],
    log: ReplayBuffer,
    wire: EventFaults,
    /// None while dead.
    sockets: Option<Sockets>,
}

impl Publisher {
    /// Listens on both ports.
    pub(super) async fn open(topic: Bytes, ports: [ReservedPort; 2], replay_batches: usize) -> io::Result<Self> {
        let log = ReplayBuffer::new(replay_batches);
        let mut publisher = Self { topic, ports, log, wire: EventFaults::default(), sockets: None };
        publisher.listen().await?;
        Ok(publisher)
    }

    /// Publishes until stopped; then nothing is left.
    pub(super) async fn run(mut self, mut told: UnboundedReceiver<PublishCommand>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                asked = asked(&mut self.sockets) => match asked {
                    Some(ask) => self.answer(ask).await,
                    None => self.cut().await,
                },
                next = told.recv() => match next {
                    Some(next) => self.take(next).await,
                    None => break,
                },
            }
        }
        if let Some(sockets) = self.sockets {
            sockets.close().await;
        }
    }

    async fn take(&mut self, told: PublishCommand) {
        match told {
            PublishCommand::Batch(payload) => {
                // Also while dead: a new incarnation may begin before its sockets are open, and is replayed.
                let batch = self.log.add(payload);
                let out = self.wire.pass(batch);
                self.publish(out).await;
            }
            PublishCommand::Restarted => {
                self.log.begin();
                self.wire.begin();
            }
            PublishCommand::Fault(Fault::Die | Fault::DieFor(_)) => self.close().await,
            PublishCommand::Fault(Fault::Restart | Fault::ChangeHashSeed) => self.cut().await,
            PublishCommand::Fault(fault) => {
                let late = self.wire.fault(fault);
                self.publish(late).await;
            }
        }
    }

    async fn publish(&mut self, batches: impl IntoIterator<Item = Batch>) {
        let Some(sockets) = &mut self.sockets else { return };
        for batch in batches {
            sockets.publish(&self.topic, batch).await;
        }
    }

    async fn answer(&mut self, ask: ReplayRequest) {
        match &mut self.sockets {
            Some(sockets) if self.wire.answers() => sockets.answer(&self.topic, ask, &self.log).await,
            _ => {}
        }
    }

    /// Ends every connection; the ports are listened on again.
    async fn cut(&mut self) {
        self.close().await;
        // The ports are kept for us, so this fails only where the machine is out of something; then it stays dead.
        let _ = self.listen().await;
    }

    async fn listen(&mut self) -> io::Result<()> {
        let [events, replay] = &self.ports;
        self.sockets = Some(Sockets::open(events, replay).await?);
        Ok(())
    }

    async fn close(&mut self) {
        if let Some(sockets) = self.sockets.take() {
            sockets.close().await;
        }
    }
}

/// The next request for a replay; none where the socket broke. Never while dead.
async fn asked(sockets: &mut Option<Sockets>) -> Option<ReplayRequest> {
    match sockets {
        Some(sockets) => sockets.asked().await.ok(),
        None => std::future::pending().await,
    }
}
