//! Recorders: what later decisions should know of this one.

mod cold_prompts;
mod predict;
mod predicted_blocks;
mod prefill_queue;
mod recent_work;
mod session;
mod speculate;
#[cfg(test)]
mod testing;

pub use cold_prompts::ColdPromptRecorder;
pub use predict::PredictRecorder;
pub use predicted_blocks::PredictedBlocks;
pub use prefill_queue::{PrefillQueueParameters, PrefillQueueRecorder};
pub use recent_work::{RecentWorkRecorder, RecentWorkRecorderParameters};
pub use session::SessionRecorder;
pub use speculate::{SpeculateParameters, SpeculateRecorder};
