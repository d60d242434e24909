//! Search result, reusable: groups of pods by drop-off depth.

use crate::pods::{DEFAULT_POD_WORDS, PodId, PodSet};
use crate::segments::SegmentId;

/// Pods that hold exactly the first `depth` blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DepthGroup<const WORDS: usize = DEFAULT_POD_WORDS> {
    /// Leading blocks held, at least one.
    pub depth: usize,
    /// Who holds them; never empty.
    pub pods: PodSet<WORDS>,
}

/// How many leading blocks of a chain each live pod holds.
///
/// Owned by the caller and reused, so that a warm search need not allocate it.
#[derive(Clone, Debug, Default)]
pub struct Matches<const WORDS: usize = DEFAULT_POD_WORDS> {
    pub(crate) groups: Vec<DepthGroup<WORDS>>,
    pub(crate) blocks: usize,
    pub(crate) lookups: usize,
    /// Segments that the last search walked, with their versions.
    pub(crate) passed: Vec<(SegmentId, u64)>,
}

impl<const WORDS: usize> Matches<WORDS> {
    /// The pods that hold anything, deepest first, each in one group.
    #[must_use]
    pub fn groups(&self) -> &[DepthGroup<WORDS>] {
        &self.groups
    }

    /// Forgets the answer, and keeps the memory.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.blocks = 0;
    }

    /// Leading blocks that `pod` holds.
    #[must_use]
    pub fn depth(&self, pod: PodId) -> usize {
        self.groups.iter().find(|group| group.pods.contains(pod)).map_or(0, |group| group.depth)
    }

    /// The group that holds most.
    #[must_use]
    pub fn deepest(&self) -> Option<&DepthGroup<WORDS>> {
        self.groups.first()
    }

    /// Blocks in the chain that was searched.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Look-ups of segments that the search took.
    ///
    /// Counted here because a search writes no shared memory; a host that wants a total adds these up.
    #[must_use]
    pub fn lookups(&self) -> usize {
        self.lookups
    }
}
