//! Flow control: overload, a noisy tenant beside quiet ones, and priorities, with it and without.

use std::fmt::{self, Write};
use std::sync::Arc;

use pointsman_lab::trace::Trace;
use routing_plugins::flow::FlowDocument;

use super::{median, run_tasks, seconds, ttft_p99};
use crate::SimulateError;
use crate::config::SimConfig;
use crate::flow_control::{Class, Classes};
use crate::online_serving::simulate;
use crate::options::Options;
use crate::policy::{DEFAULT, Policy};
use crate::prepared_trace::PreparedTrace;
use crate::results::{ClassResult, PolicyResult};
use crate::workload::Workload;

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<String, SimulateError> {
    let document = match options.flow_document()? {
        Some(document) => document,
        None => serde_yaml_ng::from_str(DOCUMENT).map_err(|error| SimulateError::flag("flow", error.to_string()))?,
    };
    let workloads = Workload::all(options)?;
    let policies = options.policies_or([DEFAULT])?;
    let mut text = String::new();
    for policy in &policies {
        for workload in &workloads {
            let study = FlowStudy { workload, policy, document: &document, options };
            // Writing to a string does not fail.
            let _ = study.overload(&mut text, &study.run_overload()?);
            let _ = study.tenants(&mut text, &study.run_classes(&tenants(), TENANT_LOAD, &|class| class > 0)?);
            let _ = study.priorities(&mut text, &study.run_classes(&priorities(), PRIORITY_LOAD, &|class| class == 0)?);
        }
    }
    Ok(text)
}

struct FlowStudy<'s> {
    workload: &'s Workload,
    policy: &'s Policy,
    document: &'s FlowDocument,
    options: &'s Options,
}

/// The results of each seed, by what they are of.
struct ClassRuns {
    /// With the classes that are watched alone, of the same traffic.
    alone: Vec<PolicyResult>,
    without: Vec<PolicyResult>,
    with: Vec<PolicyResult>,
}

