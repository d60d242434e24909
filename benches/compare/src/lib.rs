//! Ours beside the peers: the same content in each index, measured side by side.
//!
//! | module | idea |
//! |---|---|
//! | [`systems`] | ours and the peers behind one trait |
//! | [`sections`] | a file a question; each returns tables |
//! | [`load`] | threads that search, alone and beside a writer |
//! | [`replay`] | traces as the events and lookups of a fleet; the highest rate kept up with |
//! | `mismatches` | wrong answers, reported beside the times |
//! | [`targets`] | whether a target was held, and where it was missed worst |
//! | [`results`], [`plot`], [`output`] | tables of measurements as Markdown, JSON and plots |
//! | [`options`] | the command line |
//!
//! The rule: an answer is compared with the oracle before it is timed.

pub mod load;
mod mismatches;
pub mod options;
pub mod output;
pub mod plot;
pub mod replay;
pub mod results;
pub mod sections;
pub mod systems;
pub mod targets;
