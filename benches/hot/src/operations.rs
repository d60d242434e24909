//! Microbenchmark workloads: the five hottest operations, each after a set-up that is not counted.
//!
//! The rule: nothing here depends on time, chance or addresses, or counts would not repeat.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use kv_index::{
    BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Event, EventSemantics, Index, Matches, Parent, Pod, Removed,
    Stored,
};
use pointsman_test_support::SplitMix64;
use routing_core::{Fleet, Load, PodInfo, Request, RoutingInput, RoutingPlan, Selector, Workspace};
use routing_plugins::{Hashing, PluginState, profiles};

/// One operation.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// How often it is run to be counted.
    pub(crate) times: usize,
    pub(crate) prepare: fn() -> Box<dyn Workload>,
}

/// An operation that is set up.
pub(crate) trait Workload {
    /// Runs so many times; a number that depends on all results.
    fn run(&mut self, times: usize) -> u64;
}

pub(crate) const OPERATIONS: [Operation; 5] = [
    Operation { name: "search_held_128", times: 2_000, prepare: || Box::new(Search::new(Prompts::Held)) },
    Operation { name: "search_cold_128", times: 5_000, prepare: || Box::new(Search::new(Prompts::Cold)) },
    Operation { name: "store_evict_64", times: 500, prepare: || Box::new(Write::new()) },
    Operation { name: "tokens_to_match_512", times: 500, prepare: || Box::new(Tokens::new()) },
    Operation { name: "decide_cache_aware_64", times: 500, prepare: || Box::new(Decide::new()) },
];

/// Prompts of 64 pods that hold each to four depths, filled as engines do: most at once, then block by block.
struct Filled {
    index: Arc<Index>,
    pods: Vec<Pod>,
    prompts: Vec<Vec<BlockHash>>,
}

impl Filled {
    fn new(prompts: Vec<Vec<BlockHash>>) -> Self {
        let index = Arc::new(Index::new(Config::default().hash_seed(1)));
        let pods: Vec<Pod> = (0..PODS).map(|at| index.join(&format!("pod-{at}")).expect("room")).collect();
        let filled = Self { index, pods, prompts };
        for (at, prompt) in filled.prompts.iter().enumerate() {
            for holder in 0..HOLDERS {
                let depth = prompt.len() * (holder % 4 + 1) / 4;
                filled.fill(filled.pods[(at * 5 + holder * 7) % PODS], &prompt[..depth]);
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
        let filled = Filled::new((0..PROMPTS).map(|_| numbers.chain(128)).collect());
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
            sum += depths(&self.matches);
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
        let filled = Filled::new((0..PROMPTS).map(|_| numbers.chain(64)).collect());
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

/// (4): prompts of 512 blocks as tokens, hashed as far as the search asks.
struct Tokens {
    filled: Filled,
    prompts: Vec<Vec<u32>>,
    hasher: ChainHasher,
    hashes: Vec<BlockHash>,
    matches: Matches,
}

impl Tokens {
    fn new() -> Self {
        let (hasher, prompts) = (hasher(), PromptSource(SplitMix64::new(3)).prompts(FEW, 512));
        let filled = Filled::new(prompts.iter().map(|prompt| hasher.hash(prompt)).collect());
        Self { filled, prompts, hasher, hashes: Vec::new(), matches: Matches::default() }
    }
}

impl Workload for Tokens {
    fn run(&mut self, times: usize) -> u64 {
        let mut sum = 0;
        for prompt in self.prompts.iter().cycle().take(times) {
            let mut chain = self.hasher.lazy(black_box(prompt), &mut self.hashes);
            self.filled.index.search_lazy(&mut chain, &mut self.matches);
            sum += depths(&self.matches);
        }
        sum
    }
}

/// (5): the profile `cache_aware` on prompts of 128 blocks as tokens.
struct Decide {
    selector: Selector,
    workspace: Workspace,
    fleet: Fleet,
    plan: RoutingPlan,
    prompts: Vec<Vec<u32>>,
    now: Instant,
}

impl Decide {
    fn new() -> Self {
        let (hasher, prompts) = (hasher(), PromptSource(SplitMix64::new(4)).prompts(FEW, 128));
        let filled = Filled::new(prompts.iter().map(|prompt| hasher.hash(prompt)).collect());
        let info = |(at, pod): (usize, &Pod)| {
            let load = Load { running: (at * 7 % 13) as u32, kv_used: (at * 5 % 17) as f32 / 17.0, ..Load::default() };
            PodInfo::new(*pod, &format!("pod-{at}")).load(load)
        };
        let fleet = Fleet::new(1, filled.pods.iter().enumerate().map(info).collect::<Vec<_>>());
        let selector = profiles::cache_aware(&PluginState::new(filled.index, Hashing::Native(block_size())));
        let selector = selector.build().expect("a ready profile builds");
        let workspace = selector.workspace();
        Self { selector, workspace, fleet, plan: RoutingPlan::default(), prompts, now: Instant::now() }
    }
}

impl Workload for Decide {
    fn run(&mut self, times: usize) -> u64 {
        let mut sum = 0;
        for (seed, prompt) in (0..).zip(self.prompts.iter().cycle().take(times)) {
            let request = Request::new(MODEL, self.now).tokens(black_box(prompt)).seed(seed);
            self.selector
                .decide(&mut self.workspace, RoutingInput::new(&request, &self.fleet), &mut self.plan)
                .expect("all are well");
            sum += self.plan.steps()[0].candidates[0].pod.id().index() as u64;
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

fn hasher() -> ChainHasher {
    ChainHasher::new(ChainSeed::new(MODEL), block_size())
}

fn block_size() -> BlockSize {
    BlockSize::new(BLOCK_TOKENS as u32).expect("not zero")
}

/// Prompts from a seed.
struct PromptSource(SplitMix64);

impl PromptSource {
    fn chain(&mut self, blocks: usize) -> Vec<BlockHash> {
        (0..blocks).map(|_| BlockHash::new(self.0.next_u64())).collect()
    }

    fn prompts(&mut self, count: usize, blocks: usize) -> Vec<Vec<u32>> {
        let mut prompt = || (0..blocks * BLOCK_TOKENS).map(|_| (self.0.next_u64() % 128_000) as u32).collect();
        (0..count).map(|_| prompt()).collect()
    }
}

const MODEL: &str = "hot";
const PODS: usize = 64;
const HOLDERS: usize = 8;
const PROMPTS: usize = 256;
/// Prompts that come as tokens.
const FEW: usize = 64;
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
    fn what_is_written_is_taken_back() {
        let mut write = Write::new();
        let before = write.filled.index.stats().blocks as u64;
        assert_eq!(write.run(10), before);
    }
}
