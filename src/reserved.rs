//! A request's shares of its pods' load between its decision and its attempts.

use std::sync::Arc;

use kv_index::{BlockSize, Pod};
use routing_core::{PlanStep, Role};
use routing_plugins::load::{LoadGuard, LoadTracker};

use crate::prompt_size::PromptSize;

/// The shares, of the plan's first three pods: encode, prefill and decode. In place, since most requests pass without waiting.
#[derive(Debug)]
pub(crate) struct Reserved<const W: usize>([Option<LoadGuard<W>>; 3]);

impl<const W: usize> Default for Reserved<W> {
    fn default() -> Self {
        Self([None, None, None])
    }
}

impl<const W: usize> Reserved<W> {
    /// Keeps a share, if there is a place for it.
    fn keep(&mut self, share: LoadGuard<W>) {
        if let Some(free) = self.0.iter_mut().find(|kept| kept.is_none()) {
            *free = Some(share);
        }
    }

    fn has(&self, pod: Pod) -> bool {
        self.0.iter().flatten().any(|share| share.pod() == pod)
    }

    /// The share of a pod, whose attempt begins.
    pub(crate) fn take(&mut self, pod: Pod) -> Option<LoadGuard<W>> {
        self.0.iter_mut().find(|kept| kept.as_ref().is_some_and(|share| share.pod() == pod))?.take()
    }

    /// Lets go of all; false if there were none.
    pub(crate) fn clear(&mut self) -> bool {
        let had = self.0.iter().any(Option::is_some);
        self.0 = [None, None, None];
        had
    }
}

/// The shares of a plan, while its steps are gone through in order.
pub(super) struct Reserving<const W: usize> {
    prompt: PromptSize,
    block_size: BlockSize,
    is_prefilled: bool,
    pub(super) reserved: Reserved<W>,
}

impl<const W: usize> Reserving<W> {
    pub(super) fn new(prompt: PromptSize, block_size: BlockSize) -> Self {
        Self { prompt, block_size, is_prefilled: false, reserved: Reserved::default() }
    }

    /// Whether a pod has its share: one that is first for two steps is sent one request.
    pub(super) fn has(&self, pod: Pod) -> bool {
        self.reserved.has(pod)
    }

    /// Counts a step towards its pod's load.
    pub(super) fn step(&mut self, step: &PlanStep, load: &Arc<LoadTracker<W>>) {
        let Some(first) = step.candidates.first() else { return };
        if !self.has(first.pod) {
            let work = self.prompt.work(self.block_size, step, first.pod, self.is_prefilled);
            self.reserved.keep(load.begin(first.pod, work));
        }
        self.is_prefilled |= step.role == Role::Prefill;
    }
}
