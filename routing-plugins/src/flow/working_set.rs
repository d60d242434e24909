//! Working set: programs whose contexts do not fit a pod's cache beside those of others wait until they do.

use std::sync::Arc;
use std::time::Instant;

use kv_index::{DEFAULT_POD_WORDS, Pod};
use routing_core::Fleet;
use routing_core::flow::{SaturationDetector, Wanted};

use super::PodsLoad;
use crate::PluginState;
use crate::parameters::{Positive, parameters};
use crate::program::Programs;

parameters! {
    /// What [`WorkingSetDetector`] goes by.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct WorkingSetLimits {
        /// How much of a pod's cache working sets may take; 1, all of it, unless given.
        pub share: Positive = const { Positive::constant(1.0) },
        /// Seconds after which a turn waits no longer for room, so that a large context is not passed over for ever; 300, unless given.
        pub patience: Positive = const { Positive::constant(300.0) },
    }
}

/// A pod begins a program's turn if it holds at least half of the context, if that fits the cache beside the [working
/// set](crate::program::Programs::working_set) of others, if it has nothing to do, or if the turn waited for too long.
///
/// For profiles that recognize programs, and pods whose [cache](routing_core::PodInfo::kv_tokens) is known; all others have room.
#[derive(Debug)]
pub struct WorkingSetDetector<const W: usize = DEFAULT_POD_WORDS> {
    limits: WorkingSetLimits,
    load: PodsLoad<W>,
    programs: Arc<Programs<W>>,
}

impl<const W: usize> WorkingSetDetector<W> {
    /// A detector that goes by what plugins share.
    #[must_use]
    pub fn new(limits: WorkingSetLimits, state: &PluginState<W>) -> Self {
        Self { limits, load: PodsLoad::of(state), programs: Arc::clone(&state.programs) }
    }
}

impl<const W: usize> SaturationDetector<W> for WorkingSetDetector<W> {
    fn has_room(&self, _: &Fleet<W>, _: Pod, _: f32, _: Instant) -> bool {
        true
    }

    fn admits(&self, fleet: &Fleet<W>, wanted: &Wanted, now: Instant) -> bool {
        let Some(turn) = &wanted.program else { return true };
        let Some(cache) = fleet.pod(wanted.pod.id()).and_then(|info| info.kv_tokens) else { return true };
        let is_warm = wanted.blocks > 0 && 2 * wanted.held >= wanted.blocks;
        let is_late = wanted.waited.as_secs_f64() >= self.limits.patience.get();
        if is_warm || is_late || self.load.in_flight(wanted.pod.id()).requests == 0 {
            return true;
        }
        self.programs.working_set_with(turn, wanted.pod, now) as f64 <= cache as f64 * self.limits.share.get()
    }
}
