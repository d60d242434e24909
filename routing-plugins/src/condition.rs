//! Step conditions: whether a workflow takes a step.

mod handoff_pays;

pub use handoff_pays::{HandoffPaysCondition, HandoffPaysParameters};
