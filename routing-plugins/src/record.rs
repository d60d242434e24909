//! Recorders: what a decision leaves for later ones.

mod prefill_queue;
mod recent_work;
mod speculate;
#[cfg(test)]
pub(crate) mod testing;

pub use prefill_queue::{PrefillQueueParameters, PrefillQueueRecorder};
pub use recent_work::{RecentWorkRecorder, RecentWorkRecorderParameters};
pub use speculate::{SpeculateParameters, SpeculateRecorder};
