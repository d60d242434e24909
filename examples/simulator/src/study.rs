//! Experiments over traces, loads and seeds, as Markdown: the tables of `docs/routing-quality.md`.
//!
//! | module | experiment |
//! |---|---|
//! | [`quality`] | every policy at every load |
//! | [`event_loss`] | late and lost events |
//! | [`disaggregation`] | prefill and decode on pods of their own |
//! | [`offline_batch`] | batch planning against other orders |
//! | [`colocated_batch`] | a batch beside online traffic |
//! | [`flow_control`] | overload, a noisy tenant, priorities |
//! | [`program_order`] | the time of programs by the order in which they wait |
//! | [`programs`] | agents' programs in caches that are too small, or not |

pub(crate) mod colocated_batch;
pub(crate) mod disaggregation;
pub(crate) mod event_loss;
pub(crate) mod flow_control;
pub(crate) mod offline_batch;
pub(crate) mod program_order;
pub(crate) mod programs;
pub(crate) mod quality;

use parking_lot::Mutex;
use pointsman_example_common::progress::Progress;
use pointsman_lab::latency::LatencyHistogram;

use crate::SimulateError;
use crate::online_serving::simulate;
use crate::options::Options;
use crate::parallel::parallel_map;
use crate::policy::Policy;
use crate::prepared_trace::PreparedTrace;
use crate::results::PolicyResult;
use crate::workload::Workload;

/// The results of one policy on one workload under one load, one for each seed.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) workload: usize,
    /// Percent of the capacity.
    pub(crate) load: f64,
    pub(crate) results: Vec<PolicyResult>,
}

impl Cell {
    /// The median over the seeds.
    pub(crate) fn median(&self, figure: impl Fn(&PolicyResult) -> f64) -> f64 {
        median(self.results.iter().map(figure))
    }

    pub(crate) fn policy(&self) -> &str {
        self.results.first().map_or("", |result| &result.policy)
    }
}

/// The middle one of some values, or the mean of the two in the middle; 0 of none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = ((values.len().max(1) - 1) / 2, values.len() / 2);
    values.get(low).zip(values.get(high)).map_or(0.0, |(low, high)| f64::midpoint(*low, *high))
}

/// A figure that policies are compared by: seconds to the first token that 99 in 100 stay within.
pub(crate) fn ttft_p99(result: &PolicyResult) -> f64 {
    seconds(&result.ttft, 0.99)
}

/// Seconds to the first token that half of the requests stay within.
pub(crate) fn ttft_p50(result: &PolicyResult) -> f64 {
    seconds(&result.ttft, 0.5)
}

/// Seconds that this share of some times stays within; 0 of none.
pub(crate) fn seconds(times: &LatencyHistogram, share: f64) -> f64 {
    times.quantile(share).unwrap_or(0.0) / 1e6
}

/// Runs every policy on every workload under every load, with every seed. Of one workload, load and seed all have the same
/// arrivals.
pub(crate) fn grid(workloads: &[Workload], policies: &[Policy], options: &Options) -> Result<Vec<Cell>, SimulateError> {
    let mut tasks = Vec::new();
    for workload in 0..workloads.len() {
        for &load in &options.load {
            tasks.extend(options.seeds().map(|seed| (workload, load, seed)));
        }
    }
    let results = run_tasks(&tasks, options, |&(workload, load, seed)| {
        let (trace, config) = workloads[workload].at_load(load, seed);
        let trace = PreparedTrace::new(&trace);
        policies.iter().map(|policy| simulate(policy, &trace, &config, &mut |_| {})).collect::<Result<Vec<_>, _>>()
    })?;
    let mut cells: Vec<Cell> = Vec::new();
    for (&(workload, load, _), results) in tasks.iter().zip(results) {
        for mut result in results {
            // A thousand cells of them are too much, and studies do not draw.
            result.series.clear();
            let same =
                |cell: &&mut Cell| cell.workload == workload && cell.load == load && cell.policy() == result.policy;
            match cells.iter_mut().find(same) {
                Some(cell) => cell.results.push(result),
                None => cells.push(Cell { workload, load, results: vec![result] }),
            }
        }
    }
    Ok(cells)
}

/// Runs all tasks in parallel, with a progress bar.
pub(crate) fn run_tasks<T: Sync, R: Send>(
    tasks: &[T],
    options: &Options,
    work: impl Fn(&T) -> Result<R, SimulateError> + Sync,
) -> Result<Vec<R>, SimulateError> {
    let bar = Mutex::new((Progress::on_stderr(tasks.len()), 0));
    let results = parallel_map(tasks, options.parallelism(), |task| {
        let result = work(task);
        let (bar, done) = &mut *bar.lock();
        *done += 1;
        bar.show(*done, "runs");
        result
    });
    bar.lock().0.end();
    results.into_iter().collect()
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
