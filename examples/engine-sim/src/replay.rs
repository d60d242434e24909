//! A whole fleet in one thread: modelled engines, their events over a wire that loses them, an index that follows.
//!
//! | module | idea |
//! |---|---|
//! | [`options`], [`usage`] | the command line, and what can be wrong with it |
//! | [`traffic`], [`conversation`] | who asks what, turn by turn |
//! | [`engine`] | a pod's engine: its cache and its requests, step by step |
//! | [`report`], [`link`], [`receive`] | an engine's events, the wire that may lose them, the index's end of it |
//! | [`route`], [`fleet`], [`mishaps`] | which pod is asked; the pods that come, go and start anew; when they do |
//! | [`play`], [`outcome`] | the loop that ties them together; how it ended |
//! | [`tally`], [`sample`], [`check`] | what was counted; which prompts are kept; index against engines |
//! | [`table`] | what the user sees |
//!
//! Everything is seeded: one seed, one run, apart from the timings.

pub mod check;
pub mod conversation;
pub mod engine;
pub mod fleet;
pub mod link;
pub mod mishaps;
pub mod options;
pub mod outcome;
pub mod play;
pub mod receive;
pub mod report;
pub mod route;
pub mod sample;
pub mod table;
pub mod tally;
pub mod traffic;
pub mod usage;
