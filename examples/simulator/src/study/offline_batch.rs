//! Offline batch: makespan and computed tokens of planned, arrival-order, random and online execution.
//!
//! A plan is carried out as `BatchRunner` does, which finds by itself how many requests a pod is given at a time. Every other strategy is
//! run with several concurrency limits and shown with the one of the shortest makespan.

use std::fmt::{self, Write};

use pointsman_lab::SplitMix64;
use pointsman_lab::trace::{Start, Trace};

use super::run_tasks;
use crate::SimulateError;
use crate::config::SimConfig;
use crate::offline_batch::bound::{least_makespan, longest_answer};
use crate::offline_batch::cohort_share::share_beside_cohort;
use crate::offline_batch::planned::{OutputEstimate, PlannedQueues, WorkStealing};
use crate::offline_batch::{OfflineBatchResult, SharedQueue, simulate_batch};
use crate::online_serving::simulate;
use crate::options::Options;
use crate::policy::Policy;
use crate::prepared_trace::PreparedTrace;

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<String, SimulateError> {
    let traffic = options.traffic()?;
    let tasks: Vec<(usize, Strategy)> =
        (0..traffic.len()).flat_map(|at| STRATEGIES.map(|(_, strategy)| (at, strategy))).collect();
    let rows = run_tasks(&tasks, options, |&(at, strategy)| {
        let trace = &traffic[at].1;
        Batch::new(trace, options.fleet(trace.block)?).best(strategy)
    })?;
    let mut text = String::new();
    for ((name, trace), rows) in traffic.iter().zip(rows.chunks(STRATEGIES.len())) {
        // Writing to a string does not fail.
        let _ = write_table(&mut text, name, &Batch::new(trace, options.fleet(trace.block)?), rows);
    }
    Ok(text)
}

/// How a batch is executed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Strategy {
    Planned(OutputEstimate, WorkStealing),
    Arrival,
    Random,
    Online(&'static str),
}

/// The names of strategies in tables.
const STRATEGIES: [(&str, Strategy); 10] = [
    ("planned", Strategy::Planned(OutputEstimate::Exact, WorkStealing::On)),
    ("planned, no stealing", Strategy::Planned(OutputEstimate::Exact, WorkStealing::Off)),
    ("estimates 2× wrong", Strategy::Planned(OutputEstimate::OffByTwo, WorkStealing::On)),
    ("estimates 2× wrong, no stealing", Strategy::Planned(OutputEstimate::OffByTwo, WorkStealing::Off)),
    ("no estimates", Strategy::Planned(OutputEstimate::None, WorkStealing::On)),
    ("no estimates, no stealing", Strategy::Planned(OutputEstimate::None, WorkStealing::Off)),
    ("order of arrival", Strategy::Arrival),
    ("random order", Strategy::Random),
    ("online, `cache_aware`", Strategy::Online("cache_aware")),
    ("online, `lmetric`", Strategy::Online("lmetric")),
];

/// Requests that a pod may have under way, for strategies that do not find that out.
const IN_FLIGHT: [usize; 5] = [16, 32, 64, 128, 256];

/// The result of one strategy.
#[derive(Clone, Debug)]
struct Row {
    in_flight: usize,
    result: OfflineBatchResult,
    /// If it was planned.
    plan: Option<Planned>,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    moved: usize,
    /// Tokens that have to be computed.
    distinct: u64,
    /// The share of decoding beside others of the cohort.
    beside_cohort: f64,
}

/// A trace as one batch.
struct Batch<'t> {
    trace: &'t Trace,
    config: SimConfig,
    lengths: Vec<(u32, u32)>,
}

impl<'t> Batch<'t> {
    fn new(trace: &'t Trace, config: SimConfig) -> Self {
        let lengths = trace.requests.iter().map(|request| (request.input, request.output)).collect();
        Self { trace, config, lengths }
    }

    /// The limit that ends first, where limits are tried; of equal ones the smallest.
    fn best(&self, strategy: Strategy) -> Result<Row, SimulateError> {
        let load = PreparedTrace::batch(self.trace);
        if let Strategy::Planned(guess, moving) = strategy {
            return self.planned(guess, moving, &load);
        }
        let mut best: Option<Row> = None;
        for in_flight in IN_FLIGHT {
            let row = self.run(strategy, in_flight, &load)?;
            if best.as_ref().is_none_or(|best| row.result.makespan_us() < best.result.makespan_us()) {
                best = Some(row);
            }
        }
        best.ok_or(SimulateError::NoPods)
    }

