//! Policy comparison: every policy on every trace at each load, and how far our own are behind the best other.

use std::fmt::{self, Write};

use super::{Cell, grid, seconds, ttft_p50, ttft_p99};
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

/// How far our own profiles, and documents that were given, are behind the best of all others, figure by figure.
fn write_losses(text: &mut String, workloads: &[Workload], cells: &[Cell]) -> fmt::Result {
    let is_own = |policy: &str| OWN.contains(&policy) || !Policy::names().any(|name| name == policy);
    let mut own: Vec<&str> = cells.iter().map(Cell::policy).filter(|policy| is_own(policy)).collect();
    own.sort_unstable();
    own.dedup();
    for own in own {
        writeln!(
            text,
            "\n### How far `{own}` is behind the best other rule, in percent, with 95% intervals over seeds\n"
        )?;
        writeln!(text, "| trace | load |{}", FIGURES.map(|figure| format!(" {} |", figure.name)).concat())?;
        writeln!(text, "|---|---|{}", "---:|".repeat(FIGURES.len()))?;
        let mut counts = [(0, 0.0_f64); FIGURES.len()];
        let (mut within, mut beaten) = ([(0, 0); FIGURES.len()], Vec::new());
        let mut rows = 0;
        for cell in cells.iter().filter(|cell| cell.policy() == own) {
            rows += 1;
            write!(text, "| {} | {}% |", workloads[cell.workload].name, cell.load)?;
            let same = |other: &&Cell| other.workload == cell.workload && other.load == cell.load;
            let is_other = |other: &&Cell| !is_own(other.policy()) && other.policy() != PROGRAMS;
            let others: Vec<&Cell> = cells.iter().filter(same).filter(is_other).collect();
            beaten.extend(beaten_by(cell, &others).into_iter().map(|rule| (cell, rule)));
            for ((figure, (behind, most)), within) in FIGURES.iter().zip(&mut counts).zip(&mut within) {
                let Some(loss) = figure.loss(cell, &others) else {
                    write!(text, " – |")?;
                    continue;
                };
                let is_behind = loss.side() > 0;
                *behind += usize::from(is_behind);
                *most = most.max(loss.mean);
                let [near, far] = figure.bounds.unwrap_or([NOISE, f64::MAX]);
                *within = (within.0 + u32::from(loss.mean <= near), within.1 + u32::from(loss.mean > far));
                let mark = if is_behind { "**" } else { "" };
                write!(text, " {mark}{:+.1} ± {:.1}{mark} |", loss.mean * 100.0, loss.half_width * 100.0)?;
            }
            writeln!(text)?;
        }
        write!(text, "| more than {:.0}% behind | of {rows} |", NOISE * 100.0)?;
        for (behind, most) in counts {
            write!(text, " {behind}, most {:+.0} |", most * 100.0)?;
        }
        write!(text, "\n| within its bound, beyond the farther one | of {rows} |")?;
        for (figure, (near, far)) in FIGURES.iter().zip(within) {
            match figure.bounds {
                Some([bound, farther]) => {
                    let percent = [bound, farther].map(|share| (share * 100.0).round());
                    write!(text, " {near} within {}%, {far} beyond {}% |", percent[0], percent[1])?;
                }
                None => write!(text, " – |")?,
            }
        }
        write_beaten(text, workloads, &beaten)?;
    }
    Ok(())
}

/// Rules that are better than our own in a cell, all in all.
fn write_beaten(text: &mut String, workloads: &[Workload], beaten: &[(&Cell, &str)]) -> fmt::Result {
    let what =
        "better by more than 5% on two of first tokens, whole answers, goodput and hits, and on none worse by that";
    writeln!(text, "\n\nRules that are {what}: {}", if beaten.is_empty() { "none" } else { "" })?;
    for (cell, rule) in beaten {
        writeln!(text, "- {}, {}%: `{rule}`", workloads[cell.workload].name, cell.load)?;
    }
    Ok(())
}

/// Others that are surely better than a rule on two figures that have bounds, or more, and surely worse on none.
fn beaten_by<'c>(own: &Cell, others: &[&'c Cell]) -> Vec<&'c str> {
    let is_better_all_in_all = |other: &&&'c Cell| {
        let losses = FIGURES.iter().filter(|figure| figure.bounds.is_some());
        let sides: Vec<i32> = losses.filter_map(|figure| figure.loss(own, &[other])).map(Loss::side).collect();
        sides.iter().filter(|side| **side > 0).count() >= 2 && sides.iter().all(|side| *side >= 0)
    };
    others.iter().filter(is_better_all_in_all).map(|other| other.policy()).collect()
}

/// A figure that rules are compared by.
struct Figure {
    name: &'static str,
    of: fn(&PolicyResult) -> f64,
    /// Whether more is better.
    is_gain: bool,
    /// How far behind the best other rule a good one is in nine cells of ten, and how far in none.
    bounds: Option<[f64; 2]>,
}

/// How much worse one is than another, as a share: the mean over seeds, and half of its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Loss {
    mean: f64,
    half_width: f64,
}

