//! Simulated pods: what an engine does as far as a router can tell.
//!
//! A [`SimPod`] is a real HTTP server on a loopback port, with an engine behind it that batches, caches by pages, and takes
//! the time that measured costs say. The rule that must never break: what it announces, counted copy by copy, adds up to
//! what it holds.

mod config;
pub mod events;
pub mod publish;

pub use config::{Fault, PodConfig};
