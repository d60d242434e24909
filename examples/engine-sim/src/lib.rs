//! Simulated pods: what an engine does as far as a router can tell.
//!
//! A [`SimPod`] is a real HTTP server on a loopback port, with an engine behind it that batches, caches by pages, and takes
//! the time that measured costs say. The rule that must never break: what it announces, counted copy by copy, adds up to
//! what it holds.
//!
//! | module | idea |
//! |---|---|
//! | `engine` | batches, chunks, pages: one step at a time, without a clock |
//! | [`cost`] | how long a step takes, from measurements |
//! | `names` | a block's two names: the router's and vLLM's |
//! | `core`, `work` | the engine in time: requests in, tokens and events out |
//! | `answer` | what the model says: the same on every pod |
//! | `http` | OpenAI's API, vLLM's metrics, kept blocks for other pods |
//! | `lease`, `ticket` | a hold on kept blocks; a client's hold on its request |
//! | `oracle` | what each pod must answer |
//! | `serve`, `port`, `control`, `pod` | the socket over several lives; faults; all of it together |
//! | [`events`], [`publish`] | what is told of the cache; told over ZeroMQ, as vLLM does |

#![forbid(unsafe_code)]

mod answer;
mod config;
mod control;
mod core;
pub mod cost;
mod engine;
pub mod events;
mod figures;
mod http;
mod lease;
mod names;
mod oracle;
pub mod paged;
mod pod;
mod port;
pub mod publish;
pub mod replay;
mod serve;
mod ticket;
mod work;

pub use config::{Fault, MODEL, PodConfig};
pub use figures::{Figures, Histogram};
pub use oracle::Oracle;
pub use pod::SimPod;

#[cfg(test)]
mod tests;
