//! Policies side by side: what `simulate` does unless a study is asked for.
//!
//! | module | idea |
//! |---|---|
//! | `pooled` | runs with several seeds as one |
//! | `sweep` | one weight or parameter of a policy, varied |
//!
//! For each traffic the fleet's capacity is found, and for each load every policy is run on the same arrivals. The rule that
//! must never break: all policies of a section are asked about the same requests, each with the same chance and at the same
//! time (in a closed loop, the same time after the answer that it follows), and how many of them run at once changes no figure
//! but the router's own time.

mod pooled;
mod sweep;

use std::collections::HashSet;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use pointsman_lab::plot::axis::Unit;
use pointsman_lab::trace::Trace;

use crate::SimulateError;
use crate::capacity::{Filled, fill};
use crate::config::SimConfig;
use crate::online::{Load, simulate};
use crate::options::{Options, told_apart};
use crate::outcome::Outcome;
use crate::policy::{DEFAULT, Policy};
use crate::pool::run_all;
use crate::report::{Report, RunSettings, Sweep, table};
use pointsman_example_common::progress::Progress;
use pooled::pooled;
use sweep::Sweeping;

/// Everything that was compared: a section for each traffic under each load.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// The sections, in the order that traffic and loads were named.
    pub sections: Vec<Section>,
}

/// Policies on one traffic under one load.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Section {
    /// A short name that none of the others has.
    pub name: String,
    /// What came of it.
    pub report: Report,
    /// What whoever reads the figures should know.
    pub notes: Vec<String>,
}

/// Traffic for a fleet.
struct Site {
    name: String,
    config: SimConfig,
    filled: Filled,
}

/// Runs what the options ask for; how far it is, is shown on standard error.
///
/// # Errors
///
/// When an option makes no sense, a file cannot be read, or a policy does not build.
pub fn compare(options: &Options) -> Result<Comparison, SimulateError> {
    options.check()?;
    let sweeping = options.sweep.as_deref().map(Sweeping::read).transpose()?;
    let policies = policies(options, sweeping.is_some())?;
    let swept = sweeping.iter().flat_map(|sweeping| &sweeping.points).map(|(_, policy)| policy);
    let all: Vec<&Policy> = policies.iter().chain(swept).collect();
    all.iter().try_for_each(|policy| policy.check())?;
    let traffic = options.traffic()?;
    for (_, trace) in &traffic {
        options.fleet(trace.block)?;
    }
    let sites = sites(options, traffic)?;
    let loads: Vec<Option<f64>> = match options.rate {
        Some(_) => vec![None],
        None => options.load.iter().copied().map(Some).collect(),
    };
    let (mut sections, mut names) = (Vec::new(), HashSet::new());
    for site in &sites {
        for &load in &loads {
            let outcomes = run(site, load, &all, options)?;
            let mut section = section(site, load, outcomes, &policies, sweeping.as_ref(), options);
            section.name = told_apart(&mut names, section.name);
            sections.push(section);
        }
    }
    Ok(Comparison { sections })
}

/// What `--list` says.
#[must_use]
pub fn list() -> String {
    let width = Policy::names().map(str::len).max().unwrap_or(0);
    let line = |(name, about): (&str, String)| {
        let mark = if name == DEFAULT { " (the default of gateways)" } else { "" };
        format!("{name:<width$}  {about}{mark}\n")
    };
    Policy::described().map(line).collect()
}

