//! A fleet's caches as engines fill them: one event per prefill, decode blocks appended one by one, tails
//! evicted one by one.
//!
//! The rule: [`Fleet::held`] is the truth by construction, and every system has to agree with it.

use kv_index::BlockHash;

use crate::rng::Rng;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Stores the blocks in the chain's order.
    Store,
    /// Evicts the blocks, tail first.
    Evict,
}

/// One event of one pod's cache, on blocks of a chain.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Step {
    /// Which pod.
    pub pod: usize,
    /// Which chain.
    pub chain: usize,
    /// First block.
    pub from: usize,
    /// One past the last block.
    pub to: usize,
    /// What happens to them.
    pub op: Op,
}

impl Step {
    /// A pod stores these blocks of a chain.
    #[must_use]
    pub fn store(pod: usize, chain: usize, blocks: std::ops::Range<usize>) -> Self {
        Self { pod, chain, from: blocks.start, to: blocks.end, op: Op::Store }
    }

    /// A pod evicts these blocks of a chain.
    #[must_use]
    pub fn evict(pod: usize, chain: usize, blocks: std::ops::Range<usize>) -> Self {
        Self { op: Op::Evict, ..Self::store(pod, chain, blocks) }
    }

    /// How many blocks it concerns.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.to - self.from
    }
}

/// Who holds how much of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// An eighth of the pods, and at least one a depth, at so many evenly spread depths.
    Spread {
        /// Distinct depths at which pods hold a chain.
        depths: usize,
    },
    /// A quarter of the pods hold the shared first quarter; two more hold that and a branch each of its own.
    Private,
}

/// One cell of a grid.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Cell {
    /// Pods in the fleet.
    pub pods: usize,
    /// Blocks the deepest holder of a chain has.
    pub blocks: usize,
    /// Who holds what.
    pub content: Content,
    /// Distinct blocks in the whole table, about.
    pub table: usize,
}

impl Cell {
    /// A cell.
    #[must_use]
    pub const fn new(pods: usize, blocks: usize, content: Content, table: usize) -> Self {
        Self { pods, blocks, content, table }
    }
}

/// Chains, how they came to be cached, and who holds them in the end.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fleet {
    /// Every chain, with [`UNSEEN`] blocks at its end that nobody holds.
    pub chains: Vec<Vec<BlockHash>>,
    /// Everything that happened, in order.
    pub steps: Vec<Step>,
    /// By chain: pods and how many leading blocks each of them holds in the end.
    pub held: Vec<Vec<(usize, usize)>>,
}

impl Fleet {
    /// Builds a cell's fleet.
    #[must_use]
    pub fn build(cell: Cell, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut fleet = Self { chains: Vec::new(), steps: Vec::new(), held: Vec::new() };
        let mut stories = Vec::new();
        match cell.content {
            Content::Spread { depths } => {
                for _ in 0..(cell.table / cell.blocks).max(2) {
                    fleet.add_spread(cell, depths, &mut rng, &mut stories);
                }
            }
            Content::Private => {
                for _ in 0..(cell.table * 4 / (cell.blocks * 7)).max(1) {
                    fleet.add_family(cell, &mut rng, &mut stories);
                }
            }
        }
        fleet.steps = interleave(stories, &mut rng);
        fleet
    }

    /// What every system must answer for a chain, by pod.
    pub fn truth(&self, chain: usize, depths: &mut [u32]) {
        depths.fill(0);
        for &(pod, depth) in &self.held[chain] {
            depths[pod] = depth as u32;
        }
    }

    fn add_spread(&mut self, cell: Cell, depths: usize, rng: &mut Rng, stories: &mut Vec<Vec<Step>>) {
        let depths = depths.min(cell.pods).min(cell.blocks);
        let holders = (cell.pods / 8).max(depths);
        let chain = self.chains.len();
        self.chains.push(rng.chain(cell.blocks + UNSEEN));
        let mut held = Vec::new();
        for (i, pod) in some_pods(cell.pods, holders, rng).into_iter().enumerate() {
            let depth = cell.blocks * (i % depths + 1) / depths;
            stories.push(story(pod, chain, depth, cell.blocks));
            held.push((pod, depth));
        }
        self.held.push(held);
    }

