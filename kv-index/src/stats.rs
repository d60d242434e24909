//! What there is, in numbers; plain data for the host to print or export.

use crate::event::Applied;
use crate::index::Index;
use crate::ledger::LEDGER_MAX;
use crate::pod::{Pod, PodId};
use crate::registry::Stage;

/// The state of an index. Taken pod by pod, so not of one instant while writers are at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Pods that are joined.
    pub pods: usize,
    /// Retired pods whose sweep is not complete.
    pub pending_sweeps: usize,
    /// Distinct blocks with a holder.
    pub blocks: usize,
    /// Blocks held, summed over pods.
    pub holders: usize,
    /// Of those, blocks that no engine has confirmed.
    pub speculated: usize,
    /// Distinct sets of two or more holders.
    pub sets: usize,
    /// Runs that speed searches up.
    pub runs: usize,
    /// Holes in all pods' ledgers.
    pub holes: usize,
    /// Pods that are scanned because their holes are too many or not all placed.
    pub scanned_pods: usize,
    /// Stores that named another parent than an earlier one did: a hash collision, or two hash algorithms.
    pub contradictions: u64,
    /// Everything ever applied: what came and left, and what was dropped and why.
    pub applied: Applied,
    /// Bytes of the structures that grow with blocks, holders and holes; an estimate for hash maps.
    pub bytes: usize,
    /// The most blocks a resize has moved while writers of a shard waited.
    pub longest_rebuild: usize,
}

/// The state of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodStats {
    /// Blocks it holds, speculated ones included.
    pub blocks: usize,
    /// Blocks that no engine has confirmed.
    pub speculated: usize,
    /// Holes in its ledger.
    pub holes: usize,
    /// Whether its holes are too many to list or not all placed, so that searches scan for it.
    pub scanned: bool,
    /// Stores that named another parent than an earlier one did.
    pub contradictions: u64,
    /// How often all its blocks were forgotten: cleared by the engine, or because a source started anew.
    pub clears: u64,
    /// Everything ever applied to it.
    pub applied: Applied,
    /// Bytes of its own structures.
    pub bytes: usize,
}

impl<const WORDS: usize> Index<WORDS> {
    /// Counts everything; locks each pod and shard for a moment.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            blocks: self.table.len(),
            sets: self.sets.len(),
            runs: self.runs.len(),
            bytes: self.table.bytes() + self.sets.bytes() + self.runs.bytes(),
            longest_rebuild: self.table.longest_rebuild(),
            ..Stats::default()
        };
        {
            let past = self.past.lock();
            (stats.applied, stats.contradictions) = (past.applied, past.contradictions);
        }
        for id in (0..self.config.max_pods).map(PodId::from_index) {
            match self.registry.stage(id).1 {
                Stage::Free => continue,
                Stage::Live => stats.pods += 1,
                Stage::Retired => stats.pending_sweeps += 1,
            }
            let pod = self.stats_of(id);
            stats.holders += pod.blocks;
            stats.speculated += pod.speculated;
            stats.holes += pod.holes;
            stats.scanned_pods += usize::from(pod.scanned);
            stats.contradictions += pod.contradictions;
            stats.applied += pod.applied;
            stats.bytes += pod.bytes;
        }
        stats
    }

    /// Counts what one pod has; `None` if it is gone.
    #[must_use]
    pub fn pod_stats(&self, pod: Pod) -> Option<PodStats> {
        self.registry.is_live(pod).then(|| self.stats_of(pod.id()))
    }

    fn stats_of(&self, id: PodId) -> PodStats {
        let cache = self.cache_of(id);
        PodStats {
            blocks: cache.len(),
            speculated: cache.speculated(),
            holes: cache.holes(),
            scanned: cache.is_scanned(),
            contradictions: cache.contradictions,
            clears: cache.clears,
            applied: cache.totals,
            bytes: cache.bytes(),
        }
    }
}

impl Stats {
    /// The most holes of a pod that searches check one by one; with more, the pod is scanned.
    pub const LEDGER_MAX: usize = LEDGER_MAX;
}
