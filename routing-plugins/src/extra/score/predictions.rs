//! Latency predictions: the slot for expected TTFT and TPOT of each pod.

use std::time::Duration;

use kv_index::PodId;
use routing_core::Slot;

/// Predicted latencies of this request on each pod.
///
/// Written by a host's own preparer, or by [`ThroughputPredictor`](crate::extra::ThroughputPredictor).
#[derive(Debug)]
pub struct Predictions;

impl Slot for Predictions {
    type Value = PredictionTable;
    const NAME: &'static str = "latency.predictions";

    fn clear(value: &mut PredictionTable) {
        value.pods.clear();
    }
}

/// Predictions by pod.
#[derive(Clone, Debug, Default)]
pub struct PredictionTable {
    pods: Vec<Option<Prediction>>,
}

impl PredictionTable {
    /// Says what is predicted for a pod.
    pub fn set(&mut self, pod: PodId, prediction: Prediction) {
        self.pods.resize(self.pods.len().max(pod.index() + 1), None);
        self.pods[pod.index()] = Some(prediction);
    }

    /// What is predicted for a pod, if anything.
    #[must_use]
    #[inline]
    pub fn of(&self, pod: PodId) -> Option<Prediction> {
        self.pods.get(pod.index()).copied().flatten()
    }
}

/// What is predicted for a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "figures that a host fills in by name")]
pub struct Prediction {
    /// Time to the first token.
    pub ttft: Option<Duration>,
    /// Time for each token after it.
    pub tpot: Option<Duration>,
}
