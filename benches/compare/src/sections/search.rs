//! Search latency, by pods, prompt length, drop-off depths and share of the prompt held.
//!
//! The rule: every round asks for other prompts, the same ones of every system, and each answer was compared
//! with the expected before.

use std::ops::Range;

use crate::options::Options;
use crate::results::{ResultTable, Value};
use crate::systems::{Contender, Lap, NAMES, Prompts, contenders};
use crate::targets::Cells;
use pointsman_benches::fleet::{Cell, Content, Fleet, LARGE, UNSEEN};
use pointsman_benches::measure::{LAPS, Spread, in_turn};
use pointsman_lab::SplitMix64;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let all: usize = options.tables().iter().map(|&size| cells(size, options.quick).len()).sum();
    let (mut at, mut tables) = (0, Vec::new());
    for &size in &options.tables() {
        let shown = Value::from(size);
        let title = format!("Search in a table of {shown} blocks, by how many depths pods hold a prompt to (ns)");
        let mut spread = table(format!("search_{size}"), &title, "depths");
        let title = format!("Search in a table of {shown} blocks, shared start and private branches (ns)");
        let mut private = table(format!("search_private_{size}"), &title, "content");
        for cell in cells(size, options.quick) {
            at += 1;
            let (table, third) = match cell.content {
                Content::Private => (&mut private, Value::from("private")),
                Content::Spread { .. } => (&mut spread, Value::from(cell.depths())),
            };
            let Cell { pods, blocks, .. } = cell;
            let case = format!("table of {shown}, {pods} pods, {blocks} blocks, {third} {}", table.columns[2]);
            tell(&format!("cell {at} of {all}: {case}"));
            Arena::new(cell, options).measure_all(table, &third);
        }
        note_size(&mut spread, size, options.quick);
        for mut table in [spread, private] {
            judge(&mut table);
            tables.push(table);
        }
    }
    tables
}

/// The grid for one size of table. In a large one a chain has one holder a depth, see [`Cell::holders`], and
/// branches are asked for in one fleet only, to save time.
fn cells(size: usize, quick: bool) -> Vec<Cell> {
    let (pods, blocks, depths): (&[usize], &[usize], &[usize]) =
        if quick { (&[64], &[16, 512], &[1, 4]) } else { (&[8, 64, 256], &[16, 128, 512, 4_096], &[1, 4, 16]) };
    let mut cells = Vec::new();
    for &pods in pods {
        for &blocks in blocks {
            let spread = depths.iter().map(|&depths| Content::Spread { depths });
            let private = (size <= LARGE || pods == 64).then_some(Content::Private);
            cells.extend(spread.chain(private).map(|content| Cell::new(pods, blocks, content, size)));
        }
    }
    cells
}

fn table(id: String, title: &str, third: &str) -> ResultTable {
    let [ours, smg, dynamo] = NAMES;
    let by_pod = format!("{ours}, by pod");
    let [to_smg, to_dynamo] = super::ratio_columns();
    let columns = ["pods", "blocks", third, "query", ours, &by_pod, smg, dynamo, &to_smg, &to_dynamo, "our probes"];
    ResultTable::new(id, title, columns)
}

/// Says where a table is not as large as its title says.
fn note_size(table: &mut ResultTable, size: usize, quick: bool) {
    let mut short: Vec<_> = cells(size, quick).iter().map(|cell| (cell.blocks, cell.chains() * cell.blocks)).collect();
    short.retain(|&(_, held)| held < size / 10 * 9);
    short.dedup();
    short.sort_unstable();
    short.dedup_by_key(|&mut (blocks, _)| blocks);
    for (blocks, held) in short {
        let held = Value::from(held);
        let note = format!("note: at {blocks} blocks the table has {held}: SMG panics past 262,144 first blocks");
        table.findings.push(note);
    }
}

fn judge(table: &mut ResultTable) {
    super::sum_up(table, LABELS);
    let [smg, dynamo] = super::ratio_columns();
    let all = Cells::of(table, LABELS, &smg);
    let long = Cells::among(table, LABELS, &smg, |row| row[1].number() >= Some(LONG));
    let lines = [
        all.every(&smg, 1.0, "every cell"),
        Cells::of(table, LABELS, &dynamo).every(&dynamo, 4.0, "every cell"),
        all.middle(&smg, 1.5, "the median cell"),
        long.every(&smg, 2.0, "every cell of 512 blocks and more"),
        long.middle(&smg, 2.0, "the median cell of 512 blocks and more"),
    ];
    table.findings.extend(lines);
}

