//! Publisher task: owns the sockets, numbers and publishes batches, answers replay requests.

use std::io;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::event_faults::EventFaults;
use super::replay_buffer::{Batch, ReplayBuffer};
use super::sockets::{ReplayRequest, Sockets};
use crate::http::config::Fault;
use crate::http::reserved_port::ReservedPort;

/// Input of the task, in order.
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
    replay: ReplayBuffer,
    faults: EventFaults,
    /// None while dead.
    sockets: Option<Sockets>,
}

impl Publisher {
    /// Listens on both ports.
    pub(super) async fn open(topic: Bytes, ports: [ReservedPort; 2], replay_batches: usize) -> io::Result<Self> {
        let replay = ReplayBuffer::new(replay_batches);
        let mut publisher = Self { topic, ports, replay, faults: EventFaults::default(), sockets: None };
        publisher.listen().await?;
        Ok(publisher)
    }

    /// Publishes until stopped; then nothing is left.
    pub(super) async fn run(mut self, mut commands: UnboundedReceiver<PublishCommand>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                asked = asked(&mut self.sockets) => match asked {
                    Some(ask) => self.answer(ask).await,
                    None => self.cut().await,
                },
                next = commands.recv() => match next {
                    Some(next) => self.handle(next).await,
                    None => break,
                },
            }
        }
        if let Some(sockets) = self.sockets {
            sockets.close().await;
        }
    }

    async fn handle(&mut self, command: PublishCommand) {
        match command {
            PublishCommand::Batch(payload) => {
                // Also while dead: a new incarnation may begin before its sockets are open, and is replayed.
                let batch = self.replay.add(payload);
                let out = self.faults.pass(batch);
                self.publish(out).await;
            }
            PublishCommand::Restarted => {
                self.replay.begin();
                self.faults.begin();
            }
            PublishCommand::Fault(Fault::Die | Fault::DieFor(_)) => self.close().await,
            PublishCommand::Fault(Fault::Restart | Fault::ChangeHashSeed) => self.cut().await,
            PublishCommand::Fault(fault) => {
                let late = self.faults.fault(fault);
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
            Some(sockets) if self.faults.answers() => sockets.answer(&self.topic, ask, &self.replay).await,
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
