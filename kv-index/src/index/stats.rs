//! Statistics as plain data, for the host to print or export.

use crate::blocks::ApplyStats;
use crate::index::Index;
use crate::pods::registry::Stage;
use crate::pods::{Pod, PodId};

/// The state of an index. Taken pod by pod, so not of one instant while writers are at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Pods that are joined.
    pub pods: usize,
    /// Retired pods whose sweep is not complete.
    pub pending_sweeps: usize,
    /// Distinct blocks with a holder; one that pods contradict each other about may count twice, and so may one that two place at the
    /// same moment, one of them without its parent.
    pub blocks: usize,
    /// Blocks held, summed over pods: a block on three pods counts three times.
    pub block_replicas: usize,
    /// Of those, blocks that no engine has confirmed.
    pub speculated: usize,
    /// Path-compressed segments that the blocks lie in.
    pub segments: usize,
    /// Spans of a segment that a pod holds behind a block of it that it lacks.
    pub detached_spans: usize,
    /// Pods for which searches look a block up where they stop: see [`PodStats::slow_path`].
    pub slow_path_pods: usize,
    /// Stores that named another parent than an earlier one did: a hash collision, or two hash algorithms.
    pub parent_conflicts: u64,
    /// Everything ever applied: what came and left, and what was dropped and why.
    pub applied: ApplyStats,
    /// Bytes of the structures that grow with blocks, holders and holes; an estimate for hash maps.
    pub bytes: usize,
    /// The most segment heads that a resize has moved while writers of a shard waited.
    pub largest_resize: usize,
}

/// The state of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodStats {
    /// Blocks it holds, speculated ones included.
    pub blocks: usize,
    /// Blocks that no engine has confirmed.
    pub speculated: usize,
    /// Whether searches look a block up where the pod stops, since it did not say what some block follows, or named several parents.
    /// So until it holds nothing.
    pub slow_path: bool,
    /// Stores that named another parent than an earlier one did.
    pub parent_conflicts: u64,
    /// Numbered streams that feed it, each by a [`Feed`](crate::Feed) or an engine's.
    pub streams: usize,
    /// How often all its blocks were forgotten: cleared by the engine, or because a source started anew.
    pub clears: u64,
    /// Everything ever applied to it.
    pub applied: ApplyStats,
    /// Bytes of its own structures.
    pub bytes: usize,
}

impl<const WORDS: usize> Index<WORDS> {
    /// Counts everything; locks each pod and shard for a moment.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            blocks: self.room.used(),
            segments: self.segments.len(),
            detached_spans: self.segments.detached(),
            bytes: self.segments.bytes(),
            largest_resize: self.segments.heads.longest_rebuild(),
            ..Stats::default()
        };
        {
            let past = self.past.lock();
            (stats.applied, stats.parent_conflicts) = (past.applied, past.contradictions);
        }
        for id in (0..self.config.max_pods).map(PodId::from_index) {
            match self.registry.stage(id).1 {
                Stage::Free => continue,
                Stage::Live => stats.pods += 1,
                Stage::Retired => stats.pending_sweeps += 1,
            }
            let pod = self.stats_of(id);
            stats.block_replicas += pod.blocks;
            stats.speculated += pod.speculated;
            stats.slow_path_pods += usize::from(pod.slow_path);
            stats.parent_conflicts += pod.parent_conflicts;
            stats.applied += pod.applied;
            stats.bytes += pod.bytes;
        }
        stats
    }

    /// Counts what one pod has; `None` if it is retired.
    #[must_use]
    pub fn pod_stats(&self, pod: Pod) -> Option<PodStats> {
        self.registry.is_live(pod).then(|| self.stats_of(pod.id()))
    }

    fn stats_of(&self, id: PodId) -> PodStats {
        let cache = self.cache_of(id);
        PodStats {
            blocks: cache.len,
            speculated: cache.speculated(),
            slow_path: self.segments.loose().contains(id),
            parent_conflicts: cache.contradictions,
            streams: cache.cursors.iter().count(),
            clears: cache.clears,
            applied: cache.totals,
            bytes: cache.bytes(),
        }
    }
}
