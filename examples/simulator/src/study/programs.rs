//! Programs: agents' conversations whose contexts together are more than the fleet's cache, or less.
//!
//! So many programs are under way at a time, whatever the rule: the mean time of a program is then a figure of throughput too. Caches are made as
//! large as each ratio asks for. Held against the default and against sessions that stay on their pods; and against the same rule with
//! *foresight*, a greedy plan that is told when each program will be back, and which turn is its last.

mod recognition;

use std::fmt::{self, Write};

use pointsman_lab::trace::Trace;
use routing_plugins::flow::FlowDocument;

use self::recognition::Recognition;
use super::{median, run_tasks, seconds};
use crate::SimulateError;
use crate::config::SimConfig;
use crate::online_serving::simulate;
use crate::options::Options;
use crate::policy::{DEFAULT, Policy};
use crate::prepared_trace::PreparedTrace;
use crate::results::PolicyResult;

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<String, SimulateError> {
    let variants = variants(options)?;
    let mut text = String::new();
    for (name, trace) in options.traffic()? {
        let study = ProgramStudy { name: &name, trace: &trace, options };
        let tasks: Vec<_> = options
            .contexts
            .iter()
            .flat_map(|&ratio| variants.iter().map(move |variant| (ratio, variant)))
            .flat_map(|(ratio, variant)| options.seeds().map(move |seed| (ratio, variant, seed)))
            .collect();
        let results = run_tasks(&tasks, options, |(ratio, variant, seed)| variant.simulate(study.at(*ratio, *seed)?))?;
        // Writing to a string does not fail.
        let _ = study.write(&mut text, &variants, &results);
        let _ = write_recognition(
            &mut text,
            &Recognition::of(&trace.clone().with_population(study.population(), options.seed))?,
        );
    }
    Ok(text)
}

/// A rule, with flow control or without.
struct Variant {
    name: String,
    policy: Policy,
    flow: Option<FlowDocument>,
    foresight: bool,
}

/// Those that are compared: the default, sessions that stay where they are, and programs recognized by their prompts alone, by the session's
/// name, and with foresight; or policies that are named, with flow control if that is given.
fn variants(options: &Options) -> Result<Vec<Variant>, SimulateError> {
    let flow = match options.flow_document()? {
        Some(document) => document,
        None => serde_yaml_ng::from_str(DOCUMENT).map_err(|error| SimulateError::flag("flow", error.to_string()))?,
    };
    let plain = |policy: Policy| Variant { name: policy.name.clone(), policy, flow: None, foresight: false };
    let waits = |name: &str, policy: Policy, foresight| Variant {
        name: name.to_owned(),
        policy,
        flow: Some(flow.clone()),
        foresight,
    };
    if options.compare.is_empty() {
        let programs = Policy::find("programs")?;
        return Ok(vec![
            plain(Policy::find(DEFAULT)?),
            plain(Policy::find("session_sticky")?),
            waits("programs, by prompts", programs.by_prompts(), false),
            waits("programs, by name", programs.clone(), false),
            waits("programs, with foresight", programs, true),
        ]);
    }
    let mut variants = Vec::new();
    for policy in options.policies_or([])? {
        variants.push(plain(policy.clone()));
        if options.flow.is_some() {
            variants.push(waits(&format!("{}, with flow control", policy.name), policy, false));
        }
    }
    Ok(variants)
}

impl Variant {
    fn simulate(&self, (trace, config): (Trace, SimConfig)) -> Result<PolicyResult, SimulateError> {
        let config = SimConfig { flow: self.flow.clone(), foresight: self.foresight, ..config };
        let mut result = simulate(&self.policy, &PreparedTrace::new(&trace), &config, &mut |_| {})?;
        result.series.clear();
        Ok(result)
    }
}

struct ProgramStudy<'s> {
    name: &'s str,
    trace: &'s Trace,
    options: &'s Options,
}

impl ProgramStudy<'_> {
    /// The programs of a seed, and pods whose caches hold so much of their contexts.
    fn at(&self, ratio: f64, seed: u64) -> Result<(Trace, SimConfig), SimulateError> {
        let options = self.options;
        let trace = self.trace.clone().with_population(self.population(), seed);
        let tokens = options.programs as f64 * trace.mean_context() / ratio;
        let longest = trace.requests.iter().map(|one| one.input as usize + one.output as usize).max().unwrap_or(0);
        let fleet = Options { kv_tokens: vec![(tokens as usize).max(longest + 2 * trace.block)], ..options.clone() };
        let config = SimConfig { seed, ..fleet.fleet(trace.block)? };
        Ok((trace, config))
    }

    fn population(&self) -> usize {
        self.options.programs * self.options.pods
    }

    fn write(&self, text: &mut String, variants: &[Variant], results: &[PolicyResult]) -> fmt::Result {
        let (pods, programs) = (self.options.pods, self.population());
        writeln!(text, "\n### {}: {programs} programs at a time on {pods} pods\n", self.name)?;
        writeln!(
            text,
            "| contexts / cache | rule | mean time | p99 | times as fast | TTFT p50 | p99 | answers/s | hits | refused |"
        )?;
        writeln!(text, "|---|---|{}", "---:|".repeat(8))?;
        let seeds = self.options.seeds().count();
        for (&ratio, cells) in self.options.contexts.iter().zip(results.chunks(seeds * variants.len())) {
            let of = |cell: &[PolicyResult], figure: &dyn Fn(&PolicyResult) -> f64| median(cell.iter().map(figure));
            let mut first = None;
            for (variant, cell) in variants.iter().zip(cells.chunks(seeds)) {
                let mean = of(cell, &|result| result.mean_program() / 1e6);
                let default = *first.get_or_insert(mean);
                writeln!(
                    text,
                    "| {ratio} | {} | {mean:.0} s | {:.0} s | {:.2} | {:.2} s | {:.1} s | {:.2} | {:.1}% | {:.0} |",
                    variant.name,
                    of(cell, &|result| seconds(&result.program, 0.99)),
                    default / mean.max(f64::MIN_POSITIVE),
                    of(cell, &|result| seconds(&result.ttft, 0.5)),
                    of(cell, &|result| seconds(&result.ttft, 0.99)),
                    of(cell, &PolicyResult::throughput),
                    of(cell, &PolicyResult::hit_rate) * 100.0,
                    of(cell, &|result| result.refused as f64),
                )?;
            }
        }
        Ok(())
    }
}

fn write_recognition(text: &mut String, told: &Recognition) -> fmt::Result {
    let Recognition { turns, right, extends, follows, whole, sessions, programs } = *told;
    let percent = |part: usize| 100.0 * part as f64 / turns.max(1) as f64;
    let followed = 100.0 * follows as f64 / extends.max(1) as f64;
    writeln!(
        text,
        "\nBy prompts alone, {:.1}% of {turns} turns are put to a program of their own session, and {:.1}% to the one that has most of it: {sessions} \
         sessions are {programs} programs. Of {extends} turns that go on with an earlier one and its answer, {followed:.1}% are put to its program.",
        percent(right),
        percent(whole),
    )
}

const DOCUMENT: &str = include_str!("programs.yaml");
