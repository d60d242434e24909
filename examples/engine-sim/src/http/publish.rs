//! ZeroMQ event publisher: vLLM's exact frames on PUB and replay sockets, with faults.
//!
//! [`ZmqPublisher`] is the engine's sink, [`PublisherHandle`] injects faults and has the addresses. Invariant: every batch is
//! numbered and kept before a fault can touch it, so that a replay has what was lost.
//!
//! The engine never waits: its batches go through an unbounded channel, and the task at the other end is never blocked for long: a PUB socket drops what it cannot send, and a client that does not read its replay has a second.

mod encode;
mod event_faults;
mod replay_buffer;
mod sockets;
mod task;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::task::{PublishCommand, Publisher};
use super::config::Fault;
use super::events::{CacheEvent, EventSink};
use super::reserved_port::ReservedPort;

pub use self::encode::batch as encode_batch;

/// How a publisher is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishConfig {
    /// Where its PUB socket listens. ReservedPort 0 takes a free one.
    pub events: SocketAddr,
    /// Where its ROUTER socket for replays listens. ReservedPort 0 takes a free one.
    pub replay: SocketAddr,
    /// What it calls its stream.
    pub topic: String,
    /// Batches it keeps for replay.
    pub replay_batches: usize,
}

impl PublishConfig {
    /// On free ports of the loopback interface.
    #[must_use]
    pub fn new(topic: &str, replay_batches: usize) -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self { events: any, replay: any, topic: topic.to_owned(), replay_batches }
    }
}

/// The engine's end: a sink whose batches are published.
#[derive(Debug)]
pub struct ZmqPublisher {
    commands: UnboundedSender<PublishCommand>,
    /// When the last batch was published.
    last: f64,
}

impl ZmqPublisher {
    /// Binds both sockets.
    ///
    /// # Errors
    ///
    /// When the ports cannot be had.
    pub async fn bind(config: PublishConfig) -> io::Result<(Self, PublisherHandle)> {
        let PublishConfig { topic, replay_batches, .. } = config;
        let ports = [ReservedPort::at(config.events)?, ReservedPort::at(config.replay)?];
        let [events, replay] = [endpoint(&ports[0])?, endpoint(&ports[1])?];
        let endpoints = Endpoints { events, replay, topic: topic.clone() };
        let publisher = Publisher::open(Bytes::from(topic), ports, replay_batches).await?;
        let (commands, received) = unbounded_channel();
        let stop = CancellationToken::new();
        let task = tokio::spawn(publisher.run(received, stop.clone()));
        let handle = PublisherHandle { commands: commands.clone(), endpoints, stop: stop.drop_guard(), task };
        Ok((Self { commands, last: 0.0 }, handle))
    }

    fn send(&self, command: PublishCommand) {
        // Closed once the publisher is stopped; the engine need not know.
        let _ = self.commands.send(command);
    }

    /// The time of the next batch: later than every one before, so that no two incarnations have a batch of one number and time.
    fn time(&mut self) -> f64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        self.last = now.max(self.last + LEAST_STEP);
        self.last
    }
}

impl EventSink for ZmqPublisher {
    fn step(&mut self, events: &[CacheEvent]) {
        let payload = encode::batch(self.time(), events);
        self.send(PublishCommand::Batch(payload.into()));
    }

    fn restarted(&mut self) {
        self.send(PublishCommand::Restarted);
    }
}

/// Addresses of a publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a subscriber has to know: complete by nature")]
pub struct Endpoints {
    /// Of the PUB socket.
    pub events: String,
    /// Of the ROUTER socket that answers replays.
    pub replay: String,
    /// What it calls its stream.
    pub topic: String,
}

