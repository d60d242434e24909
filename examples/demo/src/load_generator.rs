//! Closed-loop load generator: conversations over HTTP, their latencies and failures.
//!
//! A [`Workload`] gives conversations as a function of a seed, a [`LoadGenerator`] sends them to a gateway with a fixed
//! concurrency, and [`LoadStats`] sums up the answers. Invariant: every request that began ends exactly once, as a whole answer or
//! as a [`Failure`]; the [`RequestTracker`] finds any that did not.

mod chat_request;
mod client;
mod closed_loop;
mod conversation;
mod failure;
mod load_stats;
mod request_tracker;
mod sse_reader;
#[cfg(test)]
mod testing;
mod workload;

pub(crate) use client::Client;
pub(crate) use closed_loop::LoadGenerator;
pub(crate) use failure::Failure;
pub(crate) use load_stats::{LoadStats, percentile};
pub(crate) use request_tracker::{Outcome, RequestId, RequestRecord, RequestTracker};
pub(crate) use workload::{Workload, WorkloadShape};
