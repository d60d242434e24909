//! Parts that the example programs are made of.
//!
//! `replay` is the program to start with: it plays multi-turn traffic over a fleet of modelled engines, keeps an
//! [`Index`](kv_index::Index) up to date from their events, routes by it, and in the end holds the index
//! against what the engines really have.
//!
//! | module | idea |
//! |---|---|
//! | [`options`], [`usage`] | the command line, and what can be wrong with it |
//! | [`rng`] | seeded chance |
//! | [`traffic`], [`conversation`] | who asks what, turn by turn |
//! | [`frames`], [`pool`], [`engine`] | a pod's engine: its memory, its cache, its requests |
//! | [`report`], [`link`], [`receive`] | an engine's events, the wire that may lose them, the index's end of it |
//! | [`route`], [`fleet`], [`mishaps`] | which pod is asked; the pods that come, go and start anew; when they do |
//! | [`replay`], [`outcome`] | the loop that ties them together; how it ended |
//! | [`tally`], [`sample`], [`check`] | what was counted; which prompts are kept; index against engines |
//! | [`progress`], [`table`] | what the user sees |
//!
//! `geo` is the other one: how a behaviour is added to a profile, in four steps and under sixty lines. It has a fleet to
//! decide on from [`fleet_of_cities`].
//!
//! Everything is single-threaded and seeded: one seed, one run, apart from the timings.

#![forbid(unsafe_code)]

pub mod check;
mod cities;
pub mod conversation;
pub mod engine;
pub mod fleet;
pub mod frames;
pub mod link;
pub mod mishaps;
pub mod options;
pub mod outcome;
pub mod pool;
pub mod progress;
pub mod receive;
pub mod replay;
pub mod report;
pub mod rng;
pub mod route;
pub mod sample;
pub mod table;
pub mod tally;
pub mod traffic;
pub mod usage;

pub use cities::fleet_of_cities;

/// The README's example is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[derive(Debug)]
pub struct Readme;
