//! Cache event reporter: a worker's side of pushed KV-cache events, off the engine's critical path.
//!
//! ```text
//!  engine ──▶ ReporterHandle ──▶ event_queue ──▶ state_machine ──▶ MessageSink ──▶ gateway: event_ingest ──▶ index
//!                                (bounded)       (sans-IO)         http, nats, grpc
//! ```
//!
//! The engine calls a [`ReporterHandle`] as its cache changes; that appends to a bounded queue. A task of the host's
//! ([`start`] returns it) sends batches through an [`MessageSink`] until they are acknowledged, compares digests, and sends an
//! inventory where a gateway is missing something. The rule: **an eviction is never lost in silence**. Events that overflow
//! the queue, or that a gateway rejects, are replaced by an inventory.
//!
//! The messages are specified in `PROTOCOL.md`, which is the documentation of [`wire`].
//!
//! # Events and inventories in order
//!
//! An inventory is what [`InventorySource::inventory`] lists, and it must be clear which events it includes: a copy that is
//! counted twice is believed after it is gone. So the host calls the handle under the lock that guards its cache, and while
//! it lists that cache, under that lock, it calls [`Checkpoint::mark`]. Events before the mark are in the list and are
//! dropped from the queue; events after it go out after the inventory. Batches taken earlier have lower sequence numbers
//! than the inventory and are superseded by it, sent or not (`tests::inventories_and_events_never_overlap`).
//!
//! One reporter sends to one gateway over HTTP or gRPC. For several replicas start a reporter each, or use NATS, where all
//! of them read one stream.

#![forbid(unsafe_code)]

pub mod event_ingest;
mod event_queue;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod http;
mod message_sink;
#[cfg(feature = "nats")]
pub mod nats;
mod running_digest;
pub mod shadow_cache;
pub mod source_status;
mod state_machine;
#[cfg(feature = "tls")]
pub mod tls;
pub mod wire;

use std::future::Future;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tokio::time::sleep_until;

use crate::wire::InventoryEntry;
use crate::wire::bounds::MAX_NUMBER;
use event_queue::EventQueue;
use state_machine::{Action, BatchSource, StateMachine};

pub use event_queue::ReporterHandle;
pub use message_sink::{MessageSink, SinkError};
pub use state_machine::{Config, ReporterStats};

/// The incarnation of a worker that starts now: microseconds since 1970.
///
/// A worker must not start twice with one. Should the clock have gone back since the last start, gateways answer `stale`, and
/// the reporter takes a higher one by itself.
#[must_use]
pub fn incarnation_now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(MAX_NUMBER).min(MAX_NUMBER)
}

/// A worker's whole cache, on demand.
pub trait InventorySource: Send + 'static {
    /// Lists every block, parents before children where possible, and calls [`Checkpoint::mark`] while the cache cannot
    /// change. Called from the reporter's task; seldom.
    fn inventory(&mut self, checkpoint: Checkpoint<'_>) -> Vec<InventoryEntry>;
}

/// Separates the events that an inventory includes from those after it.
#[derive(Debug)]
pub struct Checkpoint<'a>(&'a EventQueue);

impl Checkpoint<'_> {
    /// Everything queued up to here is in the list. To be called under the lock that guards the cache.
    pub fn mark(self) {
        self.0.discard();
    }
}

/// A handle for the engine, and the task that does the sending, to be spawned by the host.
///
/// The task ends when the last handle is dropped and the rest was sent, or three attempts failed; or when the host drops it.
/// The first message is an inventory: a gateway may have anything of an earlier incarnation.
pub fn start<I: InventorySource, S: MessageSink>(
    config: Config,
    inventory: I,
    sink: S,
) -> (ReporterHandle, impl Future<Output = ReporterStats> + Send) {
    let queue = Arc::new(EventQueue::new(config.queue_blocks));
    let handle = ReporterHandle::new(Arc::clone(&queue));
    let machine = StateMachine::new(config, Instant::now());
    (handle, run(machine, QueueAndCache { queue, inventory }, sink))
}

/// The state machine's source of batches and inventories.
struct QueueAndCache<I> {
    queue: Arc<EventQueue>,
    inventory: I,
}

impl<I: InventorySource> BatchSource for QueueAndCache<I> {
    fn queued(&self) -> usize {
        self.queue.queued()
    }

    fn overflowed(&self) -> bool {
        self.queue.overflowed()
    }

    fn batch(&mut self, changes: usize, blocks: usize) -> Vec<crate::wire::Change> {
        self.queue.take(changes, blocks)
    }

    fn inventory(&mut self) -> Vec<InventoryEntry> {
        self.inventory.inventory(Checkpoint(&self.queue))
    }
}

async fn run<I: InventorySource, S: MessageSink>(
    mut machine: StateMachine,
    mut source: QueueAndCache<I>,
    mut sink: S,
) -> ReporterStats {
    let mut failures_at_end = 0;
    loop {
        let closed = source.queue.is_closed();
        match machine.poll(Instant::now(), closed, &mut source) {
            Action::Send(message) => {
                let result = sink.send(message).await;
                failures_at_end += u32::from(closed && result.is_err());
                machine.acknowledged(Instant::now(), result);
            }
            Action::Wait(until) => {
                if closed && (!machine.is_retrying() || failures_at_end >= FAILURES_AT_END) {
                    break;
                }
                tokio::select! {
                    () = sleep_until(until.into()) => {}
                    () = source.queue.changed() => {}
                    request = sink.resync_request() => machine.resync_requested(Instant::now(), &request),
                }
            }
        }
        source.queue.publish(machine.stats());
    }
    source.queue.publish(machine.stats());
    source.queue.stats()
}

/// Attempts that may fail after the last handle is dropped, before the rest is left unsent.
const FAILURES_AT_END: u32 = 3;

#[cfg(test)]
mod tests;
