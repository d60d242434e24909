//! The order of programs: what arrival order, shortest first and attained service do for the time of a program, where more comes than a fleet takes.
//!
//! Nobody is shed, so that every program is over at some time: what one order gives to some programs it takes from others.

use std::fmt::{self, Write};

use routing_plugins::flow::{FlowDocument, OrderDocument};

use super::{median, run_tasks, seconds};
use crate::SimulateError;
use crate::config::SimConfig;
use crate::online_serving::simulate;
use crate::options::Options;
use crate::policy::Policy;
use crate::prepared_trace::PreparedTrace;
use crate::results::PolicyResult;
use crate::workload::Workload;

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<String, SimulateError> {
    let document = match options.flow_document()? {
        Some(document) => document,
        None => serde_yaml_ng::from_str(DOCUMENT).map_err(|error| SimulateError::flag("flow", error.to_string()))?,
    };
    if document.bands.is_empty() {
        return Err(SimulateError::flag("flow", "there are no `bands`, whose order is what is compared"));
    }
    let read = |name: &'static str| {
        let order: OrderDocument = serde_yaml_ng::from_str(name)?;
        let mut document = document.clone();
        document.bands.iter_mut().for_each(|band| band.order = order);
        Ok((name, document))
    };
    let orders: Result<Vec<_>, serde_yaml_ng::Error> = ORDERS.into_iter().map(read).collect();
    let orders = orders.map_err(|error| SimulateError::flag("flow", error.to_string()))?;
    let policies = options.policies_or(["programs"])?;
    let mut text = String::new();
    for policy in &policies {
        for workload in &Workload::all(options)? {
            let study = OrderStudy { workload, policy, orders: &orders, options };
            // Writing to a string does not fail.
            let _ = study.write(&mut text, &study.run()?);
        }
    }
    Ok(text)
}

struct OrderStudy<'s> {
    workload: &'s Workload,
    policy: &'s Policy,
    orders: &'s [(&'static str, FlowDocument)],
    options: &'s Options,
}

impl OrderStudy<'_> {
    /// Each load in each order, with every seed.
    fn run(&self) -> Result<Vec<PolicyResult>, SimulateError> {
        let tasks: Vec<_> = LOADS
            .iter()
            .flat_map(|&load| self.orders.iter().map(move |(_, document)| (load, document)))
            .flat_map(|(load, document)| self.options.seeds().map(move |seed| (load, document, seed)))
            .collect();
        run_tasks(&tasks, self.options, |&(load, document, seed)| {
            let (trace, config) = self.workload.at_load(load, seed);
            let config = SimConfig { flow: Some(document.clone()), ..config };
            let mut result = simulate(self.policy, &PreparedTrace::new(&trace), &config, &mut |_| {})?;
            result.series.clear();
            Ok(result)
        })
    }

    fn write(&self, text: &mut String, results: &[PolicyResult]) -> fmt::Result {
        let (capacity, pods) = (self.workload.traffic.capacity, self.workload.config.pods.len());
        let (name, policy) = (&self.workload.name, &self.policy.name);
        writeln!(text, "\n### {name}, `{policy}`: {pods} pods take {capacity:.1} requests a second\n")?;
        writeln!(
            text,
            "| load | order | program: mean | p50 | p90 | p99 | mean, of arrival's | TTFT p50 | p99 | answers/s | refused |"
        )?;
        writeln!(text, "|---|---|{}", "---:|".repeat(9))?;
        let seeds = self.options.seeds().count();
        for (load, cells) in LOADS.iter().zip(results.chunks(seeds * self.orders.len())) {
            let of = |cell: &[PolicyResult], figure: &dyn Fn(&PolicyResult) -> f64| median(cell.iter().map(figure));
            let mut first = None;
            for ((order, _), cell) in self.orders.iter().zip(cells.chunks(seeds)) {
                let mean = of(cell, &|result| result.mean_program() / 1e6);
                let program = |share| of(cell, &|result| seconds(&result.program, share));
                let ttft = |share| of(cell, &|result| seconds(&result.ttft, share));
                writeln!(
                    text,
                    "| {load}% | `{order}` | {mean:.0} s | {:.0} s | {:.0} s | {:.0} s | {:.2} | {:.2} s | {:.0} s | {:.2} | {:.0} |",
                    program(0.5),
                    program(0.9),
                    program(0.99),
                    mean / first.get_or_insert(mean).max(f64::MIN_POSITIVE),
                    ttft(0.5),
                    ttft(0.99),
                    of(cell, &PolicyResult::throughput),
                    of(cell, &|result| result.refused as f64),
                )?;
            }
        }
        Ok(())
    }
}

/// Loads in percent.
const LOADS: [f64; 3] = [110.0, 150.0, 200.0];
/// What they are put in order by; the first is what others are compared with.
const ORDERS: [&str; 4] = ["arrival", "shortest_first", "attained_service", "{ attained_service: { aging: 10s } }"];
const DOCUMENT: &str = include_str!("program_order.yaml");

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn flow_control_without_bands_is_refused_by_its_flag() {
        let path = std::env::temp_dir().join(format!("pointsman-program-order-{}.yaml", std::process::id()));
        std::fs::write(&path, "lookahead: 16\n").unwrap();
        let file = path.display().to_string();
        let options = Options::try_parse_from(["simulate", "--study", "program-order", "--flow", &file]).unwrap();
        let error = run(&options).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.starts_with("--flow: ") && error.contains("bands"), "{error}");
    }
}
