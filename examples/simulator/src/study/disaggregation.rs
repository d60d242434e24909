//! Prefill/decode disaggregation against mixed pods, and the conditional workflow that decides for each request.
//!
//! The traffic is a share of long cold prompts with short answers among short warm ones with long answers, or of kinds that are named.
//! Every fleet has as many pods, and gets the same arrivals: a share of what mixed pods can take.

use std::fmt::{self, Write};

use pointsman_lab::latency::LatencyHistogram;
use pointsman_lab::trace::synthetic::Synthetic;

use super::{median, run_tasks, seconds, ttft_p50, ttft_p99};
use crate::SimulateError;
use crate::capacity::capacity;
use crate::config::SimConfig;
use crate::online_serving::simulate;
use crate::options::Options;
use crate::policy::{DEFAULT, Policy};
use crate::prepared_trace::PreparedTrace;
use crate::results::PolicyResult;

/// Runs every fleet on every kind of traffic.
pub(crate) fn run(options: &Options) -> Result<String, SimulateError> {
    let (fleets, kinds) = (fleets(options)?, kinds(options));
    let mut tasks = Vec::new();
    for &load in &options.load {
        for &kind in &kinds {
            tasks.extend(options.seeds().map(|seed| (load, kind, seed)));
        }
    }
    let work = |&(load, kind, seed): &(f64, Synthetic, u64)| run_fleets(options, &fleets, load, kind, seed);
    let results = run_tasks(&tasks, options, work)?;
    let mut text = String::new();
    let seeds = options.seeds().count();
    for (&load, runs) in options.load.iter().zip(results.chunks(seeds * kinds.len())) {
        let rows: Vec<Row<'_>> = runs.chunks(seeds).zip(&kinds).map(|(runs, &kind)| Row { kind, runs }).collect();
        // Writing to a string does not fail.
        let _ = write_tables(&mut text, options, load, &fleets, &rows);
    }
    Ok(text)
}

/// Those that were named, or shares of cold prompts where none was but the one that is there by default.
fn kinds(options: &Options) -> Vec<Synthetic> {
    match options.synthetic[..] {
        [Synthetic::Conversation] => SHARES.map(Synthetic::Mixed).to_vec(),
        _ => options.synthetic.clone(),
    }
}

/// Pods of some roles, and who routes to them.
struct Fleet {
    kind: Kind,
    policy: Policy,
    /// Pods that prefill only, the others then decode only; 0 if all do both.
    prefill: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mixed,
    Disaggregated,
    Conditional,
}

impl Fleet {
    fn name(&self, pods: usize) -> String {
        match self.kind {
            Kind::Disaggregated => format!("split {} : {}", self.prefill, pods - self.prefill),
            Kind::Mixed | Kind::Conditional => format!("`{}`", self.policy.name),
        }
    }
}

/// Mixed pods by some rules, every split there is, and pods that do both under the conditional workflow.
fn fleets(options: &Options) -> Result<Vec<Fleet>, SimulateError> {
    if options.pods < 2 {
        return Err(SimulateError::NoPods);
    }
    let one = |kind, name: &str, prefill| Policy::find(name).map(|policy| Fleet { kind, policy, prefill });
    let mut fleets = Vec::new();
    for name in MIXED {
        fleets.push(one(Kind::Mixed, name, 0)?);
    }
    for prefill in 1..options.pods {
        fleets.push(one(Kind::Disaggregated, DISAGGREGATED, prefill)?);
    }
    if options.compare.is_empty() {
        fleets.push(one(Kind::Conditional, CONDITIONAL, 0)?);
    }
    for name in &options.compare {
        fleets.push(one(Kind::Conditional, name, 0)?);
    }
    Ok(fleets)
}

/// The capacity of mixed pods, and the result of every fleet on the same arrivals.
fn run_fleets(
    options: &Options,
    fleets: &[Fleet],
    load: f64,
    kind: Synthetic,
    seed: u64,
) -> Result<(f64, Vec<PolicyResult>), SimulateError> {
    let trace = kind.trace(options.requests, seed);
    let config = SimConfig { seed, ..options.fleet(trace.block)? };
    let capacity = capacity(&trace, &config)?;
    let trace = trace.at_rate(capacity * load / 100.0, seed);
    let arrivals = PreparedTrace::new(&trace);
    let results = fleets.iter().map(|fleet| {
        let config = match fleet.prefill {
            0 => config.clone(),
            pods => config.clone().disaggregated(pods),
        };
        let result = simulate(&fleet.policy, &arrivals, &config, &mut |_| {})?;
        // Studies do not draw.
        Ok(PolicyResult { series: Vec::new(), ..result })
    });
    Ok((capacity, results.collect::<Result<_, SimulateError>>()?))
}

/// Seconds between two tokens that 99 in 100 stay within.
fn between_p99(result: &PolicyResult) -> f64 {
    seconds(&result.between, 0.99)
}

/// What decides which fleet is better: the mean time of whole answers, in seconds.
fn whole_mean(result: &PolicyResult) -> f64 {
    mean(&result.whole) / 1e6
}

/// The mean, within a bucket of the histogram.
fn mean(times: &LatencyHistogram) -> f64 {
    let mut before = 0.0;
    times.distribution().map(|(time, within)| time * (within - std::mem::replace(&mut before, within))).sum()
}

/// Traffic: what mixed pods can take of it, and what came of every fleet with every seed.
struct Row<'r> {
    kind: Synthetic,
    runs: &'r [(f64, Vec<PolicyResult>)],
}

