//! Policy comparison: all policies on the same arrivals, for each traffic and load.
//!
//! | module | content |
//! |---|---|
//! | `merge_seeds` | results of several seeds merged |
//! | `sweep` | parameter sweep |
//!
//! Invariant: all policies of a section get the same requests, with the same seeds, at the same times (in a closed loop, the same
//! think time after the answer before); parallelism changes no metric but the measured decision time.

mod merge_seeds;
mod sweep;

use std::collections::HashSet;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use pointsman_lab::format::Unit;
use pointsman_lab::trace::Trace;

use crate::SimulateError;
use crate::capacity::SaturatingTrace;
use crate::config::SimConfig;
use crate::online_serving::simulate;
use crate::options::{Options, unique_name};
use crate::parallel::parallel_map;
use crate::policy::{DEFAULT, Policy};
use crate::prepared_trace::PreparedTrace;
use crate::report::{ComparisonReport, RunSettings, SweepResult, table};
use crate::results::PolicyResult;
use crate::workload::Workload;
use merge_seeds::merge_seeds;
use pointsman_example_common::progress::Progress;
use sweep::ParameterSweep;

/// A section for each traffic under each load.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    /// The sections, in the order that traffic and loads were named.
    pub(crate) sections: Vec<Section>,
}

/// Policies on one traffic under one load.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// A short name that none of the others has.
    pub(crate) name: String,
    /// Its report.
    pub(crate) report: ComparisonReport,
    /// Notes for the reader.
    pub(crate) notes: Vec<String>,
}

/// Runs the comparison, with progress on standard error.
pub(crate) fn compare(options: &Options) -> Result<Comparison, SimulateError> {
    options.check()?;
    let sweep = options.sweep.as_deref().map(ParameterSweep::read).transpose()?;
    let policies = policies(options, sweep.is_some())?;
    let swept = sweep.iter().flat_map(|sweep| &sweep.points).map(|(_, policy)| policy);
    let all: Vec<&Policy> = policies.iter().chain(swept).collect();
    all.iter().try_for_each(|policy| policy.check())?;
    let workloads = Workload::all(options)?;
    let loads: Vec<Option<f64>> = match options.rate {
        Some(_) => vec![None],
        None => options.load.iter().copied().map(Some).collect(),
    };
    let (mut sections, mut names) = (Vec::new(), HashSet::new());
    for workload in &workloads {
        for &load in &loads {
            let results = run(workload, load, &all, options)?;
            let mut section = section(workload, load, results, &policies, sweep.as_ref(), options);
            section.name = unique_name(&mut names, section.name);
            sections.push(section);
        }
    }
    Ok(Comparison { sections })
}

/// The text of `--list`.
pub(crate) fn list() -> String {
    let width = Policy::names().map(str::len).max().unwrap_or(0);
    let line = |(name, about): (&str, String)| {
        let mark = if name == DEFAULT { " (the default of gateways)" } else { "" };
        format!("{name:<width$}  {about}{mark}\n")
    };
    Policy::described().map(line).collect()
}

impl Comparison {
    /// Writes every section's report: into the folder itself if there is one, else into one below it for each.
    pub(crate) fn write_to(&self, folder: &Path) -> Result<String, SimulateError> {
        let place = |section: &Section| -> PathBuf {
            if self.sections.len() == 1 { folder.to_owned() } else { folder.join(&section.name) }
        };
        let line = |section: &Section| {
            let written = section.report.write_to(&place(section))?;
            let page = written.first().map_or_else(String::new, |page| page.display().to_string());
            Ok(format!("wrote {page} and {} more\n", written.len().saturating_sub(1)))
        };
        self.sections.iter().map(line).collect()
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sections.iter().try_for_each(|section| write!(f, "{section}"))
    }
}

