//! Routing on real traffic, in virtual time: the real index, profiles and load tracker among modelled pods.
//!
//! | module | idea |
//! |---|---|
//! | [`options`] | what the program is told |
//! | [`compare`] | policies side by side: what it does unless told otherwise |
//! | [`study`] | whole studies over traces, loads and seeds |
//! | [`capacity`] | how much a fleet takes, so that a load means the same for every traffic |
//! | [`policy`] | the rules that are compared, as documents of stock plugins |
//! | [`online`] | one policy on one trace |
//! | [`offline`] | a whole batch, by lists made ahead |
//! | [`engine`] | one pod |
//! | [`config`] | the fleet and its surroundings |
//! | [`outcome`] | what a run found |
//! | [`report`] | how it is told |
//! | [`chains`], [`pool`] | prompts as hashes; many runs at once |
//!
//! **What is real.** The index, the workflow with all its plugins, and the load tracker are those of the crates, called as a
//! gateway calls them; only the clock is told. A decision's time is measured.
//!
//! **What is modelled.** A pod works step by step: requests that decode come first, then prompts in chunks of a step's
//! tokens, then those that wait, as long as there is memory. A step takes what was measured of a real machine, by what it
//! computes. Whole blocks of prompts are shared and stay until their room is needed, least recently used first, the tail
//! of a prompt before its head; host memory may hold what leaves. Events reach the index after a delay, or never; pods
//! report their own figures every second. A request of a conversation comes when the one before it is answered and thought
//! about. Prompts of split fleets travel at the speed of a network.
//!
//! **What is not.** No request is preempted: it waits until there is room for its answer too. Blocks of answers are not
//! shared, since traces do not tell their hashes. Tokenizing, HTTP and queueing at the router take no time, so that only
//! the choice of the pod makes a difference. Pods do not fail; nobody gives up.
//!
//! Rules that must never break:
//!
//! - The router knows of caches from events alone, never from an engine.
//! - One seed gives one outcome, bit for bit, however many runs there are at once; only times of the router differ.
//! - Every token of a prompt is computed once or found, and every request is answered or refused.

#![forbid(unsafe_code)]

pub mod capacity;
pub mod chains;
pub mod compare;
pub mod config;
pub mod engine;
mod error;
pub mod offline;
pub mod online;
pub mod options;
pub mod outcome;
pub mod policy;
pub mod pool;
pub mod report;
mod router;
mod series;
pub mod study;
pub mod together;
mod world;

pub use error::SimulateError;
