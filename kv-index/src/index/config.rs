//! Capacity limits of an index.

/// The bounds of an index. Out of bounds is an outcome ([`ApplyStats::refused`](crate::ApplyStats::refused)), never a
/// panic.
///
/// The rule: what is there stays; a block that does not fit is refused, with everything after it in its
/// event. So the index may know less than the engines hold, never more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Pods that may be joined at once, retired ones included until they are swept; at most the set's width
    /// and [`Config::MAX_PODS`].
    pub max_pods: usize,
    /// Distinct blocks in all, at most [`Config::MAX_BLOCKS`]. A block that a pod holds apart from what it follows
    /// counts for itself.
    ///
    /// A store takes room for all its blocks and gives back what others hold already, so of stores that race for
    /// the last room one may be refused what would have fitted.
    pub max_blocks: usize,
    /// Blocks on any one pod.
    pub max_blocks_per_pod: usize,
    /// The key of the tables' hash function; drawn for each index unless given.
    ///
    /// An engine that knew it could announce blocks whose hashes crowd in one place. Given, the same events give the same
    /// index, byte for byte; otherwise they give the same answers.
    pub hash_seed: Option<u64>,
}

impl Config {
    /// What [`Config::max_blocks`] is capped at.
    pub const MAX_BLOCKS: usize = 1 << 24;
    /// What [`Config::max_pods`] is capped at, whatever the set's width.
    pub const MAX_PODS: usize = u16::MAX as usize;

    /// Bounds the distinct blocks of all pods.
    #[must_use]
    pub const fn max_blocks(self, blocks: usize) -> Self {
        Self { max_blocks: if blocks < Self::MAX_BLOCKS { blocks } else { Self::MAX_BLOCKS }, ..self }
    }

    /// Bounds the blocks of each pod.
    #[must_use]
    pub const fn max_blocks_per_pod(self, blocks: usize) -> Self {
        Self { max_blocks_per_pod: blocks, ..self }
    }

    /// Sets the key of the tables' hash function.
    #[must_use]
    pub const fn hash_seed(self, seed: u64) -> Self {
        Self { hash_seed: Some(seed), ..self }
    }

    /// Bounds the pods.
    #[must_use]
    pub const fn max_pods(self, pods: usize) -> Self {
        Self { max_pods: pods, ..self }
    }
}

impl Default for Config {
    /// As many pods as the set is wide and [`Config::MAX_PODS`] allows, 16 million blocks, 8 million on a pod.
    fn default() -> Self {
        Self { max_pods: usize::MAX, max_blocks: Self::MAX_BLOCKS, max_blocks_per_pod: 8 << 20, hash_seed: None }
    }
}