/// The owner's end of a publisher. Dropping it stops the publisher, some time later.
#[derive(Debug)]
pub struct PublisherHandle {
    commands: UnboundedSender<PublishCommand>,
    endpoints: Endpoints,
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl PublisherHandle {
    /// Makes something go wrong, after the batches so far.
    ///
    /// [`Fault::Die`] closes the sockets until [`Fault::Restart`]. A restart ends every connection; that a new incarnation
    /// begins is for the engine to say, by [`EventSink::restarted`]. Faults that do not concern events change nothing.
    pub fn fault(&self, fault: Fault) {
        let _ = self.commands.send(PublishCommand::Fault(fault));
    }

    /// The same, for a hook of [`SimPod::on_fault`](crate::SimPod::on_fault).
    pub fn faults(&self) -> impl Fn(Fault) + Send + Sync + 'static {
        let commands = self.commands.clone();
        move |fault| drop(commands.send(PublishCommand::Fault(fault)))
    }

    /// Its addresses, in every incarnation.
    #[must_use]
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Ends it: its tasks, sockets and ports are gone when this returns.
    pub async fn stop(self) {
        drop(self.stop);
        // A panic of the task has been printed, and has closed the sockets as well.
        let _ = self.task.await;
    }
}

/// Seconds, a little more than the resolution of a time of this century.
const LEAST_STEP: f64 = 1e-6;

/// A port as ZeroMQ calls it.
fn endpoint(port: &ReservedPort) -> io::Result<String> {
    Ok(format!("tcp://{}", port.address()?))
}

#[cfg(test)]
mod tests {
    use kv_index::engine::{Message, decode_batch};
    use tokio::runtime::Handle;
    use tokio::time::{Duration, sleep, timeout};
    use zeromq::{Socket, SocketRecv, SubSocket};

    use super::*;
    use pointsman_example_common::zmq_close::close;

    async fn no_tasks() {
        let gone = async {
            while Handle::current().metrics().num_alive_tasks() > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(10), gone).await.expect("no task is left");
    }

    async fn subscriber(endpoints: &Endpoints) -> SubSocket {
        let mut socket = SubSocket::new();
        socket.subscribe(&endpoints.topic).await.unwrap();
        socket.connect(&endpoints.events).await.unwrap();
        socket
    }

    #[tokio::test]
    async fn numbers_begin_at_zero_in_every_life_and_times_only_grow() {
        let (mut sink, handle) = ZmqPublisher::bind(PublishConfig::new("kv", 10)).await.unwrap();
        let mut socket = subscriber(handle.endpoints()).await;
        let mut seen: Vec<(u64, f64)> = Vec::new();
        let hear = async {
            let mut incarnations = 0;
            while incarnations < 3 {
                // What is sent before the subscription has arrived is lost, so it goes on until enough was heard.
                sink.step(&[CacheEvent::Cleared]);
                let Ok(message) = timeout(Duration::from_millis(20), socket.recv()).await else { continue };
                let frames = message.unwrap().into_vec();
                let message = Message::parse(&frames).unwrap();
                assert_eq!(message.topic, b"kv");
                seen.push((message.sequence, decode_batch(message.payload).unwrap().timestamp));
                if seen.len().is_multiple_of(4) {
                    sink.restarted();
                    incarnations += 1;
                }
            }
        };
        timeout(Duration::from_secs(10), hear).await.expect("batches are heard");
        assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1), "{seen:?}");
        assert!(seen.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1 || pair[1].0 == 0), "{seen:?}");
        assert!(seen[1..].iter().filter(|(number, _)| *number == 0).count() >= 2, "{seen:?}");
        handle.stop().await;
        close(socket).await;
        no_tasks().await;
    }

    #[tokio::test]
    async fn a_dropped_handle_leaves_nothing_behind() {
        let (mut sink, handle) = ZmqPublisher::bind(PublishConfig::new("", 10)).await.unwrap();
        let socket = subscriber(handle.endpoints()).await;
        drop(handle);
        sink.step(&[CacheEvent::Cleared]);
        close(socket).await;
        no_tasks().await;
    }
}
