//! Open-loop trace replay: a trace becomes the same lookups and events for every system, sent at their times whether the
//! system is ready or not.
//!
//! [`pointsman_lab::trace`] reads or generates one; [`corpus`] runs a block pool for each pod over
//! the trace and writes down what a router would see; [`drive`] sends that to a system, faster or slower, and
//! [`highest_rate`] finds the fastest that it keeps up with. The rule: everything is decided before the clock starts.

pub mod corpus;
pub mod drive;
pub mod highest_rate;