/// One cell's fleet in every system, with prompts to ask about.
struct Arena {
    cell: Cell,
    fleet: Fleet,
    queries: [(&'static str, Range<usize>); 3],
    contenders: Vec<Box<dyn Contender>>,
    rounds: usize,
    each: usize,
    rng: SplitMix64,
}

impl Arena {
    fn new(cell: Cell, options: &Options) -> Self {
        let mut fleet = Fleet::build(cell, options.seed);
        let mut rng = SplitMix64::new(options.seed ^ 0xC01D);
        let held = 0..fleet.chains.len();
        let others = held.len().min(OTHERS);
        let partial = fleet.add_partial(others, cell.blocks / 2, &mut rng);
        let cold = fleet.add_cold(others, cell.blocks + UNSEEN, &mut rng);
        let mut contenders = contenders(cell.pods, Prompts::Hashes(&fleet.chains));
        for contender in &mut contenders {
            contender.write(&fleet.steps);
        }
        let rounds = LAPS * if cell.table > LARGE { options.rounds.div_ceil(2) } else { options.rounds };
        let each = if options.quick { QUERIES / 4 } else { QUERIES };
        Self {
            cell,
            fleet,
            queries: [("hit", held), ("partial", partial), ("cold", cold)],
            contenders,
            rounds,
            each,
            rng,
        }
    }

    fn measure_all(&mut self, table: &mut ResultTable, third: &Value) {
        for (query, chains) in self.queries.clone() {
            self.measure(table, third, query, &chains);
        }
    }

    fn measure(&mut self, table: &mut ResultTable, third: &Value, query: &str, chains: &Range<usize>) {
        let Cell { pods, blocks, .. } = self.cell;
        let draws = self.rng.draws(self.each * self.rounds, chains.len());
        let order: Vec<usize> = draws.into_iter().map(|draw| chains.start + draw).collect();
        let case = format!("{pods} pods, {blocks} blocks, {third} {}, {query}", table.columns[2]);
        table.findings.extend(super::disagreements(&case, &self.fleet, &mut self.contenders, pods, &order));
        let times = self.laps([Lap::Search; 3], &order);
        // In rounds of its own: next to our other lap it would find the caches warmed by it.
        let by_pod = self.laps([Lap::ByPod, Lap::Search, Lap::Search], &order)[0];
        let mut row = vec![pods.into(), blocks.into(), third.clone(), query.into()];
        row.extend([times[0], by_pod, times[1], times[2]].map(Value::from));
        row.extend(super::ratios(&times));
        row.push(self.contenders[0].probes(&order[..200]).into());
        table.rows.push(row);
    }

    /// Times every system, each by its lap, in turn.
    fn laps(&mut self, laps: [Lap<'_>; 3], order: &[usize]) -> Vec<Spread> {
        let each = self.each;
        in_turn(self.rounds, laps.len(), |round, lane| {
            let asked = &order[round * each..][..each];
            self.contenders[lane].time(laps[lane], asked).as_nanos() as f64 / each as f64
        })
    }
}

/// Queries in a lap.
const QUERIES: usize = 1_000;

/// Prompts that are held in part, and prompts that are not held, at most.
const OTHERS: usize = 4_000;

/// Columns that name a row.
const LABELS: usize = 4;

/// Blocks of a chain from which on it is long.
const LONG: f64 = 512.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_grid_is_asked_in_both_tables() {
        let count = |size, wanted: fn(&Cell) -> bool| cells(size, false).iter().filter(|cell| wanted(cell)).count();
        for size in [100_000, 5_000_000] {
            assert_eq!(count(size, |cell| cell.content != Content::Private), 3 * 4 * 3);
        }
        assert_eq!(count(100_000, |cell| cell.content == Content::Private), 3 * 4);
    }

    #[test]
    fn a_table_that_is_smaller_than_it_says_is_noted() {
        let mut table = ResultTable::new("t", "t", ["a"]);
        note_size(&mut table, 100_000, false);
        assert_eq!(table.findings, Vec::<String>::new());
        note_size(&mut table, 5_000_000, false);
        let note = "note: at 16 blocks the table has 3,200,000: SMG panics past 262,144 first blocks";
        assert_eq!(table.findings, [note]);
    }
}
