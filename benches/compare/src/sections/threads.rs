//! Search scalability by threads, alone and beside a writer.
//!
//! Load as [`crate::load`] makes it. Throughput is taken without a clock in the loop; latencies in a run of their own, each
//! search between two readings of the clock, whose cost (some 40 ns) is in them.

mod interference;

use std::collections::BTreeMap;
use std::time::Duration;

use super::arena::filled;
use crate::load::{Load, Sample};
use crate::mismatches::disagreements;
use crate::options::Options;
use crate::results::{ResultTable, Value};
use crate::systems::{Contender, NAMES, Prompts};
use pointsman_benches::fleet::{Cell, Content, Fleet};
use pointsman_benches::measure::{Spread, samples_in_turn};

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let columns = [
        "threads",
        "system",
        "writer",
        "M searches/s",
        "of linear",
        "p50 (ns)",
        "p99 (ns)",
        "p99.9 (ns)",
        "p99 ÷ p50",
        "k blocks written/s",
    ];
    let title = format!("Searches by threads, {PODS} pods, {BLOCKS} blocks");
    let mut table = ResultTable::new("threads", &title, columns);
    let fleet = Fleet::build(Cell::new(PODS, BLOCKS, Content::Spread { depths: 4 }, options.table()), options.seed);
    // The writer has a pod to itself.
    let mut systems = filled(PODS + 1, Prompts::Hashes(&fleet.chains), &fleet.steps);
    table.findings.extend(check(&fleet, &mut systems));
    let most = options.threads.unwrap_or_else(cores);
    let window = if most > 4 { WINDOW / 2 } else { WINDOW };
    let mut samples = Samples::new();
    for writer in [false, true] {
        for threads in counts(most, writer) {
            let beside = if writer { " beside a writer" } else { "" };
            tell(&format!("threads: {threads}{beside}"));
            let taken = samples_in_turn(options.rounds.min(MOST_ROUNDS), systems.len(), |round, at| {
                let (writer, seed) = (writer.then_some(PODS), options.seed + round as u64);
                systems[at].search_for_a_while(Load { threads, writer, window, seed })
            });
            samples.insert((writer, threads), taken);
        }
    }
    for (&(writer, threads), taken) in &samples {
        for (at, taken) in taken.iter().enumerate() {
            let one = rate(&samples[&(writer, 1)][at]).median;
            table.rows.push(row(NAMES[at], threads, writer, one, taken));
        }
    }
    table.rows.sort_by_key(|row| NAMES.iter().position(|name| row[1] == Value::from(*name)));
    table.findings.extend(verdicts(&samples, most));
    vec![table, interference::table(options, tell)]
}

fn check(fleet: &Fleet, systems: &mut [Box<dyn Contender>]) -> Vec<String> {
    let expected = |chain: usize| fleet.expected_depths(chain, PODS + 1);
    disagreements("searches by threads", systems, 0..fleet.chains.len(), expected)
}

/// As many as the machine has.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// 1, 2, 4 and so on to the most; a writer has a core to itself where there are two.
fn counts(most: usize, writer: bool) -> Vec<usize> {
    let most = if writer { most.saturating_sub(1).max(1) } else { most };
    let mut counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|&count| count < most).collect();
    counts.push(most);
    counts
}

/// What runs gave, by whether there was a writer and by threads, then by system.
type Samples = BTreeMap<(bool, usize), Vec<Vec<Sample>>>;

/// Searches a second.
fn rate(samples: &[Sample]) -> Spread {
    Spread::of(samples.iter().map(|sample| sample.rate).collect())
}

fn quantile(samples: &[Sample], share: f64) -> Option<Spread> {
    let taken: Option<Vec<f64>> = samples.iter().map(|sample| sample.latencies.quantile(share)).collect();
    taken.map(Spread::of)
}

fn row(name: &str, threads: usize, writer: bool, one: f64, samples: &[Sample]) -> Vec<Value> {
    let rate = Spread::of(samples.iter().map(|sample| sample.rate / 1e6).collect());
    let written = writer.then(|| Spread::of(samples.iter().map(|sample| sample.written / 1e3).collect()));
    let mut row = vec![threads.into(), name.into(), if writer { "yes" } else { "no" }.into(), rate.into()];
    row.push((rate.median * 1e6 / (one * threads as f64)).into());
    row.extend([0.5, 0.99, 0.999].map(|share| quantile(samples, share).into()));
    row.push(tail(samples).into());
    row.push(written.into());
    row
}

/// p99 ÷ p50, the median of rounds.
fn tail(samples: &[Sample]) -> Option<f64> {
    let ratio = |sample: &Sample| Some(sample.latencies.quantile(0.99)? / sample.latencies.quantile(0.5)?);
    let ratios: Option<Vec<f64>> = samples.iter().map(ratio).collect();
    ratios.map(|ratios| Spread::of(ratios).median)
}

fn verdicts(samples: &Samples, most: usize) -> Vec<String> {
    let judge = |held: bool| if held { "held" } else { "MISSED" };
    let rate = |threads: usize| rate(&samples[&(false, threads)][0]).median;
    let scale = rate(most) / (rate(1) * most as f64);
    let verdict = if most > 1 { judge(scale >= 0.85) } else { "not measured" };
    let mut lines = vec![format!("target: searches scale ≥ 0.85 of linear to {most} threads: {verdict} ({scale:.2})")];
    for (&(writer, threads), taken) in samples {
        if let Some(tail) = tail(&taken[0]).filter(|_| writer) {
            let verdict = judge(tail <= 3.0);
            lines.push(format!("target: p99 ≤ 3× p50 under writes, {threads} searching: {verdict} ({tail:.2})"));
        }
    }
    lines
}

const PODS: usize = 64;
const BLOCKS: usize = 128;
const MOST_ROUNDS: usize = 5;
const WINDOW: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_double_to_the_most() {
        assert_eq!(counts(1, false), [1]);
        assert_eq!(counts(6, false), [1, 2, 4, 6]);
        assert_eq!(counts(16, true), [1, 2, 4, 8, 15]);
        assert_eq!(counts(2, true), [1]);
    }

    /// What the writer stores it removes, and the fleet's own answers stay right in every system.
    #[test]
    fn searches_and_writes_leave_the_answers_as_they_were() {
        let fleet = Fleet::build(Cell::new(PODS, BLOCKS, Content::Spread { depths: 4 }, 2_000), 1);
        let mut systems = filled(PODS + 1, Prompts::Hashes(&fleet.chains), &fleet.steps);
        assert_eq!(check(&fleet, &mut systems), Vec::<String>::new());
        for system in &mut systems {
            assert_eq!(system.refused(), 0);
            let load = Load { threads: 2, writer: Some(PODS), window: Duration::from_millis(150), seed: 1 };
            let sample = system.search_for_a_while(load);
            assert!(sample.rate > 0.0 && sample.written > 0.0 && !sample.latencies.is_empty());
        }
        assert_eq!(check(&fleet, &mut systems), Vec::<String>::new());
    }
}
