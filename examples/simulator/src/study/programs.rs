//! Programs: agents' conversations whose contexts together are more than the fleet's cache, or less.

use std::fmt::{self, Write};

use pointsman_lab::trace::Trace;

use super::{median, run_tasks, seconds};
use crate::SimulateError;
use crate::config::SimConfig;
use crate::online_serving::simulate;
use crate::options::Options;
use crate::policy::DEFAULT;
use crate::prepared_trace::PreparedTrace;
use crate::results::PolicyResult;

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<String, SimulateError> {
    let policies = options.policies_or([DEFAULT, "session_sticky"])?;
    let flow = options.flow_document()?;
    let mut text = String::new();
    for (name, trace) in options.traffic()? {
        let study = ProgramStudy { name: &name, trace: &trace, options };
        let mut variants = Vec::new();
        for policy in &policies {
            variants.push((policy.clone(), None));
            if flow.is_some() {
                variants.push((policy.clone(), flow.clone()));
            }
        }
        let tasks: Vec<_> = options
            .contexts
            .iter()
            .flat_map(|&ratio| (0..variants.len()).map(move |variant| (ratio, variant)))
            .flat_map(|(ratio, variant)| options.seeds().map(move |seed| (ratio, variant, seed)))
            .collect();
        let results = run_tasks(&tasks, options, |&(ratio, variant, seed)| {
            let (policy, flow) = &variants[variant];
            let (trace, config) = study.at(ratio, seed)?;
            let config = SimConfig { flow: flow.clone(), ..config };
            let mut result = simulate(policy, &PreparedTrace::new(&trace), &config, &mut |_| {})?;
            result.series.clear();
            if flow.is_some() {
                result.policy.push_str(" + flow");
            }
            Ok(result)
        })?;
        // Writing to a string does not fail.
        let _ = study.write(&mut text, variants.len(), &results);
    }
    Ok(text)
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
        let fleet = Options { kv_tokens: (tokens as usize).max(longest + 2 * trace.block), ..options.clone() };
        Ok((trace.clone(), SimConfig { seed, ..fleet.fleet(trace.block)? }))
    }

    fn population(&self) -> usize {
        self.options.programs * self.options.pods
    }

    fn write(&self, text: &mut String, variants: usize, results: &[PolicyResult]) -> fmt::Result {
        let (pods, programs) = (self.options.pods, self.population());
        writeln!(text, "\n### {}: {programs} programs at a time on {pods} pods\n", self.name)?;
        writeln!(text, "| contexts / cache | rule | mean time | p99 | against the first | TTFT p99 | answers/s | hits | refused |")?;
        writeln!(text, "|---|---|{}", "---:|".repeat(7))?;
        let seeds = self.options.seeds().count();
        for (&ratio, cells) in self.options.contexts.iter().zip(results.chunks(seeds * variants)) {
            let of = |cell: &[PolicyResult], figure: &dyn Fn(&PolicyResult) -> f64| median(cell.iter().map(figure));
            let mut first = None;
            for cell in cells.chunks(seeds) {
                let mean = of(cell, &|result| result.mean_program() / 1e6);
                let best = *first.get_or_insert(mean);
                writeln!(
                    text,
                    "| {ratio} | `{}` | {mean:.0} s | {:.0} s | {:.2} | {:.2} s | {:.2} | {:.1}% | {:.0} |",
                    cell.first().map_or("", |result| &result.policy),
                    of(cell, &|result| seconds(&result.program, 0.99)),
                    best / mean.max(f64::MIN_POSITIVE),
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
