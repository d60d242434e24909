//! Load while everything breaks, and whether it all healed.
//!
//! Pods die, hang, restart and forget; events are lost, doubled, reordered and cut off; clients go on asking. What goes wrong
//! is a [`Schedule`], a function of the seed. The rules that must never break are what is checked in the end: every request
//! ended exactly once, no client was given half an answer for a whole one, the index says what the pods hold, nothing is
//! counted as under way, and neither a task nor a socket is left.

mod check;
mod leftovers;
mod report;
mod run;
mod schedule;

pub use check::{Check, Difference, Finding, differences};
pub use leftovers::Leftovers;
pub use report::Report;
pub use run::{ChaosError, Options, run};
pub use schedule::{Schedule, Step};
