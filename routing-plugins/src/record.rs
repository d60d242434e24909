//! Recorders: what a decision leaves for later ones.

mod predict;
mod predicted_blocks;
mod prefill_queue;
mod recent_work;
mod speculate;
#[cfg(test)]
pub(crate) mod testing;

pub use predict::PredictRecorder;
pub use predicted_blocks::PredictedBlocks;
pub use prefill_queue::{PrefillQueueParameters, PrefillQueueRecorder};
pub use recent_work::{RecentWorkRecorder, RecentWorkRecorderParameters};
pub use speculate::{SpeculateParameters, SpeculateRecorder};
