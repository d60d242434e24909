//! What does a search cost, by pods, blocks and who holds what?
//!
//! Every prompt is what the deepest pod holds and a few blocks nobody has: the next turn of a conversation.

use crate::fleet::{Cell, Content, Fleet, UNSEEN};
use crate::measure::{Spread, interleaved};
use crate::options::Options;
use crate::report::{Table, Value};
use crate::rng::Rng;
use crate::systems::{Contender, Lap, NAMES, Prompts, contenders};

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<Table> {
    let mut warm = table("search", "Search, by how many pods hold a prompt to how many depths (ns)", "depths");
    let mut private = table("search_private", "Search, shared start and private branches (ns)", "content");
    let mut cold = table("search_cold", "Search for a prompt nobody holds (ns)", "content");
    let (pods, blocks, depths) = grid(options.quick);
    for &pods in pods {
        for &blocks in blocks {
            for &depths in depths {
                tell(&format!("search: {pods} pods, {blocks} blocks, {depths} depths"));
                let mut arena = Arena::new(Cell::new(pods, blocks, Content::Spread { depths }, options.table), options);
                arena.measure(&mut warm, depths.into(), Query::Held);
                if depths == COLD_DEPTHS {
                    arena.measure(&mut cold, "cold".into(), Query::Cold);
                }
            }
            tell(&format!("search: {pods} pods, {blocks} blocks, private"));
            let mut arena = Arena::new(Cell::new(pods, blocks, Content::Private, options.table), options);
            arena.measure(&mut private, "private".into(), Query::Held);
        }
    }
    let tables = [warm, private, cold];
    tables.into_iter().map(sum_up).collect()
}

fn grid(quick: bool) -> (&'static [usize], &'static [usize], &'static [usize]) {
    if quick { (&[64], &[16, 512], &[1, 4]) } else { (&[8, 64, 256], &[16, 128, 512, 4_096], &[1, 4, 16]) }
}

fn table(id: &'static str, title: &str, third: &str) -> Table {
    let [ours, smg, dynamo] = NAMES;
    let by_pod = format!("{ours}, by pod");
    let ratios = [format!("{smg} ÷ ours"), format!("{dynamo} ÷ ours")];
    let columns = ["pods", "blocks", third, ours, &by_pod, smg, dynamo, &ratios[0], &ratios[1], "our probes"];
    Table::new(id, title, columns)
}

/// One cell's fleet in every system.
struct Arena {
    cell: Cell,
    fleet: Fleet,
    contenders: Vec<Box<dyn Contender>>,
    rounds: usize,
    rng: Rng,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Query {
    Held,
    Cold,
}

impl Arena {
    fn new(cell: Cell, options: &Options) -> Self {
        let mut fleet = Fleet::build(cell, options.seed);
        let mut rng = Rng::new(options.seed ^ 0xC01D);
        // Prompts nobody holds come last, so that the fleet's own keep their numbers.
        for _ in 0..cold_chains(cell) {
            fleet.chains.push(rng.chain(cell.blocks + UNSEEN));
            fleet.held.push(Vec::new());
        }
        let mut contenders = contenders(cell.pods, Prompts::Hashes(&fleet.chains));
        for contender in &mut contenders {
            contender.write(&fleet.steps);
        }
        Self { cell, fleet, contenders, rounds: options.rounds, rng }
    }

    fn measure(&mut self, table: &mut Table, third: Value, query: Query) {
        let held = self.fleet.chains.len() - cold_chains(self.cell);
        let order: Vec<usize> = match query {
            Query::Held => self.rng.draws(QUERIES, held),
            Query::Cold => self.rng.draws(QUERIES, cold_chains(self.cell)).into_iter().map(|i| held + i).collect(),
        };
        let case = format!("{} pods, {} blocks, {third}", self.cell.pods, self.cell.blocks);
        table.findings.extend(super::disagreements(&case, &self.fleet, &mut self.contenders, self.cell.pods, &order));
        let times = self.laps([Lap::Search; 3], &order);
        // In rounds of its own: next to our other lap it would find the caches warmed by it.
        let by_pod = self.laps([Lap::ByPod, Lap::Search, Lap::Search], &order)[0];
        let mut row = vec![self.cell.pods.into(), self.cell.blocks.into(), third];
        row.extend([times[0], by_pod, times[1], times[2]].map(Value::from));
        row.extend([1, 2].map(|peer| Value::from(times[peer].median / times[0].median)));
        row.push(self.contenders[0].probes(&order[..200]).into());
        table.rows.push(row);
    }

    /// Times every system, each by its lap, in turn.
    fn laps(&mut self, laps: [Lap<'_>; 3], order: &[usize]) -> Vec<Spread> {
        interleaved(self.rounds, laps.len(), |lane| {
            self.contenders[lane].time(laps[lane], order).as_nanos() as f64 / order.len() as f64
        })
    }
}

fn sum_up(mut table: Table) -> Table {
    for (peer, column) in [(NAMES[1], 7), (NAMES[2], 8)] {
        let ratio = |row: &Vec<Value>| {
            if let Value::Number(ratio) = row[column] { Some(ratio) } else { None }
        };
        table.findings.push(super::summary(peer, table.rows.iter().filter_map(ratio).collect()));
    }
    table
}

fn cold_chains(cell: Cell) -> usize {
    (cell.table / cell.blocks).clamp(2, 1_000)
}

/// Queries in a round.
const QUERIES: usize = 4_000;

/// The fleet that cold prompts are asked of.
const COLD_DEPTHS: usize = 4;
