//! Conditions: whether a step of a workflow is taken.

mod uncached;

pub use uncached::{UncachedCondition, UncachedParameters};
