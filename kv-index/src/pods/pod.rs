//! Pod identity: a small dense id, and a generation against reuse of ids (ABA).

use std::fmt;

/// A pod's place in every [`PodSet`](crate::PodSet): a small dense number.
///
/// Ids are handed out again after a pod is retired; a [`Pod`] handle tells the generations apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodId(u16);

impl PodId {
    /// The pod with this number.
    #[must_use]
    pub const fn new(index: u16) -> Self {
        Self(index)
    }

    /// The number, for dense arrays by pod.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    #[inline]
    pub(crate) fn from_index(index: usize) -> Self {
        Self(u16::try_from(index).expect("an index has at most `Config::MAX_PODS` pods"))
    }
}

impl fmt::Debug for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}", self.0)
    }
}

/// A joined pod: its id and the generation of that id.
///
/// Everything that changes a pod takes its handle. Once the pod is retired the handle changes nothing
/// any more, also after the id went to another pod.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pod {
    id: PodId,
    generation: u32,
}

impl Pod {
    pub(crate) const fn new(id: PodId, generation: u32) -> Self {
        Self { id, generation }
    }

    /// The pod's bit in every set.
    #[must_use]
    pub const fn id(self) -> PodId {
        self.id
    }

    /// Which holder of the id this is, counted from 1.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

impl fmt::Debug for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}.{}", self.id.0, self.generation)
    }
}
