//! Two-phase removal: a retired pod is invisible at once, and swept in bounded steps.

use crate::index::Index;
use crate::index::cache::PodCache;
use crate::pods::Pod;
use crate::pods::registry::Stage;

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
    /// Locks one segment at a time. Call it until nothing is pending.
    pub fn sweep(&self, budget: usize) -> Swept {
        let mut swept = Swept::default();
        for id in self.registry.retired() {
            if swept.blocks >= budget.max(1) {
                swept.pending += 1;
                continue;
            }
            let mut cache = self.cache_of(id);
            // Another sweep may have been here, and the id be a live pod's by now.
            if self.registry.stage(id).1 != Stage::Retired {
                continue;
            }
            // Or the retirement is not quite over: its last act must not fall on the next pod.
            if self.registry.alive().contains(id) {
                swept.pending += 1;
                continue;
            }
            let mut pin = self.writers.enter();
            // Segments that the pod left long ago count too: a step is as short as it says.
            let mut looked = 0;
            while let Some(&segment) = cache.segments_left().last() {
                looked += 1;
                if swept.blocks >= budget.max(1) || looked > budget.max(FEW) {
                    break;
                }
                pin.let_in();
                let (gone, done) = self.segments.take_off(id, segment, budget.max(1) - swept.blocks, &pin);
                swept.blocks += gone.held;
                cache.len -= gone.held;
                self.room.give_back(id, gone.dead);
                if done {
                    cache.segments_left().pop();
                }
            }
            if !cache.segments_left().is_empty() {
                swept.pending += 1;
                continue;
            }
            {
                let mut past = self.past.lock();
                past.applied += cache.totals;
                past.contradictions += cache.contradictions;
            }
            *cache = PodCache::default();
            self.segments.unset_loose(id);
            self.registry.free(id);
            swept.freed += 1;
        }
        swept
    }
}

/// Segments that a step may look at, however small its budget.
const FEW: usize = 64;

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use super::*;
    use crate::{BlockHash, Config, Event, EventSemantics, JoinError, Matches, PodRetired, Stored};

    fn chain(from: u64) -> Vec<BlockHash> {
        (from..from + 100).map(BlockHash::new).collect()
    }

    fn store(index: &Index, pod: Pod, blocks: &[BlockHash]) -> Result<crate::ApplyStats, PodRetired> {
        index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(blocks)))
    }

    #[test]
    fn a_retired_pod_is_out_of_sight_at_once_and_out_of_the_table_in_steps() {
        let index: Index = Index::new(Config::default());
        let (a, b) = (index.join("a").unwrap(), index.join("b").unwrap());
        store(&index, a, &chain(1)).unwrap();
        store(&index, b, &chain(1)[..50]).unwrap();
        assert!(index.retire(a));
        assert!(!index.retire(a), "twice is a no-op");
        let mut matches = Matches::default();
        index.search(&chain(1), &mut matches);
        assert_eq!((matches.depth(a.id()), matches.depth(b.id())), (0, 50));
        assert_eq!(index.stats().blocks, 100, "not swept yet");
        assert_eq!(store(&index, a, &chain(1)), Err(PodRetired(a)));
        let mut steps = 0;
        while index.sweep(10).pending > 0 {
            steps += 1;
            assert_eq!(index.stats().pending_sweeps, 1);
        }
        assert!((5..=12).contains(&steps), "{steps} steps of ten blocks");
        let stats = index.stats();
        assert_eq!((stats.blocks, stats.block_replicas, stats.pending_sweeps), (50, 50, 0));
        assert_eq!(stats.applied.stored, 150, "what a swept pod did is not forgotten");
        index.audit();
    }

    #[test]
    fn an_id_is_used_again_only_after_its_sweep_and_under_a_new_generation() {
        let index: Index = Index::new(Config::default().max_pods(2));
        let (a, b) = (index.join("a").unwrap(), index.join("b").unwrap());
        assert_eq!(index.join("c"), Err(JoinError::Full { live: 2, sweeping: 0 }));
        assert_eq!(index.join("a"), Err(JoinError::NameTaken(a)));
        store(&index, a, &chain(1)).unwrap();
        index.retire(a);
        let full = index.join("a").unwrap_err();
        assert_eq!(full.to_string(), "no pod id is free: 1 pods are live and 1 retired ones await their sweep");
        while index.sweep(64).pending > 0 {}
        let again = index.join("a").unwrap();
        assert_eq!((again.id(), again.generation()), (a.id(), a.generation() + 1));
        assert_eq!(store(&index, a, &chain(1)), Err(PodRetired(a)), "a late event is a no-op");
        assert!(!index.retire(a), "and so is a late retirement");
        assert_eq!(index.pod("a"), Some(again));
        assert_eq!(index.name(b).as_deref(), Some("b"));
    }

    #[test]
    fn a_pod_that_comes_back_during_its_sweep_gets_a_fresh_id() {
        let index: Index = Index::new(Config::default());
        let a = index.join("a").unwrap();
        store(&index, a, &chain(1)).unwrap();
        index.retire(a);
        index.sweep(10);
        let again = index.join("a").unwrap();
        assert_ne!(again.id(), a.id());
        store(&index, again, &chain(1)).unwrap();
        while index.sweep(10).pending > 0 {}
        assert_eq!(index.pod("a"), Some(again), "the sweep of the old one leaves the new one alone");
        let mut matches = Matches::default();
        index.search(&chain(1), &mut matches);
        assert_eq!(matches.depth(again.id()), 100);
        index.audit();
    }
}
