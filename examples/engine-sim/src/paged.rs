//! A pod's memory: frames, the blocks that lie in them, and what is evicted for what.

pub mod frames;
pub mod pool;
