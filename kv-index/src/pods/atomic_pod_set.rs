//! Atomic pod set, changed and read by several threads.

use crate::pods::{PodId, PodSet};
use crate::sync::{AtomicU64, Ordering};

/// A [`PodSet`] of atomic words. Each word is read and changed whole; a set read across words may be of two
/// moments.
#[derive(Debug)]
pub(crate) struct AtomicPodSet<const W: usize> {
    words: [AtomicU64; W],
}

impl<const W: usize> AtomicPodSet<W> {
    pub(crate) fn new() -> Self {
        Self { words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Release: publishes what led to it; pairs with `get`.
    pub(crate) fn insert(&self, pod: PodId) {
        self.words[pod.index() / 64].fetch_or(1 << (pod.index() % 64), Ordering::Release);
    }

    /// Release: publishes what led to it; pairs with `get`.
    pub(crate) fn remove(&self, pod: PodId) {
        self.words[pod.index() / 64].fetch_and(!(1 << (pod.index() % 64)), Ordering::Release);
    }

    #[inline]
    pub(crate) fn get(&self) -> PodSet<W> {
        PodSet::from_words(std::array::from_fn(|word| self.words[word].load(Ordering::Acquire)))
    }
}
