//! Write cost per block: stores that extend, diverge and repeat, and evictions.
//!
//! Each round fills a fresh system, so what its tables cost to grow is part of the figure. A round untimed comes
//! first, in which the answers are compared with the expected after every phase.

use std::ops::Range;

use kv_index::BlockHash;

use crate::mismatches::disagreements;
use crate::options::Options;
use crate::results::{ResultTable, Value};
use crate::systems::{MAKERS, NAMES, Prompts, contenders};
use crate::targets::Cells;
use pointsman_benches::fleet::Step;
use pointsman_benches::measure::{Spread, interleaved};
use pointsman_benches::oracle::Oracle;
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_lab::SplitMix64;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let [ours, smg, dynamo] = NAMES;
    let [to_smg, to_dynamo] = super::ratio_columns();
    let columns = ["event", "blocks a chain", ours, smg, dynamo, &to_smg, &to_dynamo];
    let mut table = ResultTable::new("writes", "Events, 64 pods (ns per block)", columns);
    let lengths: &[usize] = if options.quick { &[64] } else { &[16, 64, 512] };
    for (at, &blocks) in lengths.iter().enumerate() {
        tell(&format!("length {} of {}: chains of {blocks} blocks", at + 1, lengths.len()));
        let plan = Plan::new(blocks, (options.table() / blocks).max(1), options.seed);
        table.findings.extend(plan.check());
        for (phase, times) in plan.measure(options.rounds) {
            let mut row = vec![phase.into(), Value::from(blocks)];
            row.extend(times.iter().map(|&time| Value::from(time)));
            row.extend(super::ratios(&times));
            table.rows.push(row);
        }
    }
    super::sum_up(&mut table, 2);
    let line = Cells::of(&table, 2, &to_smg).every(&to_smg, 1.0, "every row");
    table.findings.push(line);
    vec![table]
}

/// Events in phases, each timed on its own.
struct Plan {
    blocks: usize,
    /// Chains, and after them as many that leave them half-way.
    chains: Vec<Vec<BlockHash>>,
    phases: Vec<(&'static str, Vec<Step>)>,
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
        let phases = vec![
            ("store a new chain", each(0..1, 0, Step::store, 0..blocks)),
            ("repeat it", each(0..1, 0, Step::store, 0..blocks)),
            ("store it on a second pod", each(1..2, 0, Step::store, 0..blocks)),
            ("store it on six more", each(2..8, 0, Step::store, 0..blocks)),
            ("repeat it on those", each(2..8, 0, Step::store, 0..blocks)),
            ("diverge half-way", each(0..1, count, Step::store, half..blocks)),
            ("diverge there on another pod", each(1..2, count, Step::store, half..blocks)),
            ("extend by one block", side_by_side(count, singles.clone(), Step::store)),
            ("evict one block", side_by_side(count, singles.rev(), Step::evict)),
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
        let mut oracle = Oracle::default();
        let mut contenders = contenders(PODS, Prompts::Hashes(&self.chains));
        let asked = (0..self.chains.len()).step_by((self.chains.len() / 50).max(1));
        let mut lines = Vec::new();
        for (phase, steps) in &self.phases {
            oracle.write(&self.chains, steps);
            for contender in &mut contenders {
                contender.write(steps);
            }
            let case = format!("chains of {} after `{phase}`", self.blocks);
            lines.extend(disagreements(&oracle, &case, &self.chains, asked.clone(), PODS, &mut contenders));
        }
        let refusals = contenders.iter().filter(|contender| contender.refused() > 0);
        lines.extend(refusals.map(|c| format!("REFUSES: {} would not take {} stores", c.name(), c.refused())));
        lines
    }

    fn measure(&self, rounds: usize) -> Vec<(&'static str, Vec<Spread>)> {
        let mut samples = vec![vec![Vec::new(); MAKERS.len()]; self.phases.len()];
        interleaved(rounds, MAKERS.len(), |lane| {
            let mut system = MAKERS[lane](PODS, Prompts::Hashes(&self.chains));
            for ((_, steps), samples) in self.phases.iter().zip(&mut samples) {
                let blocks: usize = steps.iter().map(Step::blocks).sum();
                samples[lane].push(system.write(steps).as_nanos() as f64 / blocks as f64);
            }
            0.0
        });
        let spreads = samples.into_iter().map(|phase| phase.into_iter().map(Spread::of).collect());
        self.phases.iter().map(|(name, _)| *name).zip(spreads).collect()
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

const PODS: usize = 64;

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
