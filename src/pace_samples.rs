//! Pace samples of a plan: what was expected of its first pods, asked for right after the decision, since the next one about a pod takes its place.

use std::time::Instant;

use kv_index::Pod;
use routing_core::RoutingPlan;
use routing_plugins::{PaceSample, PodPaces};

/// Those of the plan's first three pods.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PaceSamples([Option<PaceSample>; 3]);

impl PaceSamples {
    /// Those of a plan that was made at an instant.
    pub(crate) fn of<const W: usize>(plan: &RoutingPlan, paces: &PodPaces<W>, decided: Instant) -> Self {
        let mut samples = Self::default();
        for (sample, step) in samples.0.iter_mut().zip(plan.steps()) {
            *sample = step.candidates.first().and_then(|first| paces.sample(first.pod, decided));
        }
        samples
    }

    /// What was expected of a pod.
    pub(crate) fn of_pod(&self, pod: Pod) -> Option<PaceSample> {
        self.0.into_iter().flatten().find(|sample| sample.pod() == pod)
    }
}
