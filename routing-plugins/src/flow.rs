//! Flow control plugins: saturation detectors, and the document that names them.
//!
//! | detector | a pod has room while |
//! |---|---|
//! | [`PredictedWaitDetector`] | it would begin within a time, by the learned cost model |
//! | [`ConcurrencyDetector`] | fewer requests or tokens than a limit are on it |
//! | [`UtilizationDetector`] | its engine reports few waiting requests and free cache |
//! | [`PoolDetector`] | fewer requests or tokens than a limit are on all pods together |
//!
//! Each takes a band's ceiling as a part of its limits. [`FlowDocument`] makes [`FlowControl`](routing_core::flow::FlowControl) of a
//! document (feature `serde`).

mod concurrency;
#[cfg(feature = "serde")]
mod document;
mod pool;
mod predicted_wait;
mod utilization;

pub use concurrency::{ConcurrencyDetector, ConcurrencyLimits};
#[cfg(feature = "serde")]
pub use document::{BandDocument, DetectorDocument, FlowDocument, LimitsDocument, OrderDocument};
pub use pool::{PoolDetector, PoolLimits};
pub use predicted_wait::{PredictedWaitDetector, PredictedWaitParameters};
pub use utilization::{UtilizationDetector, UtilizationLimits};

use std::time::Duration;

/// Reports that are older do not count.
const STALE_AFTER: Duration = Duration::from_secs(10);

/// A limit as far as a band may reach it: at least one, so that nobody waits for an idle pod.
fn part(limit: u64, ceiling: f32) -> u64 {
    ((limit as f64 * f64::from(ceiling)) as u64).max(1)
}

#[cfg(test)]
mod tests;
