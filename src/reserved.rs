//! A request's shares of its pods' load between its decision and its attempts: of what waits before the router and is let go, and of the later pods of a
//! plan, which are sent something only when an earlier one is done. Whoever is decided about meanwhile sees them.

use std::sync::Arc;

use kv_index::{BlockSize, Pod};
use routing_core::{PlanStep, Role, RoutingPlan};
use routing_plugins::load::{LoadGuard, LoadTracker};

use crate::prompt_size::PromptSize;

/// The shares, of the plan's first three pods: encode, prefill and decode. In place, since most requests have none.
#[derive(Debug)]
pub(crate) struct Reserved<const W: usize>([Option<Share<W>>; 3]);

/// A pod's, in the step that it is first for.
#[derive(Debug)]
struct Share<const W: usize> {
    role: Role,
    /// Whether another pod is taken to compute the prompt.
    is_prefilled: bool,
    load: LoadGuard<W>,
}

impl<const W: usize> Default for Reserved<W> {
    fn default() -> Self {
        Self([None, None, None])
    }
}

impl<const W: usize> Reserved<W> {
    /// Those of a plan.
    pub(crate) fn of(plan: &RoutingPlan, prompt: PromptSize, size: BlockSize, load: &Arc<LoadTracker<W>>) -> Self {
        let mut reserved = Self::default();
        plan.steps().iter().for_each(|step| reserved.add(step, prompt, size, load));
        reserved
    }

    /// Counts the next step towards its first pod's load. A pod that is first for two is sent one request, the later one.
    pub(crate) fn add(&mut self, step: &PlanStep, prompt: PromptSize, size: BlockSize, load: &Arc<LoadTracker<W>>) {
        let Some(pod) = step.candidates.first().map(|first| first.pod) else { return };
        let is_prefilled = self.0.iter().flatten().any(|share| share.role == Role::Prefill && share.load.pod() != pod);
        let is_same = |kept: &Option<Share<W>>| kept.as_ref().is_some_and(|share| share.load.pod() == pod);
        let place = self.0.iter().position(is_same).or_else(|| self.0.iter().position(Option::is_none));
        if let Some(place) = place.and_then(|place| self.0.get_mut(place)) {
            let load = load.begin(pod, prompt.work(size, step, pod, is_prefilled));
            *place = Some(Share { role: step.role, is_prefilled, load });
        }
    }

    pub(crate) fn has(&self, pod: Pod) -> bool {
        self.0.iter().flatten().any(|share| share.load.pod() == pod)
    }

    /// The share of a pod whose attempt begins in a step, if it was kept for such a one. Those of other pods for that step are let go.
    pub(crate) fn take(&mut self, pod: Pod, role: Role, is_prefilled: bool) -> Option<LoadGuard<W>> {
        let is_of = |share: &&mut Option<Share<W>>| {
            share.as_ref().is_some_and(|share| share.load.pod() == pod || share.role == role)
        };
        let mut kept = None;
        for share in self.0.iter_mut().filter(is_of).filter_map(Option::take) {
            let fits = share.load.pod() == pod && share.is_prefilled == is_prefilled;
            kept = fits.then_some(share.load).or(kept);
        }
        kept
    }

    /// Lets go of all; false if there were none.
    pub(crate) fn clear(&mut self) -> bool {
        let had = self.0.iter().any(Option::is_some);
        self.0 = [None, None, None];
        had
    }
}
