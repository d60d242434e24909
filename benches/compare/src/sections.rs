//! Measurements, one a file: each takes the options, reports its progress and returns tables.

mod clear;
mod decision;
mod evict;
mod execution;
mod holes;
mod memory;
mod replay;
mod search;
mod threads;
mod tokens;
mod writes;

use crate::mismatches::Mismatches;
use crate::options::{Options, Section};
use crate::results::{ResultTable, Value};
use crate::systems::{Contender, NAMES};
use crate::targets::Cells;
use pointsman_benches::fleet::Fleet;
use pointsman_benches::measure::Spread;

/// Runs one section.
#[must_use]
pub fn run(section: Section, options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    match section {
        Section::Search => search::run(options, tell),
        Section::Tokens => tokens::run(options, tell),
        Section::Writes => writes::run(options, tell),
        Section::Evict => [evict::run, clear::run, holes::run].iter().flat_map(|run| run(options, tell)).collect(),
        Section::Threads => threads::run(options, tell),
        Section::Replay => replay::run(options, tell),
        Section::Memory => memory::run(options, tell),
        Section::Decision => decision::run(options, tell),
        Section::Execution => execution::run(options, tell),
    }
}

/// Compares every system's answers with the expected; a line for each system that is wrong.
fn disagreements(
    case: &str,
    fleet: &Fleet,
    contenders: &mut [Box<dyn Contender>],
    pods: usize,
    order: &[usize],
) -> Vec<String> {
    let ask = |contender: &mut dyn Contender, chain: usize, answer: &mut [u32]| contender.depths(chain, answer);
    compare(case, fleet, contenders, pods, order, ask)
}

/// The same for any way of asking.
fn compare(
    case: &str,
    fleet: &Fleet,
    contenders: &mut [Box<dyn Contender>],
    pods: usize,
    order: &[usize],
    ask: impl Fn(&mut dyn Contender, usize, &mut [u32]),
) -> Vec<String> {
    let mut asked = order.to_vec();
    asked.sort_unstable();
    asked.dedup();
    let (mut expected, mut answer) = (vec![0; pods], vec![0; pods]);
    let mut lines = Vec::new();
    for contender in contenders {
        let mut mismatches = Mismatches::default();
        for &chain in &asked {
            fleet.expected_depths(chain, &mut expected);
            ask(&mut **contender, chain, &mut answer);
            mismatches.add(chain, &answer, &expected);
        }
        lines.extend(mismatches.line(contender.name(), case));
    }
    lines
}

/// What columns of ratios are called: a peer's time over ours.
fn ratio_columns() -> [String; 2] {
    [1, 2].map(|peer| format!("{} ÷ ours", NAMES[peer]))
}

/// Ratios of the peers' times over ours.
fn ratios(times: &[Spread]) -> [Value; 2] {
    [1, 2].map(|peer| Value::from(times[peer].median / times[0].median))
}

/// Sums up the columns of ratios of a table, whose rows are named by its first `labels` columns.
fn sum_up(table: &mut ResultTable, labels: usize) {
    for column in ratio_columns() {
        table.findings.push(Cells::of(table, labels, &column).summary(&column));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_look_covers_every_table_and_ours_is_right_in_all() {
        let line = "pointsman-compare --quick --rounds 1 --table 2000 --memory-blocks 8000";
        let options = Options::parse_from(line.split(' '));
        let mut told = 0;
        for section in [Section::Search, Section::Tokens, Section::Writes, Section::Evict, Section::Memory] {
            for table in run(section, &options, &mut |_| told += 1) {
                assert!(!table.rows.is_empty(), "{}", table.id);
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.id);
                let ours = table.findings.iter().find(|line| line.contains(&format!("DISAGREES: {}", NAMES[0])));
                assert_eq!(ours, None, "{}", table.id);
                let targets = table.findings.iter().filter(|line| line.starts_with("target:")).count();
                assert!(targets > 0 || table.id == "hashing", "{}", table.id);
            }
        }
        assert!(told > 10);
    }
}
