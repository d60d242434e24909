//! Every trace as one batch: planned, in order of arrival, at random, and by the best profile.
//!
//! Each way is run with several bounds of what a pod has under way, and told with the one that ends first.

use std::fmt::{self, Write};

use pointsman_lab::rng::Rng;
use pointsman_lab::trace::{Start, Trace};

use super::at_once;
use crate::SimulateError;
use crate::config::SimConfig;
use crate::offline::planned::{Guess, Moving, Planned};
use crate::offline::{BatchOutcome, Lists, OneQueue, work_off};
use crate::online::{Load, simulate};
use crate::options::Options;
use crate::policy::Policy;
use crate::pool::run_all;
use pointsman_example_common::progress::Progress;

/// Runs it, and tells it as Markdown.
///
/// # Errors
///
/// As [`simulate`].
pub fn batch(options: &Options) -> Result<String, SimulateError> {
    let traffic = options.traffic()?;
    let tasks: Vec<(usize, Way)> = (0..traffic.len()).flat_map(|at| WAYS.map(|(_, way)| (at, way))).collect();
    let bar = parking_lot::Mutex::new(Progress::on_stderr(tasks.len()));
    let rows = run_all(
        &tasks,
        at_once(options),
        |&(at, way)| {
            let trace = &traffic[at].1;
            Batch::new(trace, options.fleet(trace.block)?).best(way)
        },
        |done| bar.lock().show(done, "runs"),
    );
    bar.lock().end();
    let rows = rows.into_iter().collect::<Result<Vec<Row>, _>>()?;
    let mut text = String::new();
    for ((name, trace), rows) in traffic.iter().zip(rows.chunks(WAYS.len())) {
        // Writing to a string does not fail.
        let _ = tell(&mut text, name, &Batch::new(trace, options.fleet(trace.block)?), rows);
    }
    Ok(text)
}

/// How a batch is worked off.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Planned(Guess, Moving),
    Arrival,
    Random,
    Online(&'static str),
}

/// What tables call them. The first is what others are told against in words, arrival in figures.
const WAYS: [(&str, Way); 10] = [
    ("planned, work moves", Way::Planned(Guess::Exact, Moving::WhenDry)),
    ("planned, nothing moves", Way::Planned(Guess::Exact, Moving::Never)),
    ("estimates 2× wrong, work moves", Way::Planned(Guess::Doubtful, Moving::WhenDry)),
    ("estimates 2× wrong, nothing moves", Way::Planned(Guess::Doubtful, Moving::Never)),
    ("all estimates equal, work moves", Way::Planned(Guess::Mean, Moving::WhenDry)),
    ("all estimates equal, nothing moves", Way::Planned(Guess::Mean, Moving::Never)),
    ("order of arrival", Way::Arrival),
    ("random order", Way::Random),
    ("online, `cache_aware`", Way::Online("cache_aware")),
    ("online, `lmetric`", Way::Online("lmetric")),
];

/// Requests that a pod may have under way: what is tried.
const IN_FLIGHT: [usize; 5] = [8, 16, 32, 64, 128];

/// What came of one way.
#[derive(Clone, Debug)]
struct Row {
    in_flight: usize,
    outcome: BatchOutcome,
    moved: Option<usize>,
    /// Tokens that have to be computed, as far as the way knows it.
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
    fn best(&self, way: Way) -> Result<Row, SimulateError> {
        let load = Load::new(self.trace);
        let mut best: Option<Row> = None;
        for in_flight in IN_FLIGHT {
            let row = self.run(way, in_flight, &load)?;
            if best.as_ref().is_none_or(|best| row.outcome.makespan_us() < best.outcome.makespan_us()) {
                best = Some(row);
            }
        }
        best.ok_or(SimulateError::NoPods)
    }

