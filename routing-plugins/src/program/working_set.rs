//! Working sets: tokens of contexts on each pod whose programs run, or will be back soon.

use kv_index::PodId;
use routing_core::Slot;

/// The working set of each pod without the request's own context, in tokens.
#[derive(Clone, Debug, Default)]
pub struct WorkingSets {
    pub(super) tokens: Vec<u64>,
    /// Tokens of the request's context, once its answer is there.
    pub(super) own: u64,
}

impl WorkingSets {
    /// Whether there is nothing to go by: the request is of no program.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Tokens on a pod.
    #[must_use]
    #[inline]
    pub fn of(&self, pod: PodId) -> u64 {
        self.tokens.get(pod.index()).copied().unwrap_or(0)
    }

    /// The part of a request's context, from 0 to 1, that would push others of a working set out of a cache of so many tokens.
    #[must_use]
    #[inline]
    pub fn pushed_out(&self, pod: PodId, cache_tokens: u64) -> f64 {
        let over = (self.of(pod) + self.own).saturating_sub(cache_tokens);
        (over as f64 / self.own.max(1) as f64).min(1.0)
    }
}

/// The slot of working sets; written beside a request's program.
#[derive(Debug)]
pub struct WorkingSetsSlot;

impl Slot for WorkingSetsSlot {
    type Value = WorkingSets;
    const NAME: &'static str = "program.working_sets";
    const INCIDENTAL: bool = true;

    fn clear(value: &mut WorkingSets) {
        value.tokens.clear();
        value.own = 0;
    }
}