impl Row<'_> {
    fn name(&self) -> String {
        match self.kind {
            Synthetic::Mixed(share) => format!("{:.0}% cold", share * 100.0),
            kind => kind.to_string(),
        }
    }

    fn capacity(&self) -> f64 {
        median(self.runs.iter().map(|(capacity, _)| *capacity))
    }

    /// A figure of a fleet, as the median over the seeds.
    fn of(&self, fleet: usize, figure: fn(&PolicyResult) -> f64) -> f64 {
        median(self.runs.iter().map(|(_, results)| figure(&results[fleet])))
    }

    fn measure(&self, fleet: usize) -> f64 {
        self.of(fleet, whole_mean)
    }

    /// How long first tokens and the gaps after them are at worst: the geometric mean of both, so that halving the one
    /// makes up for doubling the other.
    fn worst(&self, fleet: usize) -> f64 {
        (self.of(fleet, ttft_p99) * self.of(fleet, between_p99)).sqrt()
    }

    /// The best fleet of a kind, by its place.
    fn best(&self, fleets: &[Fleet], kind: Kind) -> usize {
        let of_kind = (0..fleets.len()).filter(|&at| fleets[at].kind == kind);
        of_kind.min_by(|&a, &b| self.measure(a).total_cmp(&self.measure(b))).unwrap_or(0)
    }
}

fn write_tables(text: &mut String, options: &Options, load: f64, fleets: &[Fleet], rows: &[Row<'_>]) -> fmt::Result {
    let pods = options.pods;
    writeln!(text, "\n### {pods} pods at {load}% of what mixed ones take\n")?;
    writeln!(text, "| traffic | fleet | TTFT p50 | p99 | between tokens | p99 | whole answer | p99 | requests/s |")?;
    writeln!(text, "|---|---|---|---|---|---|---|---|---|")?;
    for row in rows {
        let (mixed, split) = (row.best(fleets, Kind::Mixed), row.best(fleets, Kind::Disaggregated));
        let fixed = (0..fleets.len()).find(|&at| fleets[at].prefill == pods / 2).unwrap_or(split);
        let shown = |&at: &usize| fleets[at].kind != Kind::Disaggregated || at == split || at == fixed;
        let better = row.measure(mixed).min(row.measure(split));
        for at in (0..fleets.len()).filter(shown) {
            let mark = if row.measure(at) <= better * (1.0 + NEAR) { "**" } else { "" };
            writeln!(
                text,
                "| {} | {} | {:.2} s | {:.2} s | {:.0} ms | {:.0} ms | {mark}{:.2} s{mark} | {:.1} s | {:.1}{} |",
                row.name(),
                fleets[at].name(pods),
                row.of(at, ttft_p50),
                row.of(at, ttft_p99),
                row.of(at, |result| mean(&result.between) / 1e6) * 1e3,
                row.of(at, between_p99) * 1e3,
                row.measure(at),
                row.of(at, |result| seconds(&result.whole, 0.99)),
                row.of(at, PolicyResult::throughput),
                if row.of(at, |result| result.refused as f64) > 0.0 { " (some refused)" } else { "" },
            )?;
        }
    }
    write_summary(text, options, fleets, rows)
}

/// Who wins, and how far behind the better one the conditional workflow is.
fn write_summary(text: &mut String, options: &Options, fleets: &[Fleet], rows: &[Row<'_>]) -> fmt::Result {
    writeln!(
        text,
        "\n| traffic | mixed pods take | better | by | conditional | against the better | TTFT p99 | between tokens p99 | both | both against the best |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|---|---|---|---|")?;
    let (mut kept, mut all) = (0, 0);
    for row in rows {
        let (mixed, split) = (row.best(fleets, Kind::Mixed), row.best(fleets, Kind::Disaggregated));
        let (better, worse) = if row.measure(mixed) <= row.measure(split) { (mixed, split) } else { (split, mixed) };
        let against = |figure: &dyn Fn(usize) -> f64, at| figure(at) / figure(better).max(f64::MIN_POSITIVE);
        let of = |figure: fn(&PolicyResult) -> f64| move |at| row.of(at, figure);
        let others = (0..fleets.len()).filter(|&at| fleets[at].kind != Kind::Conditional);
        let smoothest = others.map(|at| row.worst(at)).fold(f64::MAX, f64::min);
        for at in (0..fleets.len()).filter(|&at| fleets[at].kind == Kind::Conditional) {
            let behind = against(&of(whole_mean), at);
            all += 1;
            kept += usize::from(behind <= 1.0 + NEAR);
            writeln!(
                text,
                "| {} | {:.1}/s | {} | {:.1}% | {} | {behind:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
                row.name(),
                row.capacity(),
                fleets[better].name(options.pods),
                (against(&of(whole_mean), worse) - 1.0) * 100.0,
                fleets[at].name(options.pods),
                against(&of(ttft_p99), at),
                against(&of(between_p99), at),
                against(&|at| row.worst(at), at),
                row.worst(at) / smoothest.max(f64::MIN_POSITIVE),
            )?;
        }
    }
    writeln!(text, "\nWithin {:.0}% of the better one in {kept} of {all} cells.", NEAR * 100.0)
}

/// How far behind the better one is as good.
const NEAR: f64 = 0.05;

/// Shares of long cold prompts.
const SHARES: [f64; 7] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0];

/// Rules for mixed pods, the split's, and the conditional one.
const MIXED: [&str; 3] = [DEFAULT, "lmetric", "cache_aware"];
const DISAGGREGATED: &str = "prefill_decode";
const CONDITIONAL: &str = "prefill_decode_conditional";