    fn run(&self, way: Way, in_flight: usize, load: &Load<'_>) -> Result<Row, SimulateError> {
        let (chains, lengths, config) = (load.chains(), &self.lengths[..], &self.config);
        let work = |lists: &mut dyn Lists| work_off(lists, chains, lengths, config, in_flight, &mut |_| {});
        let (outcome, moved, bound) = match way {
            Way::Planned(guess, moving) => {
                let mut planned = Planned::new(chains, lengths, config, guess, moving)?;
                let mut outcome = work(&mut planned);
                // What no pod is thought to have room for is in no list.
                outcome.refused = self.lengths.len() as u64 - outcome.requests;
                (outcome, Some(planned.moved()), Some(planned.plan().distinct_tokens()))
            }
            Way::Arrival => (work(&mut OneQueue::new(self.order(false), lengths, config)), None, None),
            Way::Random => (work(&mut OneQueue::new(self.order(true), lengths, config)), None, None),
            Way::Online(policy) => (self.online(policy, in_flight)?, None, None),
        };
        Ok(Row { in_flight, outcome, moved, bound })
    }

    fn order(&self, shuffled: bool) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.lengths.len() as u32).collect();
        let mut rng = Rng::new(self.config.seed ^ 0x0DE5);
        for at in (1..order.len()).rev().filter(|_| shuffled) {
            order.swap(at, (rng.bits() % (at as u64 + 1)) as usize);
        }
        order
    }

    /// The next request comes when one is answered, so that the fleet has so many under way, wherever they are.
    fn online(&self, policy: &str, in_flight: usize) -> Result<BatchOutcome, SimulateError> {
        let all = (in_flight * self.config.pods.len()) as u32;
        let mut trace = self.trace.clone();
        for (at, request) in (0..).zip(&mut trace.requests) {
            request.start = u32::checked_sub(at, all).map_or(Start::At(0), |before| Start::After(before, 0));
        }
        let outcome = simulate(&Policy::find(policy)?, &Load::new(&trace), &self.config, &mut |_| {})?;
        let mut batch = BatchOutcome::default();
        (batch.requests, batch.refused) = (outcome.requests, outcome.refused);
        (batch.blocks, batch.blocks_hit, batch.blocks_known) =
            (outcome.blocks, outcome.blocks_hit, outcome.blocks_known);
        batch.prefill_tokens = outcome.prefill_tokens;
        // A pod that is never idle but at its end ends when it was busy for so long. The last end is known.
        batch.ends_us = outcome.pods.iter().map(|pod| pod.busy_us).collect();
        if let Some(last) = batch.ends_us.iter_mut().max() {
            *last = outcome.span_us;
        }
        Ok(batch)
    }

    /// Seconds of the longest answer, had it a pod for itself and its prompt for nothing: no way ends earlier.
    fn longest(&self) -> f64 {
        let alone = |&(prompt, output): &(u32, u32)| {
            let step = self.config.costs.decode(1, (prompt + output / 2) as usize);
            step.as_secs_f64() * f64::from(output.saturating_sub(1))
        };
        self.lengths.iter().map(alone).fold(0.0, f64::max)
    }
}

fn tell(text: &mut String, name: &str, batch: &Batch<'_>, rows: &[Row]) -> fmt::Result {
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
        "| way | in flight a pod | tokens / bound | shared hits | makespan | imbalance | least imbalance | against arrival | moved |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|---|---|---|")?;
    let arrival = WAYS.iter().zip(rows).find(|((_, way), _)| *way == Way::Arrival);
    let arrival = arrival.map_or(0.0, |(_, row)| row.outcome.makespan_us() as f64);
    for ((called, _), row) in WAYS.iter().zip(rows) {
        let outcome = &row.outcome;
        let ends = &outcome.ends_us;
        let mean = ends.iter().sum::<u64>() as f64 / 1e6 / ends.len().max(1) as f64;
        writeln!(
            text,
            "| {called} | {} | {:.3} | {:.2}% | {:.1} s | {:.1}% | {:.1}% | {:.3} | {} |",
            row.in_flight,
            outcome.prefill_tokens as f64 / bound as f64,
            outcome.shared_hits() * 100.0,
            outcome.makespan_us() as f64 / 1e6,
            outcome.imbalance() * 100.0,
            (batch.longest() / mean - 1.0).max(0.0) * 100.0,
            outcome.makespan_us() as f64 / arrival,
            row.moved.map_or(String::new(), |moved| moved.to_string()),
        )?;
    }
    Ok(())
}
