//! Is it fast, and compared with what?
//!
//! [`fleet`] describes what engines cached and how they came to; [`systems`] holds ours and the peers behind
//! one face, so that every section in [`sections`] fills and asks all of them alike; [`shared`] does the same for many
//! threads at once, and [`replay`] makes traces into what they are sent. [`targets`] judges the
//! tables they return, and [`output`] writes them down with a [`plot`] each. The rule: an answer is compared with
//! the [`truth`] before it is timed, and a wrong one is reported beside its time.

pub mod alloc;
pub mod decide;
pub mod fleet;
pub mod forward;
pub mod invent;
pub mod measure;
pub mod options;
pub mod output;
pub mod plot;
pub mod replay;
pub mod report;
pub mod sections;
pub mod shared;
pub mod systems;
pub mod targets;
pub mod truth;
