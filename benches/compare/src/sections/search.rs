//! Search latency, by pods, prompt length, drop-off depths and share of the prompt held.

use super::arena::{Arena, filled};
use crate::options::Options;
use crate::results::{ResultTable, Value};
use crate::systems::{Lap, NAMES, Prompts};
use crate::targets::Cells;
use pointsman_benches::fleet::{Cell, Content, Fleet, LARGE, UNSEEN};
use pointsman_benches::measure::LAPS;
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
            measure(table, cell, &third, options);
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
    super::sum_up(table);
    let [smg, dynamo] = super::ratio_columns();
    let all = Cells::of(table, &smg);
    let long = Cells::among(table, &smg, |row| row[1].number() >= Some(LONG));
    let lines = [
        all.every(1.0, "every cell"),
        Cells::of(table, &dynamo).every(4.0, "every cell"),
        all.middle(1.5, "the median cell"),
        long.every(2.0, "every cell of 512 blocks and more"),
        long.middle(2.0, "the median cell of 512 blocks and more"),
    ];
    table.findings.extend(lines);
}

/// A row for each kind of query in one cell.
fn measure(table: &mut ResultTable, cell: Cell, third: &Value, options: &Options) {
    let Cell { pods, blocks, .. } = cell;
    let mut arena = arena(cell, options);
    for (query, chains) in arena.queries.clone() {
        let order = arena.order(&chains);
        let case = format!("{pods} pods, {blocks} blocks, {third} {}, {query}", table.columns[2]);
        table.findings.extend(arena.check(&case, &order));
        let times = arena.laps([Lap::Search; 3], &order);
        // In rounds of its own: next to our other lap it would find the caches warmed by it.
        let by_pod = arena.laps([Lap::ByPod, Lap::Search, Lap::Search], &order)[0];
        let mut row = super::compared(vec![pods.into(), blocks.into(), third.clone(), query.into()], times);
        row.insert(5, by_pod.into());
        row.push(arena.contenders[0].probes(&order[..200]).into());
        table.rows.push(row);
    }
}

fn arena(cell: Cell, options: &Options) -> Arena {
    let (mut fleet, mut rng) = (Fleet::build(cell, options.seed), SplitMix64::new(options.seed ^ 0xC01D));
    let held = 0..fleet.chains.len();
    let others = held.len().min(OTHERS);
    let partial = fleet.add_partial(others, cell.blocks / 2, &mut rng);
    let cold = fleet.add_cold(others, cell.blocks + UNSEEN, &mut rng);
    Arena {
        contenders: filled(cell.pods, Prompts::Hashes(&fleet.chains), &fleet.steps),
        fleet,
        pods: cell.pods,
        tokens: Vec::new(),
        queries: [("hit", held), ("partial", partial), ("cold", cold)],
        rounds: LAPS * if cell.table > LARGE { options.rounds.div_ceil(2) } else { options.rounds },
        each: if options.quick { QUERIES / 4 } else { QUERIES },
        rng,
    }
}

/// Queries in a lap.
const QUERIES: usize = 1_000;

/// Prompts that are held in part, and prompts that are not held, at most.
const OTHERS: usize = 4_000;

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