impl Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}\n", self.report.settings.title)?;
        if !self.report.results.is_empty() {
            writeln!(f, "{}", table::text(&self.report.results))?;
        }
        if let Some(sweep) = &self.report.sweep {
            writeln!(f, "{}", table::text(&sweep.rows()))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

/// The named policies, or all that fit the fleet; none if there is only a sweep.
fn policies(options: &Options, sweep: bool) -> Result<Vec<Policy>, SimulateError> {
    let suits = |name: &&str| Policy::is_disaggregated(name) == (options.prefill_pods > 0);
    options.policies_or(Policy::names().filter(suits).filter(|_| !sweep))
}

/// Runs all policies with all seeds; the results of each policy, its seeds merged.
fn run(
    workload: &Workload,
    load: Option<f64>,
    policies: &[&Policy],
    options: &Options,
) -> Result<Vec<PolicyResult>, SimulateError> {
    let rate = rate(workload, load, options);
    let arrivals: Vec<(Trace, SimConfig)> = options.seeds().map(|seed| workload.at_rate(rate, seed)).collect();
    let loads: Vec<(PreparedTrace<'_>, &SimConfig)> =
        arrivals.iter().map(|(trace, config)| (PreparedTrace::new(trace), config)).collect();
    let tasks: Vec<(&Policy, &PreparedTrace<'_>, &SimConfig)> =
        policies.iter().flat_map(|policy| loads.iter().map(move |(load, config)| (*policy, load, *config))).collect();
    let requests = workload.traffic.trace.requests.len();
    let bar = Mutex::new(Progress::on_stderr(requests * tasks.len()));
    let (answered, began) = (AtomicU64::new(0), Instant::now());
    let work = |&(policy, load, config): &(&Policy, &PreparedTrace<'_>, &SimConfig)| {
        let mut seen = 0;
        let show = |more: u64| {
            let done = answered.fetch_add(more, Ordering::Relaxed) + more;
            bar.lock().show(done as usize, &policy.name);
        };
        let result = simulate(policy, load, config, &mut |now| {
            show(now - seen);
            seen = now;
        });
        show(requests as u64 - seen);
        result
    };
    let results = parallel_map(&tasks, options.parallelism(), work);
    bar.lock().end();
    let took = began.elapsed().as_secs_f64();
    let all = (requests * tasks.len()) as f64;
    eprintln!("{all} requests in {took:.1} s, {:.0} a second", all / took.max(1e-9));
    let mut results = results.into_iter();
    let mut of_each = || results.by_ref().take(options.seeds as usize).collect::<Result<Vec<_>, _>>().map(merge_seeds);
    policies.iter().map(|_| of_each()).collect()
}

/// Requests a second; 0 for the traffic's own times.
fn rate(workload: &Workload, load: Option<f64>, options: &Options) -> f64 {
    load.map_or(options.rate.unwrap_or(0.0), |load| workload.traffic.capacity * load / 100.0)
}

fn section(
    workload: &Workload,
    load: Option<f64>,
    mut results: Vec<PolicyResult>,
    policies: &[Policy],
    sweep: Option<&ParameterSweep>,
    options: &Options,
) -> Section {
    let swept = results.split_off(policies.len());
    let (pods, rate) = (workload.config.pods.len(), rate(workload, load, options));
    let (at, name) = match load {
        Some(load) => (format!("{load}% of what they take"), format!("{}-{load}", workload.name)),
        None if rate > 0.0 => (format!("{rate} requests a second"), workload.name.clone()),
        None => ("its own times".to_owned(), workload.name.clone()),
    };
    let title = format!("{} on {pods} pods at {at}", workload.name);
    let values = [
        Some(("traffic", workload.name.clone())),
        Some(("requests", workload.traffic.trace.requests.len().to_string())),
        Some(("pods", pods.to_string())),
        (options.prefill_pods > 0).then(|| ("of them prefill only", options.prefill_pods.to_string())),
        Some(("KV memory a pod", format!("{:?} tokens", options.kv_tokens).replace(['[', ']'], ""))),
        options.churn.map(|seconds| ("a pod is replaced", format!("every {seconds} s"))),
        (options.host_tokens > 0).then(|| ("host memory a pod", format!("{} tokens", options.host_tokens))),
        load.map(|_| ("capacity", format!("{:.2} requests/s", workload.traffic.capacity))),
        Some(("rate", if rate > 0.0 { format!("{rate:.2} requests/s") } else { "the trace's own".to_owned() })),
        Some(("events", format!("{} ms late, {}% lost", options.event_delay, options.event_loss))),
        Some(("seeds", seeds(options))),
    ];
    let settings = RunSettings { title, command: options.command(), values: values.into_iter().flatten().collect() };
    let sweep = sweep.map(|sweep| {
        let named = |result| PolicyResult { policy: sweep.policy.clone(), ..result };
        let points = sweep.points.iter().zip(swept).map(|((value, _), result)| (*value, named(result))).collect();
        SweepResult { name: sweep.name.clone(), unit: Unit::Plain, points }
    });
    let report = ComparisonReport { settings, results, sweep };
    Section { name: name.replace([':', '/', ' '], "-"), report, notes: notes(workload, load) }
}

fn seeds(options: &Options) -> String {
    match options.seeds {
        1 => options.seed.to_string(),
        more => format!("{} to {}", options.seed, options.seed + more - 1),
    }
}

fn notes(workload: &Workload, load: Option<f64>) -> Vec<String> {
    let SaturatingTrace { trace, copies, capacity } = &workload.traffic;
    let requests = trace.requests.len();
    let mut notes = Vec::new();
    if load.is_some() {
        notes.push(format!("The fleet takes {capacity:.2} of these requests a second."));
    }
    if *copies > 1 {
        let more = "since it was over before the fleet was busy";
        notes.push(format!(
            "The traffic is there {copies} times with other conversations, {requests} requests, {more}."
        ));
    }
    if trace.skipped > 0 {
        notes.push(format!("{} rows of the trace have no tokens and were left out.", trace.skipped));
    }
    let room = workload.config.pods.iter().map(|(engine, _)| engine.block_tokens * engine.blocks).min().unwrap_or(0);
    let long = trace.requests.iter().filter(|one| (one.input + one.output) as usize > room).count();
    if long > 0 {
        notes.push(format!(
            "{long} of {requests} requests are longer than {room} tokens: a pod of that size refuses them."
        ));
    }
    notes
}
