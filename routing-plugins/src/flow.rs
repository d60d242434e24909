//! Flow control plugins: saturation detectors, and the document that names them.
//!
//! | detector | a pod has room while |
//! |---|---|
//! | [`PredictedWaitDetector`] | it would begin within a time, by the learned cost model |
//! | [`ConcurrencyDetector`] | fewer requests or tokens than a limit are on it |
//! | [`UtilizationDetector`] | its engine reports few waiting requests and free cache |
//! | [`WorkingSetDetector`] | a program's context fits its cache beside those of others |
//! | [`PoolDetector`] | fewer requests or tokens than a limit are on all pods together |
//!
//! Each takes a band's ceiling as a part of its limits. [`FlowDocument`] makes [`FlowControl`](routing_core::flow::FlowControl) of a
//! document (feature `serde`).

mod concurrency;
#[cfg(feature = "serde")]
mod document;
#[cfg(feature = "serde")]
mod order;
mod pool;
mod predicted_wait;
mod utilization;
mod working_set;

pub use concurrency::{ConcurrencyDetector, ConcurrencyLimits};
#[cfg(feature = "serde")]
pub use document::{BandDocument, FlowDocument, LimitsDocument, SaturationDocument};
#[cfg(feature = "serde")]
pub use order::{LevelsDocument, OrderDocument};
pub use pool::{PoolDetector, PoolLimits};
pub use predicted_wait::{PredictedWaitDetector, PredictedWaitParameters};
pub use utilization::{UtilizationDetector, UtilizationLimits};
pub use working_set::{WorkingSetDetector, WorkingSetLimits};

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::Pod;
use routing_core::Fleet;

use crate::PluginState;
use crate::load::{InFlight, LoadTracker, PodLoad};

/// The loads of pods without what waits before the router.
#[derive(Debug)]
struct PodsLoad<const W: usize> {
    load: Arc<LoadTracker<W>>,
    queued: Arc<LoadTracker<W>>,
}

impl<const W: usize> PodsLoad<W> {
    fn of(state: &PluginState<W>) -> Self {
        Self { load: Arc::clone(&state.load), queued: Arc::clone(&state.queued) }
    }

    fn get(&self, fleet: &Fleet<W>, pod: Pod, now: Instant) -> PodLoad {
        let mut load = self.load.load_of(pod, fleet.load(pod.id()), now, STALE_AFTER);
        let queued = self.queued.in_flight(pod.id());
        if queued.requests > 0 {
            load.requests = load.requests.saturating_sub(queued.requests);
            load.tokens = load.tokens.saturating_sub(queued.tokens());
            load.in_flight = load.in_flight.without(&queued);
        }
        load
    }

    fn in_flight(&self, pod: kv_index::PodId) -> InFlight {
        self.load.in_flight(pod).without(&self.queued.in_flight(pod))
    }
}

/// Reports that are older do not count.
const STALE_AFTER: Duration = Duration::from_secs(10);

/// A limit as far as a band may reach it: at least one, so that nobody waits for an idle pod.
fn part(limit: u64, ceiling: f32) -> u64 {
    ((limit as f64 * f64::from(ceiling)) as u64).max(1)
}

#[cfg(test)]
mod tests;
