//! A file of requests, planned as a whole and carried out: OpenAI's batch format in and out.
//!
//! Lines are read and checked ([`Batch`]), prompts become chains of block hashes as pods have them ([`Chains`]), a plan gives
//! each pod its share ([`plan`]), and a runner carries it out with a journal ([`run`]). The rule that must never break: every
//! line of the input is in the output or among the errors, once.

#![forbid(unsafe_code)]

mod lines;
mod made;
mod output;
mod planning;
mod run;
mod table;
mod work;

pub use lines::{BadLine, Batch, Line};
pub use made::made_up;
pub use planning::{Chains, plan};
pub use run::{Options, PodAt, RunError, Summary, run};
pub use table::Table;
