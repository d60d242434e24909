//! Step conditions: whether a workflow takes a step.

mod handoff_pays;
mod uncached;

pub use handoff_pays::{HandoffPaysCondition, HandoffPaysParameters};
pub use uncached::{UncachedCondition, UncachedParameters};
