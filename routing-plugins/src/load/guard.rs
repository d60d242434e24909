//! One request's share of its pod's load.

use std::sync::Arc;

use super::LoadTracker;

/// One request's share of its pod's load; lets go when dropped.
#[derive(Debug)]
pub struct LoadGuard<const W: usize = 4> {
    pub(super) tracker: Arc<LoadTracker<W>>,
}
