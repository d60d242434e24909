//! Offline batch: makespan and computed tokens of planned, arrival-order, random and online execution.
//!
//! Each strategy is run with several concurrency limits and shown with the one of the shortest makespan.

use std::fmt::{self, Write};

use pointsman_lab::SplitMix64;
use pointsman_lab::trace::{Start, Trace};

use super::run_tasks;
use crate::SimulateError;
use crate::config::SimConfig;
use crate::offline_batch::planned::{OutputEstimate, PlannedQueues, WorkStealing};
use crate::offline_batch::{OfflineBatchResult, SharedQueue, WorkSource, simulate_batch};
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
    ("planned, work stealing", Strategy::Planned(OutputEstimate::Exact, WorkStealing::On)),
    ("planned, no stealing", Strategy::Planned(OutputEstimate::Exact, WorkStealing::Off)),
    ("estimates 2× wrong, work stealing", Strategy::Planned(OutputEstimate::OffByTwo, WorkStealing::On)),
    ("estimates 2× wrong, no stealing", Strategy::Planned(OutputEstimate::OffByTwo, WorkStealing::Off)),
    ("all estimates equal, work stealing", Strategy::Planned(OutputEstimate::Mean, WorkStealing::On)),
    ("all estimates equal, no stealing", Strategy::Planned(OutputEstimate::Mean, WorkStealing::Off)),
    ("order of arrival", Strategy::Arrival),
    ("random order", Strategy::Random),
    ("online, `cache_aware`", Strategy::Online("cache_aware")),
    ("online, `lmetric`", Strategy::Online("lmetric")),
];

/// Requests that a pod may have under strategy: what is tried.
const IN_FLIGHT: [usize; 5] = [8, 16, 32, 64, 128];

/// The result of one strategy.
#[derive(Clone, Debug)]
struct Row {
    in_flight: usize,
    result: OfflineBatchResult,
    moved: Option<usize>,
    /// Tokens that have to be computed, if it was planned.
    bound: Option<u64>,
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

    /// The bound that ends first; of equal ones the smallest.
    fn best(&self, strategy: Strategy) -> Result<Row, SimulateError> {
        let load = PreparedTrace::new(self.trace);
        let mut best: Option<Row> = None;
        for in_flight in IN_FLIGHT {
            let row = self.run(strategy, in_flight, &load)?;
            if best.as_ref().is_none_or(|best| row.result.makespan_us() < best.result.makespan_us()) {
                best = Some(row);
            }
        }
        best.ok_or(SimulateError::NoPods)
    }

    fn run(&self, strategy: Strategy, in_flight: usize, load: &PreparedTrace<'_>) -> Result<Row, SimulateError> {
        let (chains, lengths, config) = (&load.chains, &self.lengths[..], &self.config);
        let work = |lists: &mut dyn WorkSource| simulate_batch(lists, chains, lengths, config, in_flight);
        let (result, moved, bound) = match strategy {
            Strategy::Planned(guess, moving) => {
                let mut planned = PlannedQueues::new(chains, lengths, config, guess, moving)?;
                let mut result = work(&mut planned);
                // What no pod is thought to have room for is in no list.
                result.totals.refused = self.lengths.len() as u64 - result.totals.requests;
                (result, Some(planned.moved()), Some(planned.plan().distinct_tokens()))
            }
            Strategy::Arrival => (work(&mut SharedQueue::new(self.order(false), lengths, config)), None, None),
            Strategy::Random => (work(&mut SharedQueue::new(self.order(true), lengths, config)), None, None),
            Strategy::Online(policy) => (self.online(policy, in_flight)?, None, None),
        };
        Ok(Row { in_flight, result, moved, bound })
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
        let result = simulate(&Policy::find(policy)?, &PreparedTrace::new(&trace), &self.config, &mut |_| {})?;
        // A pod that is never idle but at its end ends when it was busy for so long. The last end is known.
        let mut ends_us: Vec<u64> = result.pods.iter().map(|pod| pod.busy_us).collect();
        if let Some(last) = ends_us.iter_mut().max() {
            *last = result.span_us;
        }
        Ok(OfflineBatchResult { totals: result, ends_us })
    }

    /// Seconds of the longest answer, had it a pod for itself and its prompt for nothing: no strategy ends earlier.
    fn longest(&self) -> f64 {
        let alone = |&(prompt, output): &(u32, u32)| {
            let step = self.config.costs.decode(1, (prompt + output / 2) as usize);
            step.as_secs_f64() * f64::from(output.saturating_sub(1))
        };
        self.lengths.iter().map(alone).fold(0.0, f64::max)
    }
}

fn write_table(text: &mut String, name: &str, batch: &Batch<'_>, rows: &[Row]) -> fmt::Result {
    let bound = rows.iter().find_map(|row| row.bound).unwrap_or(0).max(1);
    let (requests, pods) = (batch.lengths.len(), batch.config.pods.len());
    writeln!(text, "\n### {name}: {requests} requests on {pods} pods\n")?;
    writeln!(
        text,
        "{bound} tokens of prompts have to be computed. The longest answer takes {:.1} s by itself.\n",
        batch.longest()
    )?;
    writeln!(
        text,
        "| strategy | in flight a pod | tokens / bound | shared hits | makespan | imbalance | least imbalance | against arrival | moved |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|---|---|---|")?;
    let arrival = STRATEGIES.iter().zip(rows).find(|((_, strategy), _)| *strategy == Strategy::Arrival);
    let arrival = arrival.map_or(0.0, |(_, row)| row.result.makespan_us() as f64);
    for ((called, _), row) in STRATEGIES.iter().zip(rows) {
        let result = &row.result;
        let ends = &result.ends_us;
        let mean = ends.iter().sum::<u64>() as f64 / 1e6 / ends.len().max(1) as f64;
        writeln!(
            text,
            "| {called} | {} | {:.3} | {:.2}% | {:.1} s | {:.1}% | {:.1}% | {:.3} | {} |",
            row.in_flight,
            result.totals.prefill_tokens as f64 / bound as f64,
            result.totals.share_of_bound().unwrap_or(1.0) * 100.0,
            result.makespan_us() as f64 / 1e6,
            result.imbalance() * 100.0,
            (batch.longest() / mean - 1.0).max(0.0) * 100.0,
            result.makespan_us() as f64 / arrival,
            row.moved.map_or(String::new(), |moved| moved.to_string()),
        )?;
    }
    Ok(())
}
