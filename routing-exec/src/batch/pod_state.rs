//! Pod state: a pod's health, and what it has done.

use std::time::Instant;

use routing_core::Pod;

use super::result::BatchUsage;

/// A pod's state, beside its list.
#[derive(Debug)]
pub(super) struct PodState {
    pub(super) pod: Pod,
    pub(super) health: PodHealth,
    /// Failures without a response between them.
    pub(super) consecutive_failures: u32,
    pub(super) totals: PodTotals,
}

/// What a pod has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PodTotals {
    pub(super) succeeded: usize,
    pub(super) failed: usize,
    pub(super) prompt: u64,
    pub(super) cached: u64,
    pub(super) output: u64,
    /// When it last completed a request.
    pub(super) last: Option<Instant>,
}

/// The health of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodHealth {
    Up,
    /// Down, with the time of its next probe, if any.
    Down(Option<Instant>),
    /// One request is in flight to see whether it is up.
    Probing,
}

impl PodState {
    pub(super) fn new(pod: Pod) -> Self {
        Self { pod, health: PodHealth::Up, consecutive_failures: 0, totals: PodTotals::default() }
    }

    pub(super) fn done(&mut self, usage: BatchUsage, is_success: bool, now: Instant) {
        let totals = &mut self.totals;
        *(if is_success { &mut totals.succeeded } else { &mut totals.failed }) += 1;
        totals.prompt += u64::from(usage.prompt);
        totals.cached += u64::from(usage.cached);
        totals.output += u64::from(usage.output);
        totals.last = Some(now);
    }
}
