//! A worker's end: tells a gateway what its cache stores and evicts, off the engine's critical path.
//!
//! The engine calls a [`ReporterHandle`] as its cache changes. That only ever appends to a bounded queue. A task of the
//! host's ([`Reporter::start`] returns it) sends batches through an [`Outlet`], again and again until they are answered,
//! compares digests, and sends an inventory where the gateway is missing something. The rule: **an eviction is never lost
//! in silence**. What does not fit the queue, and what a gateway will not take, is replaced by an inventory.
//!
//! # Events and inventories in order
//!
//! An inventory is what [`Holdings::inventory`] lists, and it must be clear which events it has in it already: a copy
//! that is counted twice is believed after it is gone. So the host calls the handle under the same lock that guards its
//! cache, and while it lists that cache, under that lock, it calls [`Cut::here`]. Events before the cut are in
//! the list and are dropped from the queue; events after it are not and go out after the inventory. Batches taken
//! earlier have lower numbers than the inventory and are superseded by it, sent or not
//! (`reporter::tests::inventories_and_events_never_overlap`).
//!
//! One reporter speaks to one gateway over HTTP or gRPC. For several replicas start a reporter each, or use NATS,
//! where all of them read one stream.

#![forbid(unsafe_code)]

pub mod backlog;
pub mod core;
pub mod event_ingest;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod http;
#[cfg(feature = "nats")]
pub mod nats;
pub mod outlet;
pub mod shadow;
pub mod source_status;
mod tally;
pub mod wire;

use std::future::Future;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tokio::time::sleep_until;

use crate::wire::HeldBlock;
use crate::wire::bounds::MOST_NUMBER;
use backlog::Backlog;
use core::{Core, Step, Supply};

pub use backlog::ReporterHandle;
pub use core::{Config, Figures};
pub use outlet::{Outlet, OutletError};

/// The incarnation of a worker that starts now: microseconds since 1970.
///
/// It is all that tells two lives apart, so a worker must not start twice with one. Should the clock have gone back since the
/// last start, gateways call the worker stale, and it takes a higher one by itself.
#[must_use]
pub fn incarnation_now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(MOST_NUMBER).min(MOST_NUMBER)
}

/// A worker's whole cache, on demand.
pub trait Holdings: Send + 'static {
    /// Lists every block, parents before children where possible, and calls [`Cut::here`] while the cache cannot
    /// change. Called from the reporter's task; seldom.
    fn inventory(&mut self, cut: Cut<'_>) -> Vec<HeldBlock>;
}

/// Tells the reporter which events an inventory has in it: those before.
#[derive(Debug)]
pub struct Cut<'a>(&'a Backlog);

impl Cut<'_> {
    /// Everything queued up to here is in the list. To be called under the lock that guards the cache.
    pub fn here(self) {
        self.0.forget();
    }
}

/// Starts reporters.
#[derive(Debug)]
pub struct Reporter;

impl Reporter {
    /// A handle for the engine, and the task that does the sending, to be spawned by the host.
    ///
    /// The task ends when the last handle is dropped and the rest was sent, or three attempts failed; or when the host
    /// drops it. The first message is an inventory: the gateway may have anything of an earlier life.
    pub fn start<H: Holdings, O: Outlet>(
        config: Config,
        holdings: H,
        outlet: O,
    ) -> (ReporterHandle, impl Future<Output = Figures> + Send) {
        let backlog = Arc::new(Backlog::new(config.queue_blocks));
        let handle = ReporterHandle::new(Arc::clone(&backlog));
        let core = Core::new(config, Instant::now());
        (handle, run(core, Source { backlog, holdings }, outlet))
    }
}

/// What the core takes batches and inventories from.
struct Source<H> {
    backlog: Arc<Backlog>,
    holdings: H,
}

impl<H: Holdings> Supply for Source<H> {
    fn queued(&self) -> usize {
        self.backlog.queued()
    }

    fn overflowed(&self) -> bool {
        self.backlog.overflowed()
    }

    fn batch(&mut self, changes: usize, blocks: usize) -> Vec<crate::wire::Change> {
        self.backlog.take(changes, blocks)
    }

    fn inventory(&mut self) -> Vec<HeldBlock> {
        self.holdings.inventory(Cut(&self.backlog))
    }
}

async fn run<H: Holdings, O: Outlet>(mut core: Core, mut source: Source<H>, mut outlet: O) -> Figures {
    let mut failures_at_end = 0;
    loop {
        let closed = source.backlog.is_closed();
        match core.poll(Instant::now(), closed, &mut source) {
            Step::Send(message) => {
                let answer = outlet.send(message).await;
                failures_at_end += u32::from(closed && answer.is_err());
                core.answered(Instant::now(), answer);
            }
            Step::Wait(until) => {
                if closed && (!core.is_retrying() || failures_at_end >= FAILURES_AT_END) {
                    break;
                }
                tokio::select! {
                    () = sleep_until(until.into()) => {}
                    () = source.backlog.changed() => {}
                    resync = outlet.asked() => core.asked(Instant::now(), &resync),
                }
            }
        }
        source.backlog.show(core.figures());
    }
    source.backlog.show(core.figures());
    source.backlog.figures()
}

/// After the last handle is gone, so many attempts may fail before the rest is left unsent.
const FAILURES_AT_END: u32 = 3;

#[cfg(test)]
mod tests;
