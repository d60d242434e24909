//! Saturation detectors: plugins that say whether a pod can begin another request now.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use kv_index::{DEFAULT_POD_WORDS, Pod, PodSet};

use super::{FlowConfig, Wanted};
use crate::fleet::Fleet;

/// Judges whether a pod can begin a request.
///
/// Asked for every request and whenever one that was sent is further, so it looks at figures that are there, and waits for nothing. An
/// idle pod has room for anybody, or requests would wait for nothing.
pub trait SaturationDetector<const W: usize = DEFAULT_POD_WORDS>: Send + Sync + fmt::Debug {
    /// Whether a pod can begin a request of a band that may make it `ceiling` full, 0..=1 of what this detector calls full. One that
    /// judges a pool as a whole says the same of each of its pods.
    fn has_room(&self, fleet: &Fleet<W>, pod: Pod, ceiling: f32, now: Instant) -> bool;

    /// Whether a pod that has room can begin this very request, by what it holds of it and by its program; it can, unless a detector says
    /// no. Asked whenever pods are further and the request still waits.
    fn admits(&self, _fleet: &Fleet<W>, _wanted: &Wanted, _now: Instant) -> bool {
        true
    }
}

/// Flow control of a fleet: how requests wait, and what has them wait.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlowControl<const W: usize = DEFAULT_POD_WORDS> {
    /// The queue's settings.
    pub config: FlowConfig,
    /// A pod has room if all of them say so; without any, all have.
    pub detectors: Vec<Arc<dyn SaturationDetector<W>>>,
}

impl<const W: usize> FlowControl<W> {
    /// Flow control by some settings, without a detector.
    #[must_use]
    pub fn new(config: FlowConfig) -> Self {
        Self { config, detectors: Vec::new() }
    }

    /// The same with another detector.
    #[must_use]
    pub fn detector(mut self, detector: impl SaturationDetector<W> + 'static) -> Self {
        self.detectors.push(Arc::new(detector));
        self
    }

    /// Whether a pod can begin a request of a band that may make it `ceiling` full.
    #[must_use]
    #[inline]
    pub fn has_room(&self, fleet: &Fleet<W>, pod: Pod, ceiling: f32, now: Instant) -> bool {
        self.detectors.iter().all(|detector| detector.has_room(fleet, pod, ceiling, now))
    }

    /// Whether a pod that has room can begin a request which was decided for it.
    #[must_use]
    #[inline]
    pub fn admits(&self, fleet: &Fleet<W>, wanted: &Wanted, now: Instant) -> bool {
        self.detectors.iter().all(|detector| detector.admits(fleet, wanted, now))
    }

    /// The pods that can.
    #[must_use]
    pub fn with_room(&self, fleet: &Fleet<W>, ceiling: f32, now: Instant) -> PodSet<W> {
        let mut room = PodSet::EMPTY;
        for id in fleet.pods().iter() {
            if fleet.handle(id).is_some_and(|pod| self.has_room(fleet, pod, ceiling, now)) {
                room.insert(id);
            }
        }
        room
    }
}
