//! Microbenchmark workloads: the hottest operations, each after a set-up that is not counted.
//!
//! The rule: nothing here depends on time, chance or addresses, or counts would not repeat.

use std::hint::black_box;
use std::sync::Arc;

use kv_index::{
    BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Event, EventSemantics, Index, Matches, Parent, Pod,
    Predictor, Removed, Stored,
};
use pointsman_test_support::SplitMix64;

use crate::decide::{self, Decide, Profile};

/// One operation.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// How often it is run to be counted.
    pub(crate) times: usize,
    pub(crate) prepare: fn() -> Box<dyn Workload>,
    /// What is in it and not to be counted: an operation before it.
    pub(crate) without: Option<&'static str>,
}

impl Operation {
    const fn new(name: &'static str, times: usize, prepare: fn() -> Box<dyn Workload>) -> Self {
        Self { name, times, prepare, without: None }
    }

    /// The same, counted without another.
    const fn without(self, other: &'static str) -> Self {
        Self { without: Some(other), ..self }
    }
}

/// An operation that is set up.
pub(crate) trait Workload {
    /// Runs so many times; a number that depends on all results.
    fn run(&mut self, times: usize) -> u64;
}

pub(crate) const OPERATIONS: [Operation; 14] = [
    Operation::new("search_held_128", 2_000, || Box::new(Search::new(Prompts::Held))),
    Operation::new("search_cold_128", 5_000, || Box::new(Search::new(Prompts::Cold))),
    Operation::new("store_evict_64", 500, || Box::new(Write::new())),
    Operation::new("predict_32", 500, || Box::new(Predict::new())),
    Operation::new("tokens_to_match_512", 500, || Box::new(Tokens::deep())),
    Operation::new("decide_cache_aware_64", 500, || Box::new(Decide::new(Profile::CacheAware, 64))),
    // What decisions add to their searches.
    Operation::new("tokens_to_match_64", 500, || Box::new(decide::search(64))),
    Operation::new("tokens_to_match_256", 500, || Box::new(decide::search(256))),
    Operation::new("decide_64", 500, || Box::new(Decide::new(Profile::CacheAware, 64))).without("tokens_to_match_64"),
    Operation::new("decide_256", 500, || Box::new(Decide::new(Profile::CacheAware, 256)))
        .without("tokens_to_match_256"),
    Operation::new("first_token_64", 500, || Box::new(Decide::new(Profile::FirstToken, 64)))
        .without("tokens_to_match_64"),
    Operation::new("first_token_256", 500, || Box::new(Decide::new(Profile::FirstToken, 256)))
        .without("tokens_to_match_256"),
    Operation::new("total_latency_64", 500, || Box::new(Decide::new(Profile::TotalLatency, 64)))
        .without("tokens_to_match_64"),
    Operation::new("total_latency_256", 500, || Box::new(Decide::new(Profile::TotalLatency, 256)))
        .without("tokens_to_match_256"),
];

/// Prompts of which an eighth of the pods hold each to four depths, filled as engines do: most at once, then block by block.
pub(crate) struct Filled {
    pub(crate) index: Arc<Index>,
    pub(crate) pods: Vec<Pod>,
    prompts: Vec<Vec<BlockHash>>,
}

impl Filled {
    pub(crate) fn new(pods: usize, prompts: Vec<Vec<BlockHash>>) -> Self {
        let index = Arc::new(Index::new(Config::default().hash_seed(1)));
        let pods: Vec<Pod> = (0..pods).map(|at| index.join(&format!("pod-{at}")).expect("room")).collect();
        let filled = Self { index, pods, prompts };
        for (at, prompt) in filled.prompts.iter().enumerate() {
            let pods = filled.pods.len();
            for holder in 0..pods / 8 {
                let depth = prompt.len() * (holder % 4 + 1) / 4;
                filled.fill(filled.pods[(at * 5 + holder * 7) % pods], &prompt[..depth]);
            }
        }
        filled
    }

    fn fill(&self, pod: Pod, prompt: &[BlockHash]) {
        let at_once = prompt.len() - (prompt.len() / 4).min(16);
        store(&self.index, pod, Parent::Root, &prompt[..at_once]);
        for at in at_once..prompt.len() {
            store(&self.index, pod, Parent::Block(prompt[at - 1]), &prompt[at..=at]);
        }
    }
}

enum Prompts {
    Held,
    Cold,
}

/// (1), (2): searches for prompts of 128 blocks and 8 that nobody holds, or for such that nobody holds at all.
struct Search {
    filled: Filled,
    asked: Vec<Vec<BlockHash>>,
    matches: Matches,
}

impl Search {
    fn new(prompts: Prompts) -> Self {
        let mut numbers = PromptSource(SplitMix64::new(1));
        let filled = Filled::new(PODS, (0..PROMPTS).map(|_| numbers.chain(128)).collect());
        let asked = filled.prompts.iter().map(|prompt| match prompts {
            Prompts::Held => prompt.iter().copied().chain(numbers.chain(8)).collect(),
            Prompts::Cold => numbers.chain(136),
        });
        Self { asked: asked.collect(), filled, matches: Matches::default() }
    }
}

impl Workload for Search {
    fn run(&mut self, times: usize) -> u64 {
        let mut sum = 0;
        for prompt in self.asked.iter().cycle().take(times) {
            self.filled.index.search(black_box(prompt), &mut self.matches);
            sum = u64::wrapping_add(sum, depths(&self.matches));
        }
        sum
    }
}

/// (3): a chain of 64 blocks stored at once and evicted from its end, one by one, among those of others.
struct Write {
    filled: Filled,
    stored: Vec<Vec<BlockHash>>,
}

