//! Step conditions: whether a workflow takes a step.

mod uncached;

pub use uncached::{UncachedCondition, UncachedParameters};