    fn add_family(&mut self, cell: Cell, rng: &mut Rng, stories: &mut Vec<Vec<Step>>) {
        let shared = cell.blocks / 4;
        let trunk = rng.chain(shared);
        let first = self.chains.len();
        let pods = some_pods(cell.pods, cell.pods / 4 + 2, rng);
        for branch in 0..2 {
            let mut chain = trunk.clone();
            chain.extend(rng.chain(cell.blocks + UNSEEN - shared));
            self.chains.push(chain);
            stories.push(story(pods[branch], first + branch, cell.blocks, cell.blocks));
            let depth = |i: usize| if i == branch { cell.blocks } else { shared };
            self.held.push(pods.iter().enumerate().map(|(i, &pod)| (pod, depth(i))).collect());
        }
        stories.extend(pods[2..].iter().map(|&pod| story(pod, first, shared, shared)));
    }
}

fn some_pods(pods: usize, count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..pods).collect();
    rng.shuffle(&mut all);
    all.truncate(count);
    all
}

/// How a pod came to hold `depth` blocks of a chain: most by prefill, the rest one by one, some too many
/// and evicted again.
fn story(pod: usize, chain: usize, depth: usize, longest: usize) -> Vec<Step> {
    let decode = (depth / 4).min(32);
    let prefill = depth - decode;
    let over = (depth + 4).min(longest);
    let mut steps = Vec::new();
    if prefill > 0 {
        steps.push(Step::store(pod, chain, 0..prefill));
    }
    steps.extend((prefill..over).map(|at| Step::store(pod, chain, at..at + 1)));
    steps.extend((depth..over).rev().map(|at| Step::evict(pod, chain, at..at + 1)));
    steps
}

/// Runs stories side by side in bunches, as requests of many conversations run.
fn interleave(mut stories: Vec<Vec<Step>>, rng: &mut Rng) -> Vec<Step> {
    rng.shuffle(&mut stories);
    let mut steps = Vec::new();
    for bunch in stories.chunks(32) {
        let mut at = vec![0; bunch.len()];
        let mut open: Vec<usize> = (0..bunch.len()).collect();
        while !open.is_empty() {
            let pick = rng.below(open.len());
            let story = open[pick];
            steps.push(bunch[story][at[story]]);
            at[story] += 1;
            if at[story] == bunch[story].len() {
                open.swap_remove(pick);
            }
        }
    }
    steps
}

/// Blocks at the end of a query that no pod holds.
pub const UNSEEN: usize = 8;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::systems::{Prompts, contenders};

    const CELLS: [Cell; 3] = [
        Cell::new(8, 16, Content::Spread { depths: 4 }, 200),
        Cell::new(64, 40, Content::Spread { depths: 16 }, 500),
        Cell::new(64, 32, Content::Private, 500),
    ];

    #[test]
    fn what_is_held_is_what_the_steps_leave() {
        for cell in CELLS {
            let fleet = Fleet::build(cell, 5);
            let mut blocks = HashSet::new();
            for step in &fleet.steps {
                for &hash in &fleet.chains[step.chain][step.from..step.to] {
                    match step.op {
                        Op::Store => assert!(step.blocks() > 0 && blocks.insert((step.pod, hash))),
                        Op::Evict => assert!(blocks.remove(&(step.pod, hash))),
                    }
                }
            }
            let mut truth = vec![0; cell.pods];
            for (chain, hashes) in fleet.chains.iter().enumerate() {
                fleet.truth(chain, &mut truth);
                for (pod, &depth) in truth.iter().enumerate() {
                    let held = hashes.iter().take_while(|&&hash| blocks.contains(&(pod, hash)));
                    assert_eq!(held.count(), depth as usize, "{cell:?}, chain {chain}, pod {pod}");
                }
            }
        }
    }

    #[test]
    fn every_system_answers_the_truth() {
        for cell in CELLS {
            let fleet = Fleet::build(cell, 6);
            let (mut truth, mut answer) = (vec![0; cell.pods], vec![0; cell.pods]);
            for mut contender in contenders(cell.pods, Prompts::Hashes(&fleet.chains)) {
                contender.write(&fleet.steps);
                for chain in 0..fleet.chains.len() {
                    fleet.truth(chain, &mut truth);
                    contender.depths(chain, &mut answer);
                    assert_eq!(answer, truth, "{}, {cell:?}, chain {chain}", contender.name());
                }
            }
        }
    }
}
