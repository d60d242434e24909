//! A request's shares of its pods' load between its decision and its attempts.

use kv_index::Pod;
use routing_plugins::load::LoadGuard;

/// The shares, of the plan's first three pods: encode, prefill and decode. In place, since most requests pass without waiting.
#[derive(Debug)]
pub(crate) struct Reserved<const W: usize>([Option<LoadGuard<W>>; 3]);

impl<const W: usize> Default for Reserved<W> {
    fn default() -> Self {
        Self([None, None, None])
    }
}

impl<const W: usize> Reserved<W> {
    /// Keeps a share, if there is a place for it.
    pub(super) fn keep(&mut self, share: LoadGuard<W>) {
        if let Some(free) = self.0.iter_mut().find(|kept| kept.is_none()) {
            *free = Some(share);
        }
    }

    pub(super) fn has(&self, pod: Pod) -> bool {
        self.0.iter().flatten().any(|share| share.pod() == pod)
    }

    /// The share of a pod, whose attempt begins.
    pub(crate) fn take(&mut self, pod: Pod) -> Option<LoadGuard<W>> {
        self.0.iter_mut().find(|kept| kept.as_ref().is_some_and(|share| share.pod() == pod))?.take()
    }

    /// Lets go of all; false if there were none.
    pub(crate) fn clear(&mut self) -> bool {
        let had = self.0.iter().any(Option::is_some);
        self.0 = [None, None, None];
        had
    }
}
