//! NATS JetStream event source: an ordered consumer that resumes at the position of a snapshot.
//!
//! The rule: [`StreamPosition`] is never beyond what the index has applied, and applying a message again changes nothing. So
//! a snapshot of the index, with a position read *before* it was taken, is enough to resume from.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::app_state::AppState;
use crate::config::NatsSource;
use pointsman_reporter::event_ingest::{EventIngest, IngestError};
use pointsman_reporter::nats::NatsConfig;
use pointsman_reporter::wire::{AckStatus, Message, ResyncRequest, decode};

/// Position and counters of a consumer.
#[derive(Debug, Default)]
pub struct StreamPosition {
    /// Everything up to this stream sequence is applied.
    sequence: AtomicU64,
    applied: AtomicU64,
    rejected: AtomicU64,
    resyncs: AtomicU64,
    connections: AtomicU64,
}

impl StreamPosition {
    /// The stream sequence up to which everything is applied; stored with a snapshot that is taken after reading it.
    #[must_use]
    pub fn position(&self) -> u64 {
        // Acquire: what was applied up to here is visible in the index. Pairs with `Consumer::take`.
        self.sequence.load(Ordering::Acquire)
    }

    /// Messages that were applied.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }

    /// Messages that were malformed, or of pods that are not in the fleet.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Requests for an inventory sent to workers.
    #[must_use]
    pub fn resyncs(&self) -> u64 {
        self.resyncs.load(Ordering::Relaxed)
    }

    /// Sessions begun, at first and after failures.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Starts the consumer, from the position of a restored snapshot.
pub(super) fn start(app: &Arc<AppState>, settings: &NatsSource, position: Option<u64>) -> Arc<StreamPosition> {
    let status = Arc::new(StreamPosition::default());
    let config = NatsConfig::new(&settings.url, &settings.stream, &settings.subject_prefix);
    let (ingest, stop) = (Arc::clone(&app.ingest), app.tasks.token());
    app.tasks.spawn_closing(consume(ingest, config, position, Arc::clone(&status), stop));
    status
}

/// Applies the stream's messages until `stop`, through every failure of the server: after a position of an earlier run, or from
/// the oldest stored message.
pub async fn consume(
    ingest: Arc<EventIngest>,
    config: NatsConfig,
    resume_after: Option<u64>,
    status: Arc<StreamPosition>,
    stop: CancellationToken,
) {
    if let Some(position) = resume_after {
        status.sequence.store(position, Ordering::Release);
    }
    let mut consumer = Consumer { ingest, config, status, incomplete: HashMap::new(), last_resync: HashMap::new() };
    let mut failures = 0u32;
    while !stop.is_cancelled() {
        let before = consumer.status.applied();
        let failed = stop.run_until_cancelled(consumer.session()).await;
        failures = if consumer.status.applied() > before { 0 } else { failures.saturating_add(1) };
        if failed.is_some() {
            let pause = Duration::from_millis(100 << failures.min(6));
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }
}

struct Consumer {
    ingest: Arc<EventIngest>,
    config: NatsConfig,
    status: Arc<StreamPosition>,
    /// By pod, the sequence of the first part of an incomplete inventory: a replay must begin there.
    incomplete: HashMap<String, u64>,
    last_resync: HashMap<String, Instant>,
}

impl Consumer {
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
                self.status.sequence.store(0, Ordering::Release);
                DeliverPolicy::All
            }
        };
        let config = pull::OrderedConfig { deliver_policy, filter_subject: self.config.all(), ..Default::default() };
        let mut messages = stream.create_consumer(config).await?.messages().await?;
        self.status.connections.fetch_add(1, Ordering::Relaxed);
        let mut check = tokio::time::interval(CONNECTION_CHECK_INTERVAL);
        loop {
            let message = tokio::select! {
                message = messages.next() => message.transpose()?,
                // With its server the consumer is gone, though the connection may be back in no time. By its heartbeats that
                // would be noticed after fifteen seconds.
                _ = check.tick() => match client.connection_state() {
                    State::Connected if connects() == before => continue,
                    _ => None,
                },
            };
            let Some(message) = message else { return Ok(()) };
            let sequence = message.info()?.stream_sequence;
            if let Some(resync) = self.take(sequence, &message.payload).await {
                self.request_resync(&client, &resync).await?;
            }
        }
    }

    /// Applies one message and advances; returns the resynchronization request that follows from it.
    async fn take(&mut self, sequence: u64, payload: &[u8]) -> Option<ResyncRequest> {
        let resync = match decode::<Message>(payload) {
            Ok(message) => self.apply(sequence, message).await,
            Err(_) => {
                self.status.rejected.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        let safe = self.incomplete.values().min().map_or(sequence, |first| first - 1);
        // Release: what was applied is published with it. Pairs with `StreamPosition::position`.
        self.status.sequence.store(safe, Ordering::Release);
        resync
    }

    async fn apply(&mut self, sequence: u64, message: Message) -> Option<ResyncRequest> {
        let (pod, resync) = (message.pod().to_owned(), ResyncRequest::after(&message, AckStatus::Gap));
        let ack = match self.ingest.message_async(message).await {
            Ok(ack) => ack,
            Err(error) => {
                self.status.rejected.fetch_add(1, Ordering::Relaxed);
                self.incomplete.remove(&pod);
                // There may be room for it the next time.
                return resync.filter(|_| matches!(error, IngestError::NoRoom { .. }));
            }
        };
        match ack.status {
            AckStatus::Partial => {
                self.incomplete.entry(pod).or_insert(sequence);
            }
            _ => {
                self.incomplete.remove(&pod);
            }
        }
        self.status.applied.fetch_add(u64::from(ack.status == AckStatus::Applied), Ordering::Relaxed);
        let resync = resync.filter(|_| ack.status.needs_inventory())?;
        Some(ResyncRequest { status: ack.status, ..resync })
    }

    /// Requests an inventory, rate-limited by pod.
    async fn request_resync(&mut self, client: &Client, resync: &ResyncRequest) -> Result<(), async_nats::Error> {
        let now = Instant::now();
        if self.last_resync.get(&resync.pod).is_some_and(|&last| now < last + RESYNC_INTERVAL) {
            return Ok(());
        }
        self.last_resync.insert(resync.pod.clone(), now);
        self.status.resyncs.fetch_add(1, Ordering::Relaxed);
        client.publish(self.config.resync_subject(&resync.pod), serde_json::to_vec(resync)?.into()).await?;
        Ok(())
    }
}

/// Every batch after a gap is one too; the inventory is under way.
const RESYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of checks of the connection.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(500);
