//! Reports from a NATS JetStream stream, in its order, from where this gateway left off.
//!
//! The rule: [`Position`] is never beyond what the index has applied, and applying a message again changes nothing. So a
//! snapshot of the index, with a position read *before* it was taken, is enough to go on from.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use pointsman_reporter::event_ingest::EventIngest;
use pointsman_reporter::wire::{Message, Resync, Verdict, decode};

pub use pointsman_reporter::nats::NatsConfig;

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "from the beginning or after a position: complete by nature")]
pub enum Start {
    /// With the oldest message that is kept.
    First,
    /// After this position of an earlier run.
    After(u64),
}

/// What following a stream comes to, shared with whoever wants to know.
#[derive(Debug, Default)]
pub struct Position {
    /// Everything up to here is applied.
    at: AtomicU64,
    applied: AtomicU64,
    refused: AtomicU64,
    asked: AtomicU64,
    connections: AtomicU64,
}

impl Position {
    /// The stream's number up to which everything is applied; kept with a snapshot that is taken after reading it.
    #[must_use]
    pub fn position(&self) -> u64 {
        // Acquire: what was applied up to here is in the index for whoever reads it. Pairs with `Follower::take`.
        self.at.load(Ordering::Acquire)
    }

    /// Messages that were applied.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }

    /// Messages that were no messages, or of pods that are not in the fleet.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// How often a worker was asked for an inventory.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// How often reading began, at first and after failures.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Applies the stream's messages until `stop`, through every failure of the server.
pub async fn follow(
    inbox: Arc<EventIngest>,
    config: NatsConfig,
    from: Start,
    status: Arc<Position>,
    stop: CancellationToken,
) {
    if let Start::After(position) = from {
        status.at.store(position, Ordering::Release);
    }
    let mut follower = Follower { inbox, config, status, open: HashMap::new(), last_asked: HashMap::new() };
    let mut failures = 0u32;
    while !stop.is_cancelled() {
        let before = follower.status.applied();
        let failed = stop.run_until_cancelled(follower.session()).await;
        failures = if follower.status.applied() > before { 0 } else { failures.saturating_add(1) };
        if failed.is_some() {
            let pause = Duration::from_millis(100 << failures.min(6));
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }
}

struct Follower {
    inbox: Arc<EventIngest>,
    config: NatsConfig,
    status: Arc<Position>,
    /// By pod, where the first part of an inventory is that is not whole yet: a replay must begin there.
    open: HashMap<String, u64>,
    last_asked: HashMap<String, Instant>,
}

impl Follower {
    /// Reads until something fails.
    async fn session(&mut self) -> Result<(), async_nats::Error> {
        let client = self.config.client().await?;
        let mut stream = self.config.open(client.clone()).await?;
        let connects = || client.statistics().connects.load(Ordering::Relaxed);
        let (before, next) = (connects(), self.status.position() + 1);
        let last = stream.info().await?.state.last_sequence;
        // A position beyond the end is of an earlier stream of this name: this one is read from its beginning.
        let deliver_policy = match next {
            next if next > 1 && next <= last + 1 => DeliverPolicy::ByStartSequence { start_sequence: next },
            _ => {
                self.status.at.store(0, Ordering::Release);
                DeliverPolicy::All
            }
        };
        let config = pull::OrderedConfig { deliver_policy, filter_subject: self.config.all(), ..Default::default() };
        let mut messages = stream.create_consumer(config).await?.messages().await?;
        self.status.connections.fetch_add(1, Ordering::Relaxed);
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            let message = tokio::select! {
                message = messages.next() => message.transpose()?,
                // With its server the consumer is gone, though the connection may be back in no time. By its heartbeats that
                // would be noticed after fifteen seconds.
                _ = look.tick() => match client.connection_state() {
                    State::Connected if connects() == before => continue,
                    _ => None,
                },
            };
            let Some(message) = message else { return Ok(()) };
            let sequence = message.info()?.stream_sequence;
            if let Some(resync) = self.take(sequence, &message.payload).await {
                self.ask(&client, &resync).await?;
            }
        }
    }

    /// Applies one message and moves on; whom to ask for an inventory.
    async fn take(&mut self, sequence: u64, payload: &[u8]) -> Option<Resync> {
        let resync = match decode::<Message>(payload) {
            Ok(message) => self.apply(sequence, message).await,
            Err(_) => {
                self.status.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        let safe = self.open.values().min().map_or(sequence, |first| first - 1);
        // Release: what was applied is published with it. Pairs with `Position::position`.
        self.status.at.store(safe, Ordering::Release);
        resync
    }

    async fn apply(&mut self, sequence: u64, message: Message) -> Option<Resync> {
        let (pod, resync) = (message.pod().to_owned(), Resync::after(&message, Verdict::Gap));
        let Ok(answer) = self.inbox.take(message).await else {
            self.status.refused.fetch_add(1, Ordering::Relaxed);
            self.open.remove(&pod);
            return None;
        };
        match answer.verdict {
            Verdict::Partial => {
                self.open.entry(pod).or_insert(sequence);
            }
            _ => {
                self.open.remove(&pod);
            }
        }
        self.status.applied.fetch_add(u64::from(answer.verdict == Verdict::Applied), Ordering::Relaxed);
        let resync = resync.filter(|_| answer.verdict.wants_inventory())?;
        Some(Resync { verdict: answer.verdict, ..resync })
    }

    /// Asks a pod's worker, not more than once in a while.
    async fn ask(&mut self, client: &Client, resync: &Resync) -> Result<(), async_nats::Error> {
        let now = Instant::now();
        if self.last_asked.get(&resync.pod).is_some_and(|&last| now < last + ASK_EVERY) {
            return Ok(());
        }
        self.last_asked.insert(resync.pod.clone(), now);
        self.status.asked.fetch_add(1, Ordering::Relaxed);
        client.publish(self.config.resync_subject(&resync.pod), serde_json::to_vec(resync)?.into()).await?;
        Ok(())
    }
}

/// Every report after a gap is one; the inventory is under way.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How often the connection is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
