//! What there is, in numbers; plain data for the host to print or export.

use crate::event::Applied;
use crate::index::Index;
use crate::pod::{Pod, PodId};
use crate::registry::Stage;
use crate::sync::Ordering;

/// The state of an index. Taken pod by pod, so not of one instant while writers are at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Pods that are joined.
    pub pods: usize,
    /// Retired pods whose sweep is not complete.
    pub pending_sweeps: usize,
    /// Distinct blocks with a holder; a stray counts for itself.
    pub blocks: usize,
    /// Blocks held, summed over pods.
    pub holders: usize,
    /// Of those, blocks that no engine has confirmed.
    pub speculated: usize,
    /// Runs that the blocks lie in.
    pub runs: usize,
    /// Stretches of a run that a pod holds behind a block of it that it lacks.
    pub islands: usize,
    /// Blocks that pods hold apart from what they follow, since they lack it, nobody told what it is, or others
    /// contradict it.
    pub strays: usize,
    /// Pods that searches ask under their lock, since nobody told what some block follows, or contradictory things.
    pub unlinked_pods: usize,
    /// Stores that named another parent than an earlier one did: a hash collision, or two hash algorithms.
    pub contradictions: u64,
    /// Everything ever applied: what came and left, and what was dropped and why.
    pub applied: Applied,
    /// Bytes of the structures that grow with blocks, holders and holes; an estimate for hash maps.
    pub bytes: usize,
    /// The most heads of runs a resize has moved while writers of a shard waited.
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
    /// Blocks that it holds apart from what they follow, since it lacks it, nobody told what it is, or others
    /// contradict it.
    pub strays: usize,
    /// Whether searches ask it under its lock, since nobody told what some block follows, or contradictory things.
    pub unlinked: bool,
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
    /// Counts everything; locks each pod, run and shard for a moment.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            // Relaxed: a count that publishes nothing.
            blocks: self.blocks.load(Ordering::Relaxed) as usize,
            runs: self.runs.len(),
            islands: self.runs.islands(),
            bytes: self.heads.bytes() + self.runs.bytes(),
            longest_rebuild: self.heads.longest_rebuild(),
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
            stats.strays += pod.strays;
            stats.unlinked_pods += usize::from(pod.unlinked);
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
            strays: cache.strays.len(),
            unlinked: cache.is_unlinked(),
            contradictions: cache.contradictions,
            clears: cache.clears,
            applied: cache.totals,
            bytes: cache.bytes(),
        }
    }
}