impl FlowStudy<'_> {
    /// Each load, without flow control and with it.
    fn run_overload(&self) -> Result<Vec<[Vec<PolicyResult>; 2]>, SimulateError> {
        let tasks: Vec<_> = OVERLOADS
            .iter()
            .flat_map(|&load| [false, true].map(|flow| (load, flow)))
            .flat_map(|(load, flow)| self.options.seeds().map(move |seed| (load, flow, seed)))
            .collect();
        let results = run_tasks(&tasks, self.options, |&(load, flow, seed)| {
            self.simulate(self.workload.at_load(load, seed), flow, &Classes::default())
        })?;
        let seeds = self.options.seeds().count();
        let mut cells = results.chunks(seeds).map(<[_]>::to_vec);
        Ok(std::iter::from_fn(|| Some([cells.next()?, cells.next()?])).collect())
    }

    /// Classes at a load: those that are watched alone, and all of them without flow control and with it.
    fn run_classes(
        &self,
        classes: &Classes,
        load: f64,
        watched: &(dyn Fn(usize) -> bool + Sync),
    ) -> Result<ClassRuns, SimulateError> {
        let tasks: Vec<_> = (0..3).flat_map(|kind| self.options.seeds().map(move |seed| (kind, seed))).collect();
        let results = run_tasks(&tasks, self.options, |&(kind, seed)| {
            let (mut trace, config) = self.workload.at_load(load, seed);
            if kind == 0 {
                let requests = trace.requests.into_iter().filter(|request| watched(classes.of(request.session)));
                trace = Trace::new(trace.block, requests.collect());
            }
            self.simulate((trace, config), kind == 2, classes)
        })?;
        let mut kinds = results.chunks(self.options.seeds().count()).map(<[_]>::to_vec);
        let mut next = || kinds.next().unwrap_or_default();
        Ok(ClassRuns { alone: next(), without: next(), with: next() })
    }

    fn simulate(
        &self,
        (trace, config): (Trace, SimConfig),
        flow: bool,
        classes: &Classes,
    ) -> Result<PolicyResult, SimulateError> {
        let flow = flow.then(|| self.document.clone());
        let config = SimConfig { flow, classes: classes.clone(), ..config };
        let mut result = simulate(self.policy, &PreparedTrace::new(&trace), &config, &mut |_| {})?;
        result.series.clear();
        Ok(result)
    }

    fn title(&self) -> String {
        let (capacity, pods) = (self.workload.traffic.capacity, self.workload.config.pods.len());
        format!("{}, `{}`: {pods} pods take {capacity:.1} requests a second", self.workload.name, self.policy.name)
    }

    fn overload(&self, text: &mut String, cells: &[[Vec<PolicyResult>; 2]]) -> fmt::Result {
        writeln!(text, "\n### Overload, {}\n", self.title())?;
        writeln!(
            text,
            "| load | flow control | goodput | of 100% | TTFT p50 | p99 | TPOT p99 | answers/s | shed | hits |"
        )?;
        writeln!(text, "|---|---|{}", "---:|".repeat(8))?;
        let of = |cell: &[PolicyResult], figure: &dyn Fn(&PolicyResult) -> f64| median(cell.iter().map(figure));
        // Of what was served: what is shed hits nothing.
        let block = self.workload.traffic.trace.block as u64;
        let full = OVERLOADS.iter().zip(cells).find(|(load, _)| **load == 100.0);
        for (load, pair) in OVERLOADS.iter().zip(cells) {
            for (at, name) in ["no", "yes"].into_iter().enumerate() {
                let cell = &pair[at];
                let goodput = of(cell, &PolicyResult::goodput);
                let best = full.map_or(goodput, |(_, pair)| of(&pair[at], &PolicyResult::goodput));
                let refused = of(cell, &|result| share(result.refused, result.refused + result.requests));
                let answers = of(cell, &PolicyResult::throughput);
                let (p50, p99) = (of(cell, &|result| seconds(&result.ttft, 0.5)), of(cell, &ttft_p99));
                let (tpot, hits) = (
                    of(cell, &|result| seconds(&result.per_token, 0.99)),
                    of(cell, &|result| share(result.blocks_hit * block, result.prompt_tokens)),
                );
                writeln!(
                    text,
                    "| {load}% | {name} | {goodput:.1}/s | {:.0}% | {p50:.2} s | {p99:.2} s | {:.0} ms | {answers:.1} | {:.1}% | {:.1}% |",
                    100.0 * goodput / best.max(f64::MIN_POSITIVE),
                    tpot * 1e3,
                    refused * 100.0,
                    hits * 100.0,
                )?;
            }
        }
        Ok(())
    }

    fn tenants(&self, text: &mut String, runs: &ClassRuns) -> fmt::Result {
        let noisy = tenants().classes[0].share * TENANT_LOAD;
        writeln!(
            text,
            "\n### A noisy tenant at {noisy:.0}% beside nine quiet ones at {:.0}% together, {}\n",
            TENANT_LOAD - noisy,
            self.title()
        )?;
        writeln!(
            text,
            "| | quiet TTFT p50 | p99 | against alone | worst of nine | quiet shed | noisy shed | noisy tokens |"
        )?;
        writeln!(text, "|---|{}", "---:|".repeat(7))?;
        let quiet = |result: &PolicyResult| merged(&result.classes[1..]);
        for (name, results) in
            [("alone", &runs.alone), ("no flow control", &runs.without), ("flow control", &runs.with)]
        {
            let (p50, p99) = self.ttft(results, &quiet);
            let ratio = self.against(results, &runs.alone, &quiet);
            let worst = (1..=9)
                .map(|at| self.against(results, &runs.alone, &|result: &PolicyResult| result.classes[at].clone()));
            let worst = worst.fold(0.0, f64::max);
            let shed = |of: &dyn Fn(&PolicyResult) -> ClassResult| {
                median(results.iter().map(|result| {
                    let class = of(result);
                    100.0 * share(class.refused, class.refused + class.requests)
                }))
            };
            let tokens = median(results.iter().map(|result| {
                let all: u64 = result.classes.iter().map(|class| class.tokens).sum();
                100.0 * share(result.classes[0].tokens, all)
            }));
            let noisy = shed(&|result| result.classes[0].clone());
            writeln!(
                text,
                "| {name} | {p50:.2} s | {p99:.2} s | {ratio:.2} | {worst:.2} | {:.1}% | {noisy:.1}% | {tokens:.0}% |",
                shed(&quiet)
            )?;
        }
        Ok(())
    }

    fn priorities(&self, text: &mut String, runs: &ClassRuns) -> fmt::Result {
        writeln!(text, "\n### Priorities at {PRIORITY_LOAD}%, {}\n", self.title())?;
        writeln!(text, "| | top TTFT p50 | p99 | against alone | top shed | middle p99 | shed | low p99 | shed |")?;
        writeln!(text, "|---|{}", "---:|".repeat(8))?;
        for (name, results) in
            [("alone", &runs.alone), ("no flow control", &runs.without), ("flow control", &runs.with)]
        {
            write!(text, "| {name} |")?;
            for class in 0..3 {
                let of = |result: &PolicyResult| result.classes[class].clone();
                let (p50, p99) = self.ttft(results, &of);
                let shed = median(results.iter().map(|result| {
                    let class = &result.classes[class];
                    100.0 * share(class.refused, class.refused + class.requests)
                }));
                match class {
                    0 => write!(
                        text,
                        " {p50:.2} s | {p99:.2} s | {:.2} | {shed:.1}% |",
                        self.against(results, &runs.alone, &of)
                    )?,
                    _ if p99 == 0.0 => write!(text, " – | {shed:.1}% |")?,
                    _ => write!(text, " {p99:.2} s | {shed:.1}% |")?,
                }
            }
            writeln!(text)?;
        }
        Ok(())
    }

    fn ttft(&self, results: &[PolicyResult], of: &dyn Fn(&PolicyResult) -> ClassResult) -> (f64, f64) {
        let quantile = |share| median(results.iter().map(|result| seconds(&of(result).ttft, share)));
        (quantile(0.5), quantile(0.99))
    }

    /// p99 against that of the same requests alone, seed by seed.
    fn against(
        &self,
        results: &[PolicyResult],
        alone: &[PolicyResult],
        of: &dyn Fn(&PolicyResult) -> ClassResult,
    ) -> f64 {
        let p99 = |result: &PolicyResult| seconds(&of(result).ttft, 0.99);
        median(results.iter().zip(alone).map(|(result, alone)| p99(result) / p99(alone).max(f64::MIN_POSITIVE)))
    }
}

