//! Simulates routing policies in virtual time: a discrete-event simulation with the real index, profiles and load tracker.
//!
//! | module | content |
//! |---|---|
//! | [`options`] | command line |
//! | [`compare`](mod@compare) | policies on the same arrivals, the default command |
//! | [`study`] | the experiments of `docs/routing-quality.md`, over traces, loads and seeds |
//! | [`workload`] | traffic, its fleet and its capacity |
//! | [`capacity`] | capacity search: the request rate that saturates a fleet |
//! | [`policy`] | routing policies as documents of stock plugins |
//! | [`online_serving`] | event loop: one policy on one trace |
//! | [`prepared_trace`] | a trace's prompts hashed, and who follows whom |
//! | [`offline_batch`] | a batch worked off from queues planned ahead |
//! | [`colocated_batch`] | a batch in the gaps of online traffic |
//! | [`router`] | the router under test |
//! | [`flow_control`] | the queue before it, and who requests are of |
//! | [`chains`] | prompts as block hashes |
//! | [`config`] | the fleet, event delay and loss, transfer costs |
//! | [`results`], [`time_series`] | metrics of a run |
//! | [`report`] | tables, JSON, plots, HTML |
//! | [`parallel`] | parallel map over runs |
//!
//! **Real:** the index, the workflow with its plugins and the load tracker are called as a gateway calls them; only the clock
//! is virtual. Decision times are measured.
//!
//! **Modelled:** a pod runs continuous batching with chunked prefill: decodes first, then prefill chunks up to the step's token
//! budget, then waiting requests whose prompts memory has room for; where an answer finds none, the request that was admitted last is
//! preempted and computed again. Step times come from the measured cost model. Whole blocks of prompts and answers are
//! shared and evicted least recently used first, tail before head; evicted blocks may go to host memory. A later turn finds the answer
//! before it if its prompt has room for it. Events reach the index after a delay, or never; pods report load every second. A turn of a conversation follows the answer to the one before it
//! after a think time. KV transfers of disaggregated fleets take network time.
//!
//! **Not modelled:** tokenization, HTTP, pod failures, client timeouts.
//!
//! Invariants:
//!
//! - The router learns of caches from events alone, never from an engine.
//! - One seed gives one result, bit for bit, at any parallelism; only measured decision times differ.
//! - Every prompt token is computed or found in a cache, once unless it was preempted; every request is answered or refused.

#![forbid(unsafe_code)]

mod capacity;
mod chains;
mod colocated_batch;
mod compare;
mod config;
mod error;
mod flow_control;
mod offline_batch;
mod online_serving;
mod options;
mod parallel;
mod policy;
mod prepared_trace;
mod report;
mod results;
mod router;
mod study;
#[cfg(test)]
mod tests;
mod time_series;
mod workload;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use pointsman_example_common::cli::fail;

use compare::{compare, list};
pub(crate) use error::SimulateError;
use options::{Options, Study};

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(text) => {
            // A closed pipe is no error.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => fail("simulate", &error),
    }
}

fn run(options: &Options) -> Result<String, SimulateError> {
    if options.list {
        return Ok(list());
    }
    options.check()?;
    match options.study {
        None => {
            let comparison = compare(options)?;
            let written = options.out.as_deref().map(|folder| comparison.write_to(folder)).transpose()?;
            Ok(format!("{comparison}{}", written.unwrap_or_default()))
        }
        Some(Study::Quality) => study::quality::run(options),
        Some(Study::EventLoss) => study::event_loss::run(options),
        Some(Study::Disaggregation) => study::disaggregation::run(options),
        Some(Study::OfflineBatch) => study::offline_batch::run(options),
        Some(Study::ColocatedBatch) => study::colocated_batch::run(options),
        Some(Study::FlowControl) => study::flow_control::run(options),
        Some(Study::ProgramOrder) => study::program_order::run(options),
        Some(Study::Programs) => study::programs::run(options),
    }
}
