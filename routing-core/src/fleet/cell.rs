//! Where the current version of the fleet is published, by swap (RCU).

use std::sync::Arc;

use arc_swap::ArcSwap;
use kv_index::DEFAULT_POD_WORDS;

use super::Fleet;

/// Where the current version of the fleet is published.
///
/// Readers take no lock; a decision that began on one version ends on it.
#[derive(Debug)]
pub struct FleetCell<const W: usize = DEFAULT_POD_WORDS>(ArcSwap<Fleet<W>>);

impl<const W: usize> FleetCell<W> {
    /// A cell with a first version.
    #[must_use]
    pub fn new(fleet: Fleet<W>) -> Self {
        Self(ArcSwap::from_pointee(fleet))
    }

    /// Publishes a version, whole.
    pub fn publish(&self, fleet: Fleet<W>) {
        self.0.store(Arc::new(fleet));
    }

    /// The current version.
    #[must_use]
    pub fn load(&self) -> Arc<Fleet<W>> {
        self.0.load_full()
    }

    /// Works with the current version, without counting a reference.
    pub fn with<T>(&self, work: impl FnOnce(&Fleet<W>) -> T) -> T {
        work(&self.0.load())
    }
}
