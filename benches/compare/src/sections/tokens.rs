//! Latency from tokens to match and to plan, hashing included.
//!
//! Each system is filled with its own hashes of the same tokens, and asked by them. Ours hashes on demand; the
//! eager call and the way on to a plan stand beside it, and hashing alone in a table of its own.

use std::ops::Range;

use crate::options::Options;
use crate::results::{ResultTable, Value};
use crate::systems::{Contender, Lap, NAMES, Prompts, contenders};
use crate::targets::Cells;
use pointsman_benches::fleet::{Cell, Content, Fleet, UNSEEN};
use pointsman_benches::measure::{LAPS, Spread, in_turn};
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_benches::system::BLOCK_TOKENS;
use pointsman_lab::SplitMix64;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let (mut matches, mut hashing) = tables();
    let blocks: &[usize] = if options.quick { &[16, 512] } else { &[16, 64, 128, 512, 1_024, 4_096] };
    for (at, &each) in blocks.iter().enumerate() {
        tell(&format!("length {} of {}: {each} blocks", at + 1, blocks.len()));
        let mut arena = Arena::new(each, options);
        for (query, prompts) in arena.queries.clone() {
            arena.measure(&mut matches, query, prompts);
        }
        let order = arena.order(arena.queries[0].1.clone());
        let times = arena.laps([Way::Hash; 3], &order);
        let mut row = vec![Value::from(each)];
        row.extend(times.iter().map(|&time| Value::from(time)));
        row.extend(super::ratios(&times));
        hashing.rows.push(row);
    }
    judge(&mut matches);
    super::sum_up(&mut hashing, 1);
    vec![matches, hashing]
}

fn tables() -> (ResultTable, ResultTable) {
    let [ours, smg, dynamo] = NAMES;
    let [to_smg, to_dynamo] = super::ratio_columns();
    let (eager, plan) = (format!("{ours}, eager"), format!("{ours}, to a plan"));
    let columns = ["prompt", "blocks", ours, &eager, &plan, smg, dynamo, &to_smg, &to_dynamo, BETTER, BETTER_TO_PLAN];
    let title = "From tokens to matches, and to a plan by `cache_aware`; blocks of 16 tokens, 64 pods, 4 depths (ns)";
    let matches = ResultTable::new("tokens", title, columns);
    let title = "Hashing alone, blocks of 16 tokens; ours are chained, the peers' are not (ns)";
    (matches, ResultTable::new("hashing", title, ["blocks", ours, smg, dynamo, &to_smg, &to_dynamo]))
}

fn judge(table: &mut ResultTable) {
    super::sum_up(table, LABELS);
    let better = Cells::of(table, LABELS, BETTER);
    let lines = [
        better.every(BETTER, 1.5, "every cell"),
        better.middle(BETTER, 2.0, "the median cell"),
        Cells::of(table, LABELS, BETTER_TO_PLAN).every(BETTER_TO_PLAN, 1.0, "every cell"),
    ];
    table.findings.extend(lines);
}

/// A way to ask about prompts.
#[derive(Clone, Copy)]
enum Way {
    Hash,
    Eager,
    Lazy,
    Plan,
}

impl Way {
    const fn lap(self, prompts: &[Vec<u32>]) -> Lap<'_> {
        match self {
            Self::Hash => Lap::Hash(prompts),
            Self::Eager => Lap::Tokens(prompts),
            Self::Lazy => Lap::TokensLazily(prompts),
            Self::Plan => Lap::Plan(prompts),
        }
    }
}