impl Write {
    fn new() -> Self {
        let mut numbers = PromptSource(SplitMix64::new(2));
        let filled = Filled::new(PODS, (0..PROMPTS).map(|_| numbers.chain(64)).collect());
        Self { filled, stored: (0..PROMPTS).map(|_| numbers.chain(64)).collect() }
    }
}

impl Workload for Write {
    fn run(&mut self, times: usize) -> u64 {
        let Filled { index, pods, .. } = &self.filled;
        for (chain, pod) in self.stored.iter().cycle().zip(pods.iter().cycle()).take(times) {
            store(index, *pod, Parent::Root, chain);
            for block in chain.iter().rev() {
                let removed = Event::Removed(Removed::new(std::slice::from_ref(block)));
                index.apply(*pod, EventSemantics::Membership, &removed).expect("live");
            }
        }
        index.stats().blocks as u64
    }
}

/// (4): prompts of 32 new blocks guessed to be on a pod that is full, for which others go.
struct Predict {
    index: Index,
    pod: Pod,
    predictor: Predictor,
    routed: Vec<Vec<BlockHash>>,
}

impl Predict {
    fn new() -> Self {
        let mut numbers = PromptSource(SplitMix64::new(5));
        let index = Index::new(Config::default().hash_seed(1));
        let pod = index.join("pod").expect("room");
        // Half of the prompts fit, so that each is forgotten before it comes again.
        let (predictor, routed) = (Predictor::new(PROMPTS * 16), (0..PROMPTS).map(|_| numbers.chain(32)).collect());
        let mut predict = Self { index, pod, predictor, routed };
        predict.run(PROMPTS);
        predict
    }
}

impl Workload for Predict {
    fn run(&mut self, times: usize) -> u64 {
        for prompt in self.routed.iter().cycle().take(times) {
            self.predictor.routed(&self.index, self.pod, black_box(prompt)).expect("live");
        }
        self.predictor.blocks(self.pod) as u64
    }
}

/// (5): prompts as tokens, hashed as far as the search asks.
pub(crate) struct Tokens {
    filled: Filled,
    prompts: Vec<Vec<u32>>,
    hasher: ChainHasher,
    hashes: Vec<BlockHash>,
    matches: Matches,
}

impl Tokens {
    /// Of 512 blocks.
    fn deep() -> Self {
        let (hasher, prompts) = (hasher(), PromptSource(SplitMix64::new(3)).prompts(FEW, 512));
        let filled = Filled::new(PODS, prompts.iter().map(|prompt| hasher.hash(prompt)).collect());
        Self::new(filled, prompts, hasher)
    }

    pub(crate) fn new(filled: Filled, prompts: Vec<Vec<u32>>, hasher: ChainHasher) -> Self {
        Self { filled, prompts, hasher, hashes: Vec::new(), matches: Matches::default() }
    }
}

impl Workload for Tokens {
    fn run(&mut self, times: usize) -> u64 {
        let mut sum = 0;
        for prompt in self.prompts.iter().cycle().take(times) {
            let mut chain = self.hasher.lazy(black_box(prompt), &mut self.hashes);
            self.filled.index.search_lazy(&mut chain, &mut self.matches);
            sum = u64::wrapping_add(sum, depths(&self.matches));
        }
        sum
    }
}

fn store(index: &Index, pod: Pod, parent: Parent, blocks: &[BlockHash]) {
    index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::new(parent, blocks))).expect("live");
}

fn depths(matches: &Matches) -> u64 {
    matches.groups().iter().map(|group| group.depth as u64 ^ group.pods.words()[0]).fold(0, u64::wrapping_add)
}

pub(crate) fn hasher() -> ChainHasher {
    ChainHasher::new(ChainSeed::new(MODEL), block_size())
}

pub(crate) fn block_size() -> BlockSize {
    BlockSize::new(BLOCK_TOKENS as u32).expect("not zero")
}

/// Prompts from a seed.
pub(crate) struct PromptSource(pub(crate) SplitMix64);

impl PromptSource {
    fn chain(&mut self, blocks: usize) -> Vec<BlockHash> {
        (0..blocks).map(|_| BlockHash::new(self.0.next_u64())).collect()
    }

    pub(crate) fn prompts(&mut self, count: usize, blocks: usize) -> Vec<Vec<u32>> {
        let mut prompt = || (0..blocks * BLOCK_TOKENS).map(|_| (self.0.next_u64() % 128_000) as u32).collect();
        (0..count).map(|_| prompt()).collect()
    }
}

pub(crate) const MODEL: &str = "hot";
const PODS: usize = 64;
const PROMPTS: usize = 256;
/// Prompts that come as tokens.
pub(crate) const FEW: usize = 64;
const BLOCK_TOKENS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_does_the_same_each_time() {
        for operation in OPERATIONS {
            let [one, two] = [(); 2].map(|()| (operation.prepare)().run(300));
            assert_eq!(one, two, "{}", operation.name);
        }
    }

    #[test]
    fn held_prompts_are_found_and_cold_ones_are_not() {
        let (mut held, mut cold) = (Search::new(Prompts::Held), Search::new(Prompts::Cold));
        held.run(1);
        cold.run(1);
        assert_eq!(held.matches.groups().iter().map(|group| group.depth).collect::<Vec<_>>(), [128, 96, 64, 32]);
        assert!(cold.matches.groups().is_empty());
    }

    #[test]
    fn what_is_guessed_is_what_fits() {
        assert_eq!(Predict::new().run(10), (PROMPTS * 16) as u64);
    }

    #[test]
    fn what_is_written_is_taken_back() {
        let mut write = Write::new();
        let before = write.filled.index.stats().blocks as u64;
        assert_eq!(write.run(10), before);
    }
}
