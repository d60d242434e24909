//! A fleet's caches as engines fill them: one event per prefill, decode blocks appended one by one,
//! tails evicted one by one.

use kv_index::BlockHash;

/// A small seeded generator (splitmix64): the same seed, the same fleet.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Puts a slice in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// One change of one pod's cache, on blocks of a chain.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Which pod.
    pub pod: usize,
    /// Which chain.
    pub chain: usize,
    /// First block.
    pub from: usize,
    /// One past the last block.
    pub to: usize,
    /// Stored, or removed tail first.
    pub store: bool,
}

/// One cell of the search grid.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Pods in the fleet.
    pub pods: usize,
    /// Blocks the deepest holder of a chain has.
    pub blocks: usize,
    /// Distinct depths at which pods hold a chain.
    pub depths: usize,
    /// Distinct blocks in the whole table, about.
    pub table: usize,
}

/// Chains, how they came to be cached, and what is asked.
#[derive(Debug)]
pub struct Fleet {
    /// Every chain, with a few blocks at its end that nobody holds.
    pub chains: Vec<Vec<BlockHash>>,
    /// Everything that happened, in order.
    pub steps: Vec<Step>,
}

impl Fleet {
    /// Builds a cell: each chain is held by an eighth of the pods, at least as many as there are depths, at
    /// evenly spread depths.
    #[must_use]
    pub fn build(cell: Cell, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let count = (cell.table / cell.blocks).max(2);
        let depths = cell.depths.min(cell.pods).min(cell.blocks);
        let holders = (cell.pods / 8).max(depths);
        let mut chains = Vec::with_capacity(count);
        let mut stories = Vec::new();
        for chain in 0..count {
            chains.push((0..cell.blocks + UNSEEN).map(|_| BlockHash::new(rng.next())).collect());
            let mut pods: Vec<usize> = (0..cell.pods).collect();
            rng.shuffle(&mut pods);
            for (i, &pod) in pods[..holders].iter().enumerate() {
                let depth = cell.blocks * (i % depths + 1) / depths;
                stories.push(story(pod, chain, depth, cell.blocks));
            }
        }
        // Stories run interleaved in bunches, as requests of many conversations do.
        rng.shuffle(&mut stories);
        let mut steps = Vec::new();
        for bunch in stories.chunks_mut(32) {
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
        Self { chains, steps }
    }
}

/// How a pod came to hold `depth` blocks of a chain: most by prefill, the rest one by one, some too many
/// and evicted again.
fn story(pod: usize, chain: usize, depth: usize, blocks: usize) -> Vec<Step> {
    let decode = (depth / 4).min(32);
    let prefill = depth - decode;
    let over = (depth + 4).min(blocks);
    let mut steps = Vec::new();
    if prefill > 0 {
        steps.push(Step { pod, chain, from: 0, to: prefill, store: true });
    }
    steps.extend((prefill..over).map(|at| Step { pod, chain, from: at, to: at + 1, store: true }));
    steps.extend((depth..over).rev().map(|at| Step { pod, chain, from: at, to: at + 1, store: false }));
    steps
}

/// Blocks at the end of a query that no pod holds.
pub const UNSEEN: usize = 8;
