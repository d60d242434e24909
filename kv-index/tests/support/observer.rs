//! An observer that counts how often it is told that events were lost for good.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kv_index::{ChangeObserver, Event};

#[derive(Debug, Default)]
pub struct LossCounter(AtomicUsize);

impl LossCounter {
    pub fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl ChangeObserver for LossCounter {
    fn changed(&self, _: &Event<'_>) {}

    fn forgot(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}
