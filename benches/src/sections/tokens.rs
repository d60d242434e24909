//! What does a decision cost from tokens on, hashing included?
//!
//! Each system is filled with its own hashes of the same tokens, and asked by them.

use crate::fleet::{Cell, Content, Fleet, UNSEEN};
use crate::measure::interleaved;
use crate::options::Options;
use crate::report::{Table, Value};
use crate::rng::Rng;
use crate::systems::{BLOCK_TOKENS, Lap, NAMES, Prompts, contenders};

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<Table> {
    let [ours, smg, dynamo] = NAMES;
    let (lazy, plan) = (format!("{ours}, lazy"), format!("{ours}, to a plan"));
    let ratios = [format!("{smg} ÷ ours"), format!("{dynamo} ÷ ours"), format!("{smg} ÷ our plan")];
    let columns = ["prompt", "blocks", ours, &lazy, &plan, smg, dynamo, &ratios[0], &ratios[1], &ratios[2]];
    let title = "From tokens to matches, and to a plan by `cache_aware`; blocks of 16 tokens, 64 pods, 4 depths (ns)";
    let mut table = Table::new("tokens", title, columns);
    let blocks: &[usize] = if options.quick { &[16, 512] } else { &[16, 64, 128, 512, 1_024, 4_096] };
    for &blocks in blocks {
        tell(&format!("tokens: {blocks} blocks"));
        cell(Cell::new(PODS, blocks, Content::Spread { depths: 4 }, options.table), options, &mut table);
    }
    vec![table]
}

fn cell(cell: Cell, options: &Options, table: &mut Table) {
    let mut fleet = Fleet::build(cell, options.seed);
    let held = fleet.chains.len();
    fleet.held.extend((0..held.min(COLD)).map(|_| Vec::new()));
    let mut rng = Rng::new(options.seed);
    let length = (cell.blocks + UNSEEN) * BLOCK_TOKENS;
    let prompts: Vec<Vec<u32>> = fleet.held.iter().map(|_| rng.tokens(length)).collect();
    let mut contenders = contenders(PODS, Prompts::Tokens(&prompts));
    for contender in &mut contenders {
        contender.write(&fleet.steps);
    }
    let warm = rng.draws(QUERIES, held);
    let cold = rng.draws(QUERIES, prompts.len() - held).into_iter().map(|i| held + i).collect();
    for (name, order) in [("held", warm), ("cold", cold)] {
        let case = format!("{} blocks, {name}", cell.blocks);
        table.findings.extend(super::disagreements(&case, &fleet, &mut contenders, PODS, &order));
        let mut laps = |ours| {
            let laps = [ours, Lap::Tokens(&prompts), Lap::Tokens(&prompts)];
            interleaved(options.rounds, laps.len(), |lane| {
                contenders[lane].time(laps[lane], &order).as_nanos() as f64 / order.len() as f64
            })
        };
        let times = laps(Lap::Tokens(&prompts));
        let lazy = laps(Lap::TokensLazily(&prompts))[0];
        // Beside the peers once more, so that the ratio is of one run.
        let planned = laps(Lap::Plan(&prompts));
        let mut row = vec![name.into(), cell.blocks.into()];
        row.extend([times[0], lazy, planned[0], times[1], times[2]].map(Value::from));
        row.extend([1, 2].map(|peer| Value::from(times[peer].median / times[0].median)));
        row.push(Value::from(planned[1].median / planned[0].median));
        table.rows.push(row);
    }
}

const PODS: usize = 64;

/// Queries in a round.
const QUERIES: usize = 1_000;

/// Prompts that nobody holds, at most.
const COLD: usize = 1_000;
