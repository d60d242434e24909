//! Utilization that engines report: requests that wait in a pod, and how full its KV cache is.

use std::time::Instant;

use kv_index::{DEFAULT_POD_WORDS, Pod};
use routing_core::Fleet;
use routing_core::flow::SaturationDetector;

use super::PodsLoad;
use crate::PluginState;
use crate::parameters::{Fraction, Positive, parameters};

parameters! {
    /// What [`UtilizationDetector`] goes by.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct UtilizationLimits {
        /// Requests that wait in the engine, this many of which are full; 5, unless given.
        pub waiting: Positive = const { Positive::constant(5.0) },
        /// How much of the KV cache is in use when it is full; 0.95, unless given.
        pub kv_used: Fraction = const { Fraction::constant(0.95) },
    }
}

/// A pod has room while its engine reports few waiting requests and free cache. One that reports nothing, or did not for long, has.
///
/// What was sent from here since the report is not in it, so a detector that counts that belongs beside it.
#[derive(Debug)]
pub struct UtilizationDetector<const W: usize = DEFAULT_POD_WORDS> {
    limits: UtilizationLimits,
    load: PodsLoad<W>,
}

impl<const W: usize> UtilizationDetector<W> {
    /// A detector by these limits.
    #[must_use]
    pub fn new(limits: UtilizationLimits, state: &PluginState<W>) -> Self {
        Self { limits, load: PodsLoad::of(state) }
    }
}

impl<const W: usize> SaturationDetector<W> for UtilizationDetector<W> {
    fn has_room(&self, fleet: &Fleet<W>, pod: Pod, ceiling: f32, now: Instant) -> bool {
        let load = self.load.get(fleet, pod, now);
        let UtilizationLimits { waiting, kv_used } = self.limits;
        // A fleet's own figures have no age; they count as they are.
        let is_told = !load.stale && (load.waiting > 0 || load.kv_used > 0.0);
        let waits = load.waiting > 0 && f64::from(load.waiting) >= waiting.get() * f64::from(ceiling);
        let is_idle = load.requests == 0 && load.running == 0;
        is_idle || !is_told || !waits && load.kv_used < kv_used.get() * ceiling
    }
}