    fn planned(
        &self,
        guess: OutputEstimate,
        moving: WorkStealing,
        load: &PreparedTrace<'_>,
    ) -> Result<Row, SimulateError> {
        let mut queues = PlannedQueues::new(&load.chains, &self.lengths, &self.config, guess, moving)?;
        let mut result = simulate_batch(&mut queues, load, &self.lengths, &self.config, usize::MAX);
        // What no pod is thought to have room for is in no list.
        result.totals.refused = self.lengths.len() as u64 - result.totals.requests;
        let plan = queues.plan();
        let beside_cohort = share_beside_cohort(&result, plan);
        let plan = Planned { moved: queues.moved(), distinct: plan.distinct_tokens(), beside_cohort };
        Ok(Row { in_flight: queues.bound(), result, plan: Some(plan) })
    }

    fn run(&self, strategy: Strategy, in_flight: usize, load: &PreparedTrace<'_>) -> Result<Row, SimulateError> {
        let (lengths, config) = (&self.lengths[..], &self.config);
        let queue = |shuffled: bool| {
            let mut queue = SharedQueue::new(self.order(shuffled), lengths, config);
            simulate_batch(&mut queue, load, lengths, config, in_flight)
        };
        let result = match strategy {
            Strategy::Planned(guess, moving) => return self.planned(guess, moving, load),
            Strategy::Arrival => queue(false),
            Strategy::Random => queue(true),
            Strategy::Online(policy) => self.online(policy, in_flight)?,
        };
        Ok(Row { in_flight, result, plan: None })
    }

    fn order(&self, shuffled: bool) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.lengths.len() as u32).collect();
        let mut rng = SplitMix64::new(self.config.seed ^ 0x0DE5);
        for at in (1..order.len()).rev().filter(|_| shuffled) {
            order.swap(at, (rng.next_u64() % (at as u64 + 1)) as usize);
        }
        order
    }

    /// The next request comes when one is answered, so that the fleet has so many under strategy, wherever they are.
    fn online(&self, policy: &str, in_flight: usize) -> Result<OfflineBatchResult, SimulateError> {
        let all = (in_flight * self.config.pods.len()) as u32;
        let mut trace = self.trace.clone();
        for (at, request) in (0..).zip(&mut trace.requests) {
            request.start = u32::checked_sub(at, all).map_or(Start::At(0), |before| Start::After(before, 0));
        }
        let result = simulate(&Policy::find(policy)?, &PreparedTrace::batch(&trace), &self.config, &mut |_| {})?;
        // A pod that is never idle but at its end ends when it was busy for so long. The last end is known.
        let mut ends_us: Vec<u64> = result.pods.iter().map(|pod| pod.busy_us).collect();
        if let Some(last) = ends_us.iter_mut().max() {
            *last = result.span_us;
        }
        Ok(OfflineBatchResult { totals: result, ends_us, spans_us: Vec::new() })
    }
}

fn write_table(text: &mut String, name: &str, batch: &Batch<'_>, rows: &[Row]) -> fmt::Result {
    let distinct = rows.iter().find_map(|row| row.plan).map_or(0, |plan| plan.distinct).max(1);
    let (requests, pods) = (batch.lengths.len(), batch.config.pods.len());
    let least = least_makespan(&PreparedTrace::batch(batch.trace).chains, &batch.lengths, &batch.config);
    let longest = longest_answer(&batch.lengths, &batch.config.costs);
    writeln!(text, "\n### {name}: {requests} requests on {pods} pods\n")?;
    writeln!(
        text,
        "{distinct} tokens of prompts have to be computed. The longest answer takes {longest:.1} s by itself; nothing ends before {least:.1} s.\n"
    )?;
    writeln!(
        text,
        "| strategy | in flight a pod | makespan | / least | against arrival | tokens / distinct | shared hits | beside cohort | imbalance | moved |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|---|---|---|---|")?;
    let arrival = STRATEGIES.iter().zip(rows).find(|((_, strategy), _)| *strategy == Strategy::Arrival);
    let arrival = arrival.map_or(0.0, |(_, row)| row.result.makespan_us() as f64);
    for ((called, _), row) in STRATEGIES.iter().zip(rows) {
        let (result, makespan) = (&row.result, row.result.makespan_us() as f64);
        writeln!(
            text,
            "| {called} | {} | {:.1} s | {:.3} | {:.3} | {:.3} | {:.2}% | {} | {:.1}% | {} |",
            row.in_flight,
            makespan / 1e6,
            makespan / 1e6 / least,
            makespan / arrival,
            result.totals.prefill_tokens as f64 / distinct as f64,
            result.totals.share_of_bound().unwrap_or(1.0) * 100.0,
            row.plan.map_or(String::new(), |plan| format!("{:.0}%", plan.beside_cohort * 100.0)),
            result.imbalance() * 100.0,
            row.plan.map_or(String::new(), |plan| plan.moved.to_string()),
        )?;
    }
    Ok(())
}
