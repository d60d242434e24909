//! Recorders: what later decisions should know of this one.

mod predict;
mod speculate;

pub use predict::{PredictParameters, PredictRecorder};
pub use speculate::{SpeculateParameters, SpeculateRecorder};