impl Figure {
    /// Against the best of others, by its mean. Of one seed all have the same arrivals, so differences are taken seed by seed.
    fn loss(&self, own: &Cell, others: &[&Cell]) -> Option<Loss> {
        let mean = |cell: &&&Cell| mean(cell.results.iter().map(self.of));
        let by_mean = |a: &&&Cell, b: &&&Cell| mean(a).total_cmp(&mean(b));
        let best = if self.is_gain { others.iter().max_by(by_mean) } else { others.iter().min_by(by_mean) }?;
        let pairs = own.results.iter().map(self.of).zip(best.results.iter().map(self.of));
        let worse = |(own, best): (f64, f64)| {
            let (more, less) = if self.is_gain { (best, own) } else { (own, best) };
            if more == less { 0.0 } else { more / less.max(f64::MIN_POSITIVE) - 1.0 }
        };
        Some(Loss::of(&pairs.map(worse).collect::<Vec<f64>>()))
    }
}

impl Loss {
    fn of(differences: &[f64]) -> Self {
        let (count, mean) = (differences.len(), mean(differences.iter().copied()));
        let squares: f64 = differences.iter().map(|one| (one - mean).powi(2)).sum();
        // Nothing is known of how far seeds differ where there is one.
        let Some(freedom) = count.checked_sub(1).filter(|freedom| *freedom > 0) else {
            return Self { mean, half_width: 0.0 };
        };
        let error = (squares / freedom as f64 / count as f64).sqrt();
        Self { mean, half_width: error * STUDENT.get(freedom - 1).copied().unwrap_or(2.0) }
    }
}

impl Loss {
    /// 1 where it is a loss beyond what does not matter and beyond chance, -1 where it is such a gain.
    fn side(self) -> i32 {
        match self.mean {
            mean if mean.abs() <= NOISE || mean.abs() <= self.half_width => 0,
            mean if mean > 0.0 => 1,
            _ => -1,
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

const FIGURES: [Figure; 6] = [
    Figure { name: "TTFT p99", of: ttft_p99, is_gain: false, bounds: Some([0.1, 0.2]) },
    Figure {
        name: "slowdown p99",
        of: |result| result.slowdown.quantile(0.99).unwrap_or(0.0),
        is_gain: false,
        bounds: None,
    },
    Figure { name: "TPOT p99", of: |result| seconds(&result.per_token, 0.99), is_gain: false, bounds: None },
    Figure { name: "mean whole answer", of: PolicyResult::mean_whole, is_gain: false, bounds: Some([0.05, 0.15]) },
    Figure { name: "goodput", of: PolicyResult::goodput, is_gain: true, bounds: Some([0.05, 0.15]) },
    Figure { name: "hits", of: PolicyResult::hit_rate, is_gain: true, bounds: Some([0.1, 0.2]) },
];

/// The stock profiles that are held against all others.
const OWN: [&str; 2] = [DEFAULT, "first_token"];

/// Decides as the default does, where nothing tells which requests are one program.
const PROGRAMS: &str = "programs";

/// How much better another may be.
const NOISE: f64 = 0.05;

/// Student's t for 95% intervals, by degrees of freedom from 1.
const STUDENT: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(values: [f64; 3]) -> Cell {
        let result = |us: f64| PolicyResult { requests: 1, whole_us: us as u64, ..PolicyResult::default() };
        Cell { workload: 0, load: 80.0, results: values.map(result).to_vec() }
    }

    #[test]
    fn differences_are_taken_seed_by_seed_against_the_best() {
        let whole = &FIGURES[3];
        let (own, good, bad) = (cell([110.0, 220.0, 440.0]), cell([100.0, 200.0, 400.0]), cell([300.0, 300.0, 300.0]));
        let loss = whole.loss(&own, &[&bad, &good]).unwrap();
        assert!(
            (loss.mean - 0.1).abs() < 1e-12 && loss.half_width < 1e-9,
            "seeds differ, and the rules alike: {loss:?}"
        );
        assert_eq!(whole.loss(&own, &[]), None);
        let gain = Figure { is_gain: true, ..FIGURES[3] };
        assert!((gain.loss(&good, &[&own]).unwrap().mean - 0.1).abs() < 1e-12);
    }

    #[test]
    fn who_is_better_on_two_figures_and_worse_on_none_is_named() {
        let result = |whole: u64, good: u64, hits: u64| PolicyResult {
            policy: format!("{whole} {good} {hits}"),
            requests: 100,
            whole_us: whole,
            good,
            arrivals_us: 1_000_000,
            blocks_hit: hits,
            blocks: 100,
            ..PolicyResult::default()
        };
        let cell = |result: PolicyResult| Cell { workload: 0, load: 80.0, results: vec![result] };
        let own = cell(result(1_000, 50, 50));
        // Whole answers and goodput; whole answers alone; both, for fewer hits; both, by too little.
        let others = [result(900, 60, 50), result(900, 50, 50), result(900, 60, 40), result(960, 52, 50)].map(cell);
        assert_eq!(beaten_by(&own, &others.each_ref()), ["900 60 50"]);
    }

    #[test]
    fn an_interval_is_students() {
        let loss = Loss::of(&[0.0, 0.1, 0.2]);
        assert!((loss.mean - 0.1).abs() < 1e-12);
        // 4.30 times 0.1 / √3.
        assert!((loss.half_width - 0.2483).abs() < 1e-3, "{loss:?}");
        assert_eq!(Loss::of(&[0.3]), Loss { mean: 0.3, half_width: 0.0 });
    }
}
