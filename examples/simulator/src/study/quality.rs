//! Policy comparison: every policy on every trace at each load, and where the default is beaten.

use std::fmt::{self, Write};

use super::{Cell, grid, ttft_p50, ttft_p99};
use crate::SimulateError;
use crate::options::Options;
use crate::policy::{DEFAULT, Policy};
use crate::results::PolicyResult;
use crate::workload::Workload;

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<String, SimulateError> {
    let workloads = Workload::all(options)?;
    let policies = options.policies_or(Policy::for_mixed_pods())?;
    let cells = grid(&workloads, &policies, options)?;
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_tables(&mut text, &workloads, &cells, options);
    Ok(text)
}

fn write_tables(text: &mut String, workloads: &[Workload], cells: &[Cell], options: &Options) -> fmt::Result {
    for (at, workload) in workloads.iter().enumerate() {
        let (capacity, pods) = (workload.traffic.capacity, workload.config.pods.len());
        writeln!(text, "\n### {}: {pods} pods take {capacity:.1} requests a second\n", workload.name)?;
        let of = |load: f64| cells.iter().filter(move |cell| cell.workload == at && cell.load == load);
        write!(text, "| policy |")?;
        for load in &options.load {
            write!(text, " p99 at {load}% | hits | p50 | max/mean |")?;
        }
        writeln!(text, "\n|---|{}", "---|".repeat(options.load.len() * 4))?;
        for first in of(options.load.first().copied().unwrap_or_default()) {
            write!(text, "| `{}` |", first.policy())?;
            for &load in &options.load {
                let Some(cell) = of(load).find(|cell| cell.policy() == first.policy()) else { continue };
                let p50 = cell.median(ttft_p50);
                let best = of(load).map(|cell| cell.median(ttft_p99)).fold(f64::MAX, f64::min);
                let most = of(load).map(|cell| cell.median(PolicyResult::hit_rate)).fold(0.0, f64::max);
                let (p99, hits) = (cell.median(ttft_p99), cell.median(PolicyResult::hit_rate));
                let mark = |best: bool| if best { "**" } else { "" };
                let (fast, holds) = (mark(p99 <= best), mark(hits >= most));
                let load = cell.median(PolicyResult::imbalance);
                write!(
                    text,
                    " {fast}{p99:.2} s{fast} | {holds}{:.1}%{holds} | {p50:.2} s | {load:.2} |",
                    hits * 100.0
                )?;
            }
            writeln!(text)?;
        }
    }
    write_losses(text, workloads, cells)
}

/// Where the default is beaten by more than noise.
fn write_losses(text: &mut String, workloads: &[Workload], cells: &[Cell]) -> fmt::Result {
    writeln!(text, "\n### Where `{DEFAULT}` is beaten by more than {:.0}%\n", NOISE * 100.0)?;
    writeln!(text, "| trace | load | p99 | best p99 | behind by | hits | most hits | behind by | seeds differ by |")?;
    writeln!(text, "|---|---|---|---|---|---|---|---|---|")?;
    let mut beaten = 0;
    let own = || cells.iter().filter(|cell| cell.policy() == DEFAULT);
    for cell in own() {
        let others = || cells.iter().filter(|other| other.workload == cell.workload && other.load == cell.load);
        let fastest = others().min_by(|a, b| a.median(ttft_p99).total_cmp(&b.median(ttft_p99)));
        let fullest =
            others().max_by(|a, b| a.median(PolicyResult::hit_rate).total_cmp(&b.median(PolicyResult::hit_rate)));
        let (Some(fastest), Some(fullest)) = (fastest, fullest) else { continue };
        let (p99, hits) = (cell.median(ttft_p99), cell.median(PolicyResult::hit_rate));
        let slower = p99 / fastest.median(ttft_p99).max(f64::MIN_POSITIVE) - 1.0;
        let fewer = 1.0 - hits / fullest.median(PolicyResult::hit_rate).max(f64::MIN_POSITIVE);
        if slower <= NOISE && fewer <= NOISE {
            continue;
        }
        beaten += 1;
        writeln!(
            text,
            "| {} | {}% | {p99:.2} s | {:.2} s `{}` | {:.1}% | {:.1}% | {:.1}% `{}` | {:.1}% | {:.1}% |",
            workloads[cell.workload].name,
            cell.load,
            fastest.median(ttft_p99),
            fastest.policy(),
            slower * 100.0,
            hits * 100.0,
            fullest.median(PolicyResult::hit_rate) * 100.0,
            fullest.policy(),
            fewer * 100.0,
            cell.spread(ttft_p99) * 100.0,
        )?;
    }
    writeln!(text, "\nBeaten in {beaten} of {} cells.", own().count())
}

/// How much better another may be.
const NOISE: f64 = 0.05;
