//! Recorders: what later decisions should know of this one.

mod cold_prompts;
mod predict;
mod session;
mod speculate;

pub use cold_prompts::ColdPromptRecorder;
pub use predict::{PredictParameters, PredictRecorder};
pub use session::SessionRecorder;
pub use speculate::{SpeculateParameters, SpeculateRecorder};
