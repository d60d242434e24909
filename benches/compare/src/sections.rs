//! Measurements, one a file: each takes the options, reports its progress and returns tables.

mod arena;
mod bytes;
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

use kv_index::BlockHash;

use crate::mismatches::disagreements;
use crate::options::{Options, Section};
use crate::results::{ResultTable, Value};
use crate::systems::{NAMES, Prompts, contenders};
use crate::targets::Cells;
use pointsman_benches::fleet::Step;
use pointsman_benches::measure::Spread;
use pointsman_benches::oracle::Oracle;

/// Runs one section.
#[must_use]
pub fn run(section: Section, options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    match section {
        Section::Search => search::run(options, tell),
        Section::Tokens => tokens::run(options, tell),
        Section::Writes => writes::run(options, tell),
        Section::Bytes => bytes::run(options, tell),
        Section::Evict => [evict::run, clear::run, holes::run].iter().flat_map(|run| run(options, tell)).collect(),
        Section::Threads => threads::run(options, tell),
        Section::Replay => replay::run(options, tell),
        Section::Memory => memory::run(options, tell),
        Section::Decision => decision::run(options, tell),
        Section::Execution => execution::run(options, tell),
    }
}

/// Plays phases untimed in every system, and compares answers for some chains after each.
fn rehearse<'s>(
    pods: usize,
    chains: &[Vec<BlockHash>],
    phases: impl IntoIterator<Item = (String, &'s [Step])>,
    asked: impl IntoIterator<Item = usize> + Clone,
) -> Vec<String> {
    let (mut oracle, mut contenders) = (Oracle::default(), contenders(pods, Prompts::Hashes(chains)));
    let mut lines = Vec::new();
    for (case, steps) in phases {
        oracle.write(chains, steps);
        for contender in &mut contenders {
            let before = contender.refused();
            contender.write(steps);
            let refused = contender.refused() - before;
            if refused > 0 {
                lines.push(format!("REFUSES: {} would not take {refused} stores, {case}", contender.name()));
            }
        }
        let expected = |chain: usize| oracle.depths(&chains[chain], pods);
        lines.extend(disagreements(&case, &mut contenders, asked.clone(), expected));
    }
    lines
}

/// A table with a time of every system and the peers' ratios in each row.
fn comparison(id: &'static str, title: &str, labels: &[&str]) -> ResultTable {
    let names = labels.iter().chain(&NAMES).map(|&name| name.to_owned());
    ResultTable::new(id, title, names.chain(ratio_columns()))
}

/// A row of such a table.
fn compared(labels: Vec<Value>, times: impl IntoIterator<Item = impl Into<Option<Spread>>>) -> Vec<Value> {
    let times: Vec<Option<Spread>> = times.into_iter().map(Into::into).collect();
    let ratio = |peer: usize| Some(times[peer]?.median / times[0]?.median);
    let ratios = [1, 2].map(|peer| ratio(peer).into());
    labels.into_iter().chain(times.iter().map(|&time| time.into())).chain(ratios).collect()
}

/// What columns of ratios are called: a peer's time over ours.
fn ratio_columns() -> [String; 2] {
    [1, 2].map(|peer| format!("{} ÷ ours", NAMES[peer]))
}

/// Sums up the columns of ratios of a table.
fn sum_up(table: &mut ResultTable) {
    for column in ratio_columns() {
        table.findings.push(Cells::of(table, &column).summary());
    }
}

/// Whether ours is nowhere behind the first peer.
fn judge_rows(table: &mut ResultTable) {
    let line = Cells::of(table, &ratio_columns()[0]).every(1.0, "every row");
    table.findings.push(line);
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
