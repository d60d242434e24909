//! Programs: chains and trees of requests of one agent, recognized, and what of their contexts each pod should keep.
//!
//! | file | idea |
//! |---|---|
//! | [`Programs`] | the table: which program a request is of, where its context is, when it will be back |
//! | `contexts` | what a prompt goes on with, and who is forgotten |
//! | `owners` | which context a block belongs to, of some blocks of every prompt |
//! | `heard` | programs of other gateways |
//! | `service` | what each program was served so far |
//! | `gaps` | how long programs pause between two turns, and how long that is worth waiting for |
//! | [`ProgramPreparer`], [`ProgramRecorder`] | a request's program, found; its turn, entered |
//!
//! An agent's next turn comes back with all of its context, and a pod that kept it answers in a tenth of the time. A cache that is smaller than
//! the contexts of all programs loses each shortly before it is asked for again, as long as all of them take turns: so no more programs are
//! let in than fit (their *working set*, as Denning had it for memory), and the others wait a little instead of all of them for long.
//!
//! [`TotalLatencyScorer`](crate::score::TotalLatencyScorer) places a context where it pushes nobody's out;
//! [`WorkingSetDetector`](crate::flow::WorkingSetDetector) has those wait that fit nowhere.

mod context;
mod contexts;
mod gaps;
mod heard;
mod owners;
mod preparer;
mod prompt;
mod recorder;
mod service;
mod table;
mod working_set;

pub use context::PodCache;
pub use heard::ToldProgram;
pub use preparer::{ProgramParameters, ProgramPreparer};
pub use prompt::ProgramPrompt;
pub use recorder::ProgramRecorder;
pub use table::{Pause, ProgramLimits, ProgramStats, Programs};
pub use working_set::{WorkingSets, WorkingSetsSlot};

#[cfg(test)]
mod tests;