fn merged(classes: &[ClassResult]) -> ClassResult {
    let mut all = ClassResult::default();
    for class in classes {
        all.ttft.merge(&class.ttft);
        all.requests += class.requests;
        all.tokens += class.tokens;
        all.refused += class.refused;
    }
    all
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// One with most of the traffic, and nine with a fifteenth each of what it has.
fn tenants() -> Classes {
    let class = |key: String, share| Class { key: Arc::from(key), priority: 10, share };
    let quiet = (1..=9).map(|at| class(format!("quiet-{at}"), 0.375 / 9.0));
    Classes { classes: std::iter::once(class("noisy".to_owned(), 0.625)).chain(quiet).collect() }
}

fn priorities() -> Classes {
    let class = |key: &str, priority, share| Class { key: key.into(), priority, share };
    Classes { classes: vec![class("top", 10, 0.3), class("middle", 0, 0.4), class("low", -10, 0.3)] }
}

/// Loads in percent.
const OVERLOADS: [f64; 6] = [80.0, 100.0, 110.0, 125.0, 150.0, 200.0];
const TENANT_LOAD: f64 = 160.0;
const PRIORITY_LOAD: f64 = 150.0;

/// Flow control unless it is given.
const DOCUMENT: &str = include_str!("flow_control.yaml");
