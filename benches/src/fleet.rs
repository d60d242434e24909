//! Cache workload of a fleet, as engines fill their caches: conversations that grow turn by turn, side by side, on several pods,
//! and are evicted from their ends.
//!
//! The rule: [`Fleet::held`] is right by construction, and every system has to agree with it.

mod history;
pub mod testing;

use std::ops::Range;

use kv_index::BlockHash;
use pointsman_lab::SplitMix64;

use self::history::{PodHistory, interleave};
use crate::random_prompt::RandomPrompt;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "complete by nature")]
pub enum Op {
    /// Stores the blocks in the chain's order.
    Store,
    /// Evicts the blocks, tail first.
    Evict,
}

/// One event of one pod's cache, on blocks of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub fn store(pod: usize, chain: usize, blocks: Range<usize>) -> Self {
        Self { pod, chain, from: blocks.start, to: blocks.end, op: Op::Store }
    }

    /// A pod evicts these blocks of a chain.
    #[must_use]
    pub fn evict(pod: usize, chain: usize, blocks: Range<usize>) -> Self {
        Self { op: Op::Evict, ..Self::store(pod, chain, blocks) }
    }

    /// A pod serves a request: its prompt comes in one event, its answer up to `end` block by block.
    pub fn serve(pod: usize, chain: usize, prompt: Range<usize>, end: usize) -> impl Iterator<Item = Self> {
        let answer = (prompt.end..end).map(|at| at..at + 1);
        std::iter::once(prompt).chain(answer).map(move |blocks| Self::store(pod, chain, blocks))
    }

    /// A pod evicts these blocks of a chain one by one, from the end.
    pub fn evict_singly(pod: usize, chain: usize, blocks: Range<usize>) -> impl Iterator<Item = Self> {
        blocks.rev().map(move |at| Self::evict(pod, chain, at..at + 1))
    }

    /// How many blocks it concerns.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.to - self.from
    }
}

/// Who holds how much of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every measurement names all of them")]
pub enum Content {
    /// [`Cell::holders`] pods at so many evenly spread depths.
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

    /// Distinct depths that pods can really hold a chain to: no more than there are pods and blocks.
    #[must_use]
    pub fn depths(&self) -> usize {
        match self.content {
            Content::Spread { depths } => depths.min(self.pods).min(self.blocks),
            Content::Private => 2,
        }
    }

    /// Pods that hold a chain: one a depth, and in a table that is not large at least an eighth of them.
    #[must_use]
    pub fn holders(&self) -> usize {
        let share = if self.table > LARGE { 1 } else { self.pods / 8 };
        share.max(self.depths())
    }

    /// Chains in the table.
    #[must_use]
    pub fn chains(&self) -> usize {
        let chains = match self.content {
            Content::Spread { .. } => self.table / self.blocks,
            // Two branches and the quarter they share.
            Content::Private => self.table * 8 / (self.blocks * 7),
        };
        chains.clamp(2, MOST_CHAINS)
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
        let mut rng = SplitMix64::new(seed);
        let mut fleet = Self { chains: Vec::new(), steps: Vec::new(), held: Vec::new() };
        let mut histories = Vec::new();
        while fleet.chains.len() < cell.chains() {
            match cell.content {
                Content::Spread { .. } => fleet.add_spread(cell, &mut rng, &mut histories),
                Content::Private => fleet.add_family(cell, &mut rng, &mut histories),
            }
        }
        fleet.steps = interleave(histories, &mut rng);
        fleet
    }

    /// Adds prompts that go their own way after the first `shared` blocks of a held chain; their numbers.
    pub fn add_partial(&mut self, count: usize, shared: usize, rng: &mut SplitMix64) -> Range<usize> {
        let first = self.chains.len();
        for _ in 0..count {
            let of = rng.below(first);
            let mut chain = self.chains[of][..shared].to_vec();
            chain.extend(rng.chain(self.chains[of].len() - shared));
            self.chains.push(chain);
            self.held.push(self.held[of].iter().map(|&(pod, depth)| (pod, depth.min(shared))).collect());
        }
        first..self.chains.len()
    }

    /// Adds prompts that nobody holds anything of; their numbers.
    pub fn add_cold(&mut self, count: usize, blocks: usize, rng: &mut SplitMix64) -> Range<usize> {
        let first = self.chains.len();
        self.chains.extend((0..count).map(|_| rng.chain(blocks)));
        self.held.resize(self.chains.len(), Vec::new());
        first..self.chains.len()
    }

    /// What every system must answer for a chain, by pod.
    #[must_use]
    pub fn expected_depths(&self, chain: usize, pods: usize) -> Vec<u32> {
        let mut depths = vec![0; pods];
        for &(pod, depth) in &self.held[chain] {
            depths[pod] = depth as u32;
        }
        depths
    }