impl Comparison {
    /// Writes every section's report: into the folder itself if there is one, else into one below it for each.
    ///
    /// # Errors
    ///
    /// When a folder cannot be made or a file cannot be written.
    pub fn write_to(&self, folder: &Path) -> Result<String, SimulateError> {
        let place = |section: &Section| -> PathBuf {
            if self.sections.len() == 1 { folder.to_owned() } else { folder.join(&section.name) }
        };
        let written = self.sections.iter().map(|section| section.report.write_to(&place(section)));
        let pages: Result<Vec<String>, _> = written
            .map(|written| {
                let written = written?;
                let page = written.files.first().map_or_else(String::new, |page| page.display().to_string());
                Ok::<_, SimulateError>(format!("wrote {page} and {} more\n", written.files.len().saturating_sub(1)))
            })
            .collect();
        Ok(pages?.concat())
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
        if !self.report.outcomes.is_empty() {
            writeln!(f, "{}", table::text(&self.report.outcomes))?;
        }
        if let Some(sweep) = &self.report.sweep {
            writeln!(f, "{}", table::text(&sweep.rows()))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

/// Those asked for, or all that suit the fleet; none where only a sweep is asked for.
fn policies(options: &Options, sweeping: bool) -> Result<Vec<Policy>, SimulateError> {
    if !options.compare.is_empty() {
        return options.compare.iter().map(|name| Policy::find(name.trim())).collect();
    }
    let suits = |name: &&str| Policy::is_for_split(name) == (options.prefill_pods > 0);
    let names = Policy::names().filter(suits).filter(|_| !sweeping);
    names.map(Policy::find).collect()
}

/// Finds each traffic's capacity, unless a rate is named.
fn sites(options: &Options, traffic: Vec<(String, Trace)>) -> Result<Vec<Site>, SimulateError> {
    let bar = Mutex::new(Progress::on_stderr(traffic.len() * PROBES));
    let probes = AtomicU64::new(0);
    let total = traffic.len() * PROBES;
    let find = |(name, trace): &(String, Trace)| {
        let config = options.fleet(trace.block)?;
        let probed = &mut || {
            let done = probes.fetch_add(1, Ordering::Relaxed) as usize + 1;
            bar.lock().show(done.min(total - 1), "looking for what the fleet takes");
        };
        let filled = match options.rate {
            Some(_) => Filled { trace: trace.clone(), copies: 1, capacity: 0.0 },
            None => fill(trace, &config, probed)?,
        };
        Ok(Site { name: name.clone(), config, filled })
    };
    let found = run_all(&traffic, options.at_once(), find, |_| {});
    if options.rate.is_none() {
        bar.lock().show(total, "found what the fleet takes");
        bar.lock().end();
    }
    found.into_iter().collect()
}

/// Runs all policies with all seeds; what came of each, the seeds pooled.
fn run(site: &Site, load: Option<f64>, policies: &[&Policy], options: &Options) -> Result<Vec<Outcome>, SimulateError> {
    let rate = rate(site, load, options);
    let arrive = |seed: u64| {
        let trace = site.filled.trace.clone();
        let trace = if rate > 0.0 { trace.at_rate(rate, seed) } else { trace };
        (trace, SimConfig { seed, ..site.config.clone() })
    };
    let arrivals: Vec<(Trace, SimConfig)> = (0..options.seeds).map(|more| arrive(options.seed + more)).collect();
    let loads: Vec<(Load<'_>, &SimConfig)> =
        arrivals.iter().map(|(trace, config)| (Load::new(trace), config)).collect();
    let tasks: Vec<(&Policy, &Load<'_>, &SimConfig)> =
        policies.iter().flat_map(|policy| loads.iter().map(move |(load, config)| (*policy, load, *config))).collect();
    let requests = site.filled.trace.requests.len();
    let bar = Mutex::new(Progress::on_stderr(requests * tasks.len()));
    let (answered, began) = (AtomicU64::new(0), Instant::now());
    let work = |&(policy, load, config): &(&Policy, &Load<'_>, &SimConfig)| {
        let mut seen = 0;
        let show = |more: u64| {
            let done = answered.fetch_add(more, Ordering::Relaxed) + more;
            bar.lock().show(done as usize, &policy.name);
        };
        let outcome = simulate(policy, load, config, &mut |now| {
            show(now - seen);
            seen = now;
        });
        show(requests as u64 - seen);
        outcome
    };
    let results = run_all(&tasks, options.at_once(), work, |_| {});
    bar.lock().end();
    let took = began.elapsed().as_secs_f64();
    let all = (requests * tasks.len()) as f64;
    eprintln!("{all} requests in {took:.1} s, {:.0} a second", all / took.max(1e-9));
    let mut outcomes = results.into_iter();
    let mut of_each = || outcomes.by_ref().take(options.seeds as usize).collect::<Result<Vec<_>, _>>().map(pooled);
    policies.iter().map(|_| of_each()).collect()
}

/// Requests a second; 0 for the traffic's own times.
fn rate(site: &Site, load: Option<f64>, options: &Options) -> f64 {
    load.map_or(options.rate.unwrap_or(0.0), |load| site.filled.capacity * load / 100.0)
}

fn section(
    site: &Site,
    load: Option<f64>,
    mut outcomes: Vec<Outcome>,
    policies: &[Policy],
    sweeping: Option<&Sweeping>,
    options: &Options,
) -> Section {
    let swept = outcomes.split_off(policies.len());
    let (pods, rate) = (site.config.pods.len(), rate(site, load, options));
    let capacity = site.filled.capacity;
    let (at, name) = match load {
        Some(load) => (format!("{load}% of what they take"), format!("{}-{load}", site.name)),
        None if rate > 0.0 => (format!("{rate} requests a second"), site.name.clone()),
        None => ("its own times".to_owned(), site.name.clone()),
    };
    let title = format!("{} on {pods} pods at {at}", site.name);
    let mut settings = RunSettings::new(title, options.command())
        .with("traffic", &site.name)
        .with("requests", site.filled.trace.requests.len())
        .with("pods", pods);
    if options.prefill_pods > 0 {
        settings = settings.with("of them prefill only", options.prefill_pods);
    }
    settings = settings.with("KV memory a pod", format!("{} tokens", options.kv_tokens));
    if options.host_tokens > 0 {
        settings = settings.with("host memory a pod", format!("{} tokens", options.host_tokens));
    }
    if load.is_some() {
        settings = settings.with("capacity", format!("{capacity:.2} requests/s"));
    }
    settings = settings
        .with("rate", if rate > 0.0 { format!("{rate:.2} requests/s") } else { "the trace's own".to_owned() })
        .with("events", format!("{} ms late, {}% lost", options.delay, options.loss))
        .with("seeds", seeds(options));
    let mut report = Report::new(settings, outcomes);
    if let Some(sweeping) = sweeping {
        let mut sweep = Sweep::new(&sweeping.name, Unit::Plain);
        for ((value, _), outcome) in sweeping.points.iter().zip(swept) {
            sweep.add(*value, Outcome { policy: sweeping.policy.clone(), ..outcome });
        }
        report = report.with_sweep(sweep);
    }
    Section { name: name.replace([':', '/', ' '], "-"), report, notes: notes(site, load) }
}

fn seeds(options: &Options) -> String {
    match options.seeds {
        1 => options.seed.to_string(),
        more => format!("{} to {}", options.seed, options.seed + more - 1),
    }
}

fn notes(site: &Site, load: Option<f64>) -> Vec<String> {
    let Filled { trace, copies, capacity } = &site.filled;
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
    let room = site.config.pods.iter().map(|(engine, _)| engine.block * engine.blocks).max().unwrap_or(0);
    let long = trace.requests.iter().filter(|one| (one.input + one.output) as usize > room).count();
    if long > 0 {
        notes.push(format!("{long} of {requests} requests are longer than a pod's {room} tokens, and were refused."));
    }
    notes
}

/// Runs that the search for a capacity takes, about.
const PROBES: usize = 20;
