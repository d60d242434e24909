//! Open circuit breakers by pod: written where requests fail, read by filters.

use std::sync::atomic::{AtomicU64, Ordering};

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};

/// The pods that are given nothing for now, because requests to them failed.
///
/// Shared between an executor's breakers and a filter; reading it takes no lock. When an id goes to another pod, close it.
///
/// # Examples
///
/// ```
/// use kv_index::PodId;
/// use routing_core::OpenBreakers;
///
/// let circuits: OpenBreakers = OpenBreakers::new();
/// circuits.open(PodId::new(3));
/// assert!(circuits.opened().contains(PodId::new(3)));
/// circuits.close(PodId::new(3));
/// assert!(circuits.opened().is_empty());
/// ```
#[derive(Debug)]
pub struct OpenBreakers<const W: usize = DEFAULT_POD_WORDS> {
    words: [AtomicU64; W],
}

impl<const W: usize> OpenBreakers<W> {
    /// No open circuit.
    #[must_use]
    pub fn new() -> Self {
        Self { words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Opens a pod's circuit: nothing new goes there.
    pub fn open(&self, pod: PodId) {
        if let Some(word) = self.words.get(pod.index() / 64) {
            // Relaxed, here and below: a bit stands for itself, nothing is published by it.
            word.fetch_or(1 << (pod.index() % 64), Ordering::Relaxed);
        }
    }

    /// Closes a pod's circuit.
    pub fn close(&self, pod: PodId) {
        if let Some(word) = self.words.get(pod.index() / 64) {
            word.fetch_and(!(1 << (pod.index() % 64)), Ordering::Relaxed);
        }
    }

    /// The pods whose circuits are open.
    #[must_use]
    pub fn opened(&self) -> PodSet<W> {
        PodSet::from_words(std::array::from_fn(|at| self.words[at].load(Ordering::Relaxed)))
    }
}

impl<const W: usize> Default for OpenBreakers<W> {
    fn default() -> Self {
        Self::new()
    }
}
