//! Feeds: how updates come to the index in order, from sources that number them or from predictions.

mod feed;
mod predict;
mod recency;

pub use feed::{Batch, BatchOutcome, Consumer, Feed};
pub use predict::Predictor;
