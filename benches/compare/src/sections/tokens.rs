//! Latency from tokens to match and to plan, hashing included.
//!
//! Each system is filled with its own hashes of the same tokens, and asked by them. Ours hashes on demand; the
//! eager call and the way on to a plan stand beside it, and hashing alone in a table of its own.

use super::arena::{Arena, filled};
use crate::mismatches::compare;
use crate::options::Options;
use crate::results::ResultTable;
use crate::systems::{Lap, NAMES, Prompts};
use crate::targets::Cells;
use pointsman_benches::fleet::{Cell, Content, Fleet, UNSEEN};
use pointsman_benches::measure::{LAPS, Spread};
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_benches::system::BLOCK_TOKENS;
use pointsman_lab::SplitMix64;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let mut matches = table();
    let title = "Hashing alone, blocks of 16 tokens; ours are chained, the peers' are not (ns)";
    let mut hashing = super::comparison("hashing", title, &["blocks"]);
    let lengths: &[usize] = if options.quick { &[16, 512] } else { &[16, 64, 128, 512, 1_024, 4_096] };
    for (at, &blocks) in lengths.iter().enumerate() {
        tell(&format!("length {} of {}: {blocks} blocks", at + 1, lengths.len()));
        let mut arena = arena(blocks, options);
        measure(&mut arena, &mut matches, blocks);
        let order = arena.order(&arena.queries[0].1.clone());
        hashing.rows.push(super::compared(vec![blocks.into()], arena.laps([Lap::Hash; 3], &order)));
    }
    judge(&mut matches);
    super::sum_up(&mut hashing);
    vec![matches, hashing]
}

fn table() -> ResultTable {
    let [ours, smg, dynamo] = NAMES;
    let [to_smg, to_dynamo] = super::ratio_columns();
    let (eager, plan) = (format!("{ours}, eager"), format!("{ours}, to a plan"));
    let columns = ["prompt", "blocks", ours, &eager, &plan, smg, dynamo, &to_smg, &to_dynamo, BETTER, BETTER_TO_PLAN];
    let title = "From tokens to matches, and to a plan by `cache_aware`; blocks of 16 tokens, 64 pods, 4 depths (ns)";
    ResultTable::new("tokens", title, columns)
}

fn judge(table: &mut ResultTable) {
    super::sum_up(table);
    let better = Cells::of(table, BETTER);
    let lines = [
        better.every(1.5, "every cell"),
        better.middle(2.0, "the median cell"),
        Cells::of(table, BETTER_TO_PLAN).every(1.0, "every cell"),
    ];
    table.findings.extend(lines);
}

fn arena(blocks: usize, options: &Options) -> Arena {
    let cell = Cell::new(PODS, blocks, Content::Spread { depths: 4 }, options.table());
    let (mut fleet, mut rng) = (Fleet::build(cell, options.seed), SplitMix64::new(options.seed));
    let held = fleet.chains.len();
    let others = held.min(OTHERS);
    let length = (blocks + UNSEEN) * BLOCK_TOKENS;
    let mut tokens: Vec<Vec<u32>> = (0..held).map(|_| rng.tokens(length)).collect();
    // The first `others` chains have a prompt each that leaves them half-way.
    let shared = blocks / 2;
    for of in 0..others {
        let mut prompt = tokens[of][..shared * BLOCK_TOKENS].to_vec();
        prompt.extend(rng.tokens(length - prompt.len()));
        tokens.push(prompt);
        fleet.held.push(fleet.held[of].iter().map(|&(pod, depth)| (pod, depth.min(shared))).collect());
    }
    tokens.extend((0..others).map(|_| rng.tokens(length)));
    fleet.held.resize(tokens.len(), Vec::new());
    Arena {
        contenders: filled(PODS, Prompts::Tokens(&tokens), &fleet.steps),
        fleet,
        pods: PODS,
        queries: [("held", 0..held), ("partial", held..held + others), ("cold", held + others..tokens.len())],
        tokens,
        rounds: options.rounds * LAPS,
        each: (LAP_BLOCKS / blocks / if options.quick { 4 } else { 1 }).clamp(4, QUERIES),
        rng,
    }
}

/// A row for each kind of prompt.
fn measure(arena: &mut Arena, table: &mut ResultTable, blocks: usize) {
    for (query, prompts) in arena.queries.clone() {
        let order = arena.order(&prompts);
        table.findings.extend(check(arena, &format!("{blocks} blocks, {query}"), &order));
        let times = arena.laps([Lap::TokensLazily, Lap::Tokens, Lap::Tokens], &order);
        let eager = arena.laps([Lap::Tokens; 3], &order)[0];
        // Beside the peers once more, so that the ratio is of one run.
        let planned = arena.laps([Lap::Plan, Lap::Tokens, Lap::Tokens], &order);
        let better = [better(&times), better(&planned)];
        let mut row = super::compared(vec![query.into(), blocks.into()], times);
        row.splice(3..3, [eager.into(), planned[0].into()]);
        row.extend(better.map(Into::into));
        table.rows.push(row);
    }
}

/// Compares what is answered for hashes, for tokens, and what plans say they found.
fn check(arena: &mut Arena, case: &str, order: &[usize]) -> Vec<String> {
    let mut lines = arena.check(case, order);
    let Arena { fleet, tokens, contenders, .. } = arena;
    let (expected, asked) = (|at: usize| fleet.expected_depths(at, PODS), order.iter().copied());
    let by_tokens = format!("{case}, by tokens");
    lines.extend(compare(&by_tokens, contenders, asked.clone(), expected, |system, at, answer| {
        system.depths_of_tokens(&tokens[at], answer);
    }));
    let planned = format!("{case}, planned");
    lines.extend(compare(&planned, &mut contenders[..1], asked, expected, |system, at, answer| {
        // Of one pod only; the others are given as they are.
        answer.copy_from_slice(&expected(at));
        if let Some((pod, held)) = system.planned(&tokens[at]) {
            answer[pod] = held as u32;
        }
    }));
    lines
}

/// The better peer's time over ours.
fn better(times: &[Spread]) -> f64 {
    times[1].median.min(times[2].median) / times[0].median
}

const PODS: usize = 64;

/// Queries in a lap, at most.
const QUERIES: usize = 250;

/// Blocks hashed in a lap, about: a few milliseconds of the slowest.
const LAP_BLOCKS: usize = 64_000;

/// Prompts that are held in part, and prompts that are not held, at most.
const OTHERS: usize = 1_000;

const BETTER: &str = "better peer ÷ ours";
const BETTER_TO_PLAN: &str = "better peer ÷ our plan";
