//! Whole studies: many runs over traces, loads and seeds, told as Markdown.

pub mod batch;
pub mod events;
pub mod quality;
pub mod split;
pub mod together;

use pointsman_lab::trace::Trace;

use crate::SimulateError;
use crate::capacity::{Filled, fill};
use crate::config::SimConfig;
use crate::online::{Load, simulate};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::pool::run_all;
use pointsman_example_common::progress::Progress;

/// Some traffic, the fleet it goes to, and how much that can take.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) name: String,
    pub(super) trace: Trace,
    pub(super) config: SimConfig,
    /// Requests a second.
    pub(super) capacity: f64,
}

impl Site {
    /// Every traffic of the options.
    pub(super) fn all(options: &Options) -> Result<Vec<Self>, SimulateError> {
        let traffic = options.traffic()?;
        let mut bar = Progress::on_stderr(traffic.len());
        bar.show(0, "capacity");
        let sites = run_all(
            &traffic,
            at_once(options),
            |(name, trace)| {
                let config = options.fleet(trace.block)?;
                let Filled { trace, capacity, .. } = fill(trace, &config, &mut || {})?;
                Ok(Self { name: name.clone(), trace, config, capacity })
            },
            |_| {},
        );
        bar.show(traffic.len(), "capacity");
        bar.end();
        sites.into_iter().collect()
    }
}

/// What came of one policy at one site under one load, with every seed.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) site: usize,
    /// Percent of the capacity.
    pub(super) load: f64,
    pub(super) outcomes: Vec<Outcome>,
}

impl Cell {
    /// The median over the seeds.
    pub(super) fn median(&self, figure: impl Fn(&Outcome) -> f64) -> f64 {
        median(self.outcomes.iter().map(figure))
    }

    /// How far the seeds lie apart: half of the way from the least to the most, against the median.
    pub(super) fn spread(&self, figure: impl Fn(&Outcome) -> f64) -> f64 {
        let values = || self.outcomes.iter().map(&figure);
        let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
        (most - least) / 2.0 / self.median(&figure).max(f64::MIN_POSITIVE)
    }

    pub(super) fn policy(&self) -> &str {
        self.outcomes.first().map_or("", |outcome| &outcome.policy)
    }
}

/// The middle one of some values, or the mean of the two in the middle; 0 of none.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = ((values.len().max(1) - 1) / 2, values.len() / 2);
    values.get(low).zip(values.get(high)).map_or(0.0, |(low, high)| f64::midpoint(*low, *high))
}

/// A figure that policies are compared by: seconds to the first token that 99 in 100 stay within.
pub(super) fn ttft_p99(outcome: &Outcome) -> f64 {
    outcome.ttft.quantile(0.99).unwrap_or(0.0) / 1e6
}

/// Runs every policy at every site under every load, with every seed. Of one site, load and seed all have the same arrivals.
pub(super) fn grid(sites: &[Site], policies: &[Policy], options: &Options) -> Result<Vec<Cell>, SimulateError> {
    let mut tasks = Vec::new();
    for site in 0..sites.len() {
        for &load in &options.load {
            for seed in 0..options.seeds.max(1) {
                tasks.push((site, load, options.seed + seed));
            }
        }
    }
    let bar = parking_lot::Mutex::new(Progress::on_stderr(tasks.len()));
    let results = run_all(
        &tasks,
        at_once(options),
        |&(at, load, seed)| {
            let site = &sites[at];
            let trace = site.trace.clone().at_rate(site.capacity * load / 100.0, seed);
            let config = SimConfig { seed, ..site.config.clone() };
            let load = Load::new(&trace);
            policies.iter().map(|policy| simulate(policy, &load, &config, &mut |_| {})).collect::<Result<Vec<_>, _>>()
        },
        |done| bar.lock().show(done, "runs"),
    );
    bar.lock().end();
    let mut cells: Vec<Cell> = Vec::new();
    for (&(site, load, _), outcomes) in tasks.iter().zip(results) {
        for mut outcome in outcomes? {
            // A thousand cells of them are too much, and studies do not draw.
            outcome.series.clear();
            let same = |cell: &&mut Cell| cell.site == site && cell.load == load && cell.policy() == outcome.policy;
            match cells.iter_mut().find(same) {
                Some(cell) => cell.outcomes.push(outcome),
                None => cells.push(Cell { site, load, outcomes: vec![outcome] }),
            }
        }
    }
    Ok(cells)
}

/// Runs at once.
pub(super) fn at_once(options: &Options) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    options.jobs.unwrap_or_else(cores)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, middle) in [(&[][..], 0.0), (&[3.0], 3.0), (&[4.0, 1.0], 2.5), (&[9.0, 1.0, 2.0], 2.0)] {
            assert_eq!(median(values.iter().copied()), middle);
        }
    }
}
