//! Two-phase removal: a pod is out of sight at once, and out of the table in bounded steps.

use crate::index::Index;
use crate::pod::Pod;
use crate::reclaim::pin;
use crate::sync::Ordering;

/// What a step of a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Blocks taken off retired pods.
    pub blocks: usize,
    /// Pods that are done with; their ids are free.
    pub freed: usize,
    /// Retired pods that still have blocks.
    pub pending: usize,
}

impl<const WORDS: usize> Index<WORDS> {
    /// Ends a pod: no search that starts after this returns reports it, and its handle changes nothing.
    ///
    /// One compare-and-swap decides, so it takes the same time whatever the pod holds. True for the call that
    /// did it; false if the pod was gone already. [`Index::sweep`] then frees what it held.
    pub fn retire(&self, pod: Pod) -> bool {
        self.registry.retire(pod)
    }

    /// Takes about `budget` blocks off retired pods, and frees the ids of those that have none left.
    ///
    /// Locks a shard of the table for one block at a time. Call it until nothing is pending.
    pub fn sweep(&self, budget: usize) -> Swept {
        let mut swept = Swept::default();
        let mut gone = Vec::new();
        let pin = pin();
        for id in self.registry.retired() {
            if swept.blocks >= budget.max(1) {
                swept.pending += 1;
                continue;
            }
            let mut cache = self.cache_of(id);
            cache.drain_some(budget.max(1) - swept.blocks, &mut gone);
            let emptied = self.clear_bits(id, &gone, &pin);
            // Relaxed: a count that publishes nothing.
            self.blocks.fetch_sub(emptied as u64, Ordering::Relaxed);
            swept.blocks += gone.len();
            gone.clear();
            if cache.len() > 0 {
                swept.pending += 1;
                continue;
            }
            *self.past.lock() += cache.totals;
            *cache = Default::default();
            self.ledgers.publish(id, crate::ledger::Ledger::Holes([].into()), &pin);
            self.registry.free(id);
            swept.freed += 1;
        }
        swept
    }
}
