//! One model of an LLM engine: what it does as far as a router can tell.
//!
//! | module | holds |
//! |---|---|
//! | [`block_pool`] | paged KV cache: copies, LRU free queue, host tier |
//! | [`scheduler`] | continuous batching with chunked prefill, sans-IO: one step at a time |
//! | [`virtual_time`] | driver: discrete-event simulation of many engines |
//! | `http` | driver behind the feature `http`: pods with OpenAI's API on real sockets, faults, and vLLM's events |
//!
//! Steps take the time of a [`CostModel`](routing_plugins::CostModel). Invariant: what an engine announces, counted copy by copy,
//! adds up to what it holds.

#![forbid(unsafe_code)]

pub mod block_pool;
#[cfg(feature = "http")]
mod http;
pub mod scheduler;
pub mod virtual_time;

#[cfg(feature = "http")]
pub use crate::http::{
    CompletionOracle, EngineMetrics, Execution, ExecutionEnd, Fault, Histogram, MODEL, PodConfig, RequestLedger,
    SimPod, events, publish,
};
