//! The counters of every pod.

use std::sync::Arc;

use kv_index::{Pod, PodId};

use super::{InFlight, LoadGuard, Work};

/// Counts what was sent to each pod and is not done.
#[derive(Debug, Default)]
pub struct LoadTracker<const W: usize = 4> {}

impl<const W: usize> LoadTracker<W> {
    /// Counts a request on a pod until its guard lets go.
    pub fn begin(self: &Arc<Self>, _pod: Pod, _work: Work) -> LoadGuard<W> {
        LoadGuard { tracker: Arc::clone(self) }
    }

    /// What is in flight to a pod.
    #[must_use]
    pub fn in_flight(&self, _pod: PodId) -> InFlight {
        InFlight::default()
    }
}
