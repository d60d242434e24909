//! HTTP driver: a simulated pod on real sockets in real time, with OpenAI's API, faults, vLLM's events and KV handoff.
//!
//! | module | holds |
//! |---|---|
//! | `pod` | [`SimPod`], all of it together |
//! | `engine`, `step_loop`, `in_flight` | the scheduler in real time, its requests, and leases on blocks for other pods |
//! | `block_hashing` | both hashes of a block: the router's and vLLM's |
//! | `api` | OpenAI's API, vLLM's metrics, KV for other pods |
//! | `completion`, `oracle` | the text of a completion: the same on every pod |
//! | `request_handle`, `ledger` | progress and cancellation of a request; which pod ran which |
//! | `faults`, `listener`, `reserved_port` | fault injection; the socket over several incarnations |
//! | [`events`], [`publish`] | cache events; over ZeroMQ, as vLLM publishes them |

mod api;
mod block_hashing;
mod completion;
mod config;
mod engine;
pub mod events;
mod faults;
mod in_flight;
mod ledger;
mod listener;
mod metrics;
mod oracle;
mod pod;
pub mod publish;
mod request_handle;
mod reserved_port;
mod step_loop;

pub use config::{Fault, MODEL, PodConfig};
pub use ledger::{Execution, ExecutionEnd, RequestLedger};
pub use metrics::{EngineMetrics, Histogram};
pub use oracle::CompletionOracle;
pub use pod::SimPod;

#[cfg(test)]
mod tests;
