//! The first command: one workload, three profiles, a table.
//!
//! Every profile gets fresh pods, so that all begin with empty caches, and is asked the same questions by the same clients.
//! The rule that must never break: a difference in the table is a difference between profiles, and nothing else.

mod compare;
mod serve;
mod table;

pub use compare::{DemoError, Options, Outcome, compare, prefill_pods};
pub use serve::{ServeOptions, Serving};
pub use table::{Table, reading};