/// One fleet in every system, with prompts to ask about.
struct Arena {
    fleet: Fleet,
    prompts: Vec<Vec<u32>>,
    queries: [(&'static str, Range<usize>); 3],
    contenders: Vec<Box<dyn Contender>>,
    blocks: usize,
    rounds: usize,
    each: usize,
    seed: u64,
}

impl Arena {
    fn new(blocks: usize, options: &Options) -> Self {
        let cell = Cell::new(PODS, blocks, Content::Spread { depths: 4 }, options.table());
        let mut fleet = Fleet::build(cell, options.seed);
        let mut rng = SplitMix64::new(options.seed);
        let held = fleet.chains.len();
        let others = held.min(OTHERS);
        let tokens = (blocks + UNSEEN) * BLOCK_TOKENS;
        let mut prompts: Vec<Vec<u32>> = (0..held).map(|_| rng.tokens(tokens)).collect();
        // The first `others` chains have a prompt each that leaves them half-way.
        let shared = blocks / 2;
        for of in 0..others {
            let mut prompt = prompts[of][..shared * BLOCK_TOKENS].to_vec();
            prompt.extend(rng.tokens(tokens - prompt.len()));
            prompts.push(prompt);
            fleet.held.push(fleet.held[of].iter().map(|&(pod, depth)| (pod, depth.min(shared))).collect());
        }
        prompts.extend((0..others).map(|_| rng.tokens(tokens)));
        fleet.held.resize(prompts.len(), Vec::new());
        let mut contenders = contenders(PODS, Prompts::Tokens(&prompts));
        for contender in &mut contenders {
            contender.write(&fleet.steps);
        }
        let queries = [("held", 0..held), ("partial", held..held + others), ("cold", held + others..held + 2 * others)];
        let (rounds, seed) = (options.rounds * LAPS, options.seed);
        let each = (LAP_BLOCKS / blocks / if options.quick { 4 } else { 1 }).clamp(4, QUERIES);
        Self { fleet, prompts, queries, contenders, blocks, rounds, each, seed }
    }

    fn measure(&mut self, table: &mut ResultTable, query: &str, prompts: Range<usize>) {
        let order = self.order(prompts);
        table.findings.extend(self.check(&format!("{} blocks, {query}", self.blocks), &order));
        let times = self.laps([Way::Lazy, Way::Eager, Way::Eager], &order);
        let eager = self.laps([Way::Eager; 3], &order)[0];
        // Beside the peers once more, so that the ratio is of one run.
        let planned = self.laps([Way::Plan, Way::Eager, Way::Eager], &order);
        let mut row = vec![query.into(), self.blocks.into()];
        row.extend([times[0], eager, planned[0], times[1], times[2]].map(Value::from));
        row.extend(super::ratios(&times));
        row.extend([better(&times), better(&planned)].map(Value::from));
        table.rows.push(row);
    }

    /// Compares what is answered for hashes, for tokens, and what plans say they found.
    fn check(&mut self, case: &str, order: &[usize]) -> Vec<String> {
        let Self { fleet, prompts, contenders, .. } = self;
        let mut lines = super::disagreements(case, fleet, contenders, PODS, order);
        lines.extend(super::compare(
            &format!("{case}, by tokens"),
            fleet,
            contenders,
            PODS,
            order,
            |system, at, answer| {
                system.depths_of_tokens(&prompts[at], answer);
            },
        ));
        let case = format!("{case}, planned");
        lines.extend(super::compare(&case, fleet, &mut contenders[..1], PODS, order, |system, at, answer| {
            // Of one pod only; the others are given as they are.
            fleet.expected_depths(at, answer);
            if let Some((pod, held)) = system.planned(&prompts[at]) {
                answer[pod] = held as u32;
            }
        }));
        lines
    }

    /// Prompts for every round, another portion for each.
    fn order(&self, prompts: Range<usize>) -> Vec<usize> {
        let draws = SplitMix64::new(self.seed ^ 0x0DD).draws(self.each * self.rounds, prompts.len());
        draws.into_iter().map(|draw| prompts.start + draw).collect()
    }

    /// Times every system, each its way, in turn.
    fn laps(&mut self, ways: [Way; 3], order: &[usize]) -> Vec<Spread> {
        let Self { contenders, prompts, each, rounds, .. } = self;
        in_turn(*rounds, ways.len(), |round, lane| {
            let asked = &order[round * *each..][..*each];
            contenders[lane].time(ways[lane].lap(prompts), asked).as_nanos() as f64 / *each as f64
        })
    }
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

/// Columns that name a row.
const LABELS: usize = 2;

const BETTER: &str = "better peer ÷ ours";
const BETTER_TO_PLAN: &str = "better peer ÷ our plan";