    fn add_spread(&mut self, cell: Cell, rng: &mut SplitMix64, histories: &mut Vec<PodHistory>) {
        let (depths, holders) = (cell.depths(), cell.holders());
        let chain = self.chains.len();
        self.chains.push(rng.chain(cell.blocks + UNSEEN));
        let mut held = Vec::new();
        let pods = some_pods(cell.pods, holders + 1, rng);
        for (i, &pod) in pods[..holders].iter().enumerate() {
            let keep = cell.blocks * (i % depths + 1) / depths;
            histories.push(PodHistory { pod, chain, reach: keep + rng.below(UNSEEN + 1), keep });
            held.push((pod, keep));
        }
        // Now and then another pod held it all and gave all of it up.
        if let (Some(&pod), 0) = (pods.get(holders), chain % 8) {
            histories.push(PodHistory { pod, chain, reach: cell.blocks, keep: 0 });
        }
        self.held.push(held);
    }

    fn add_family(&mut self, cell: Cell, rng: &mut SplitMix64, histories: &mut Vec<PodHistory>) {
        let shared = cell.blocks / 4;
        let trunk = rng.chain(shared);
        let first = self.chains.len();
        let pods = some_pods(cell.pods, cell.pods / 4 + 2, rng);
        for branch in 0..2 {
            let mut chain = trunk.clone();
            chain.extend(rng.chain(cell.blocks + UNSEEN - shared));
            self.chains.push(chain);
            let reach = cell.blocks + rng.below(UNSEEN + 1);
            histories.push(PodHistory { pod: pods[branch], chain: first + branch, reach, keep: cell.blocks });
            let depth = |i: usize| if i == branch { cell.blocks } else { shared };
            self.held.push(pods.iter().enumerate().map(|(i, &pod)| (pod, depth(i))).collect());
        }
        for &pod in &pods[2..] {
            histories.push(PodHistory { pod, chain: first, reach: shared + rng.below(UNSEEN + 1), keep: shared });
        }
    }
}

fn some_pods(pods: usize, count: usize, rng: &mut SplitMix64) -> Vec<usize> {
    let mut all: Vec<usize> = (0..pods).collect();
    rng.shuffle(&mut all);
    all.truncate(count);
    all
}

/// Blocks at the end of a query that no pod holds; some held them and gave them up.
pub const UNSEEN: usize = 8;

/// Distinct blocks from which on a table is large: a core's own caches do not hold it, and with as many holders as
/// in a small one three systems would each keep 160 million held blocks.
pub const LARGE: usize = 1_000_000;

/// Chains in a table, at most: SMG 2.0.0 panics past 262,144 different first blocks.
pub const MOST_CHAINS: usize = 200_000;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::testing::samples;
    use super::*;
    use crate::oracle::Oracle;

    #[test]
    fn what_is_held_is_what_the_steps_leave() {
        for (cell, fleet) in samples(5) {
            let mut oracle = Oracle::default();
            oracle.write(&fleet.chains, &fleet.steps);
            for (chain, hashes) in fleet.chains.iter().enumerate() {
                let (held, expected) = (oracle.depths(hashes, cell.pods), fleet.expected_depths(chain, cell.pods));
                assert_eq!(held, expected, "{cell:?}, chain {chain}");
            }
        }
    }

    #[test]
    fn no_pod_stores_twice_what_it_holds_or_evicts_what_it_does_not() {
        for (_, fleet) in samples(5) {
            let mut blocks = HashSet::new();
            for step in &fleet.steps {
                for &hash in &fleet.chains[step.chain][step.from..step.to] {
                    match step.op {
                        Op::Store => assert!(step.blocks() > 0 && blocks.insert((step.pod, hash))),
                        Op::Evict => assert!(step.blocks() == 1 && blocks.remove(&(step.pod, hash))),
                    }
                }
            }
        }
    }

    #[test]
    fn queries_are_held_to_as_many_depths_as_the_cell_says() {
        for (cell, fleet) in samples(5) {
            // But for prompts that were added later.
            for held in &fleet.held[..cell.chains()] {
                let depths: HashSet<usize> = held.iter().map(|&(_, depth)| depth).collect();
                assert_eq!(depths.len(), cell.depths(), "{cell:?}");
                assert!(depths.contains(&cell.blocks));
            }
        }
        assert_eq!(Cell::new(256, 16, Content::Spread { depths: 1 }, 5_000_000).holders(), 1);
        assert_eq!(Cell::new(256, 16, Content::Spread { depths: 1 }, 100_000).holders(), 32);
    }
}
