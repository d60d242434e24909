//! Write cost per block: stores that extend, diverge and repeat, and evictions.
//!
//! Each round fills a fresh system, so what its tables cost to grow is part of the figure. A round untimed comes
//! first, in which the answers are compared with the expected after every phase.

use std::ops::Range;

use kv_index::BlockHash;

use crate::options::Options;
use crate::results::ResultTable;
use crate::systems::{MAKERS, Prompts};
use pointsman_benches::fleet::Step;
use pointsman_benches::measure::{Spread, by_phase};
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_lab::SplitMix64;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let mut table = super::comparison("writes", "Events, 64 pods (ns per block)", &["event", "blocks a chain"]);
    let lengths: &[usize] = if options.quick { &[64] } else { &[16, 64, 512] };
    for (at, &blocks) in lengths.iter().enumerate() {
        tell(&format!("length {} of {}: chains of {blocks} blocks", at + 1, lengths.len()));
        let plan = Plan::new(blocks, (options.table() / blocks).max(1), options.seed);
        table.findings.extend(plan.check());
        for ((phase, _), times) in plan.phases.iter().zip(plan.measure(options.rounds)) {
            table.rows.push(super::compared(vec![(*phase).into(), blocks.into()], times));
        }
    }
    super::sum_up(&mut table);
    super::judge_rows(&mut table);
    vec![table]
}

/// Events in phases, each timed on its own.
struct Plan {
    blocks: usize,
    /// Chains, and after them as many that leave them half-way.
    chains: Vec<Vec<BlockHash>>,
    phases: [(&'static str, Vec<Step>); PHASES],
}

impl Plan {
    fn new(blocks: usize, count: usize, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let mut chains: Vec<_> = (0..count).map(|_| rng.chain(blocks + TAIL)).collect();
        let half = blocks / 2;
        for of in 0..count {
            let mut branch = chains[of][..half].to_vec();
            branch.extend(rng.chain(blocks - half));
            chains.push(branch);
        }
        let each = |pods: Range<usize>, first: usize, step: Make, part: Range<usize>| -> Vec<Step> {
            let of_pod = |pod| (0..count).map(move |chain| ((chain + pod) % PODS, first + chain));
            pods.flat_map(of_pod).map(|(pod, chain)| step(pod, chain, part.clone())).collect()
        };
        let tail = blocks..blocks + TAIL;
        let singles = tail.clone().map(|at| at..at + 1);
        let phases = [
            ("store a new chain", each(0..1, 0, Step::store, 0..blocks)),
            ("repeat it", each(0..1, 0, Step::store, 0..blocks)),
            ("store it on a second pod", each(1..2, 0, Step::store, 0..blocks)),
            ("store it on six more", each(2..8, 0, Step::store, 0..blocks)),
            ("repeat it on those", each(2..8, 0, Step::store, 0..blocks)),
            ("diverge half-way", each(0..1, count, Step::store, half..blocks)),
            ("diverge there on another pod", each(1..2, count, Step::store, half..blocks)),
            ("extend by one block", side_by_side(count, singles.clone(), Step::store)),
            ("evict one block", side_by_side(count, singles.clone().rev(), Step::evict)),
            ("extend by one block, in batches", batches(count, singles.clone(), Step::store)),
            ("evict one block, in batches", batches(count, singles.rev(), Step::evict)),
            ("extend by 32 blocks", each(0..1, 0, Step::store, tail.clone())),
            ("evict 32 blocks", each(0..1, 0, Step::evict, tail)),
            ("evict a branch in one event", each(0..1, count, Step::evict, half..blocks)),
            ("evict a chain block by block", side_by_side(count, (0..blocks).rev().map(|at| at..at + 1), Step::evict)),
            ("evict a chain in one event", each(2..3, 0, Step::evict, 0..blocks)),
        ];
        Self { blocks, chains, phases }
    }

    /// Plays the phases untimed and compares answers for some chains after each.
    fn check(&self) -> Vec<String> {
        let asked = (0..self.chains.len()).step_by((self.chains.len() / 50).max(1));
        let case = |phase: &str| format!("chains of {} after `{phase}`", self.blocks);
        super::rehearse(PODS, &self.chains, self.phases.iter().map(|(phase, steps)| (case(phase), &**steps)), asked)
    }

    fn measure(&self, rounds: usize) -> [Vec<Spread>; PHASES] {
        by_phase(rounds, MAKERS.len(), |lane| {
            let mut system = MAKERS[lane](PODS, Prompts::Hashes(&self.chains));
            self.phases.each_ref().map(|(phase, steps)| {
                let blocks: usize = steps.iter().map(Step::blocks).sum();
                let is_batched = phase.ends_with(BATCHED);
                let time = if is_batched { system.write_batches(steps, BATCH) } else { system.write(steps) };
                time.as_nanos() as f64 / blocks as f64
            })
        })
    }
}

/// Makes a step of a pod, a chain and blocks of it.
type Make = fn(usize, usize, Range<usize>) -> Step;

/// One event a block, for as many conversations at a time as are decoding side by side.
fn side_by_side(count: usize, blocks: impl Iterator<Item = Range<usize>> + Clone, step: Make) -> Vec<Step> {
    let chains: Vec<usize> = (0..count).collect();
    let mut steps = Vec::new();
    for bunch in chains.chunks(32) {
        for block in blocks.clone() {
            steps.extend(bunch.iter().map(|&chain| step(chain % PODS, chain, block.clone())));
        }
    }
    steps
}

/// One event a block, as many conversations of one pod at a time as an engine's step serves: a message has one block of each.
fn batches(count: usize, blocks: impl Iterator<Item = Range<usize>> + Clone, step: Make) -> Vec<Step> {
    let mut steps = Vec::new();
    for pod in 0..PODS {
        let chains: Vec<usize> = (pod..count).step_by(PODS).collect();
        for bunch in chains.chunks(BATCH) {
            for block in blocks.clone() {
                steps.extend(bunch.iter().map(|&chain| step(pod, chain, block.clone())));
            }
        }
    }
    steps
}

const PODS: usize = 64;
const PHASES: usize = 16;

/// Events of a message, and how phases are called that are sent so.
const BATCH: usize = 32;
const BATCHED: &str = "in batches";

/// Blocks that are appended and evicted again.
const TAIL: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_agrees_after_every_phase() {
        assert_eq!(Plan::new(16, 70, 3).check(), Vec::<String>::new());
    }
}
