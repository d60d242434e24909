//! Our index as a system under test: `Index::search` over cumulative hashes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::{
    BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Event, EventSemantics, Index, Matches, Parent, Pod, Removed,
    Stored,
};
use routing_core::{Fleet, PodInfo, Request, RoutingInput, RoutingPlan, Selector, Workspace};
use routing_plugins::{Hashing, PluginState, profiles};

use crate::fleet::{Op, Step};
use crate::system::{BLOCK_TOKENS, System};

/// Our index with one caller's buffers.
#[derive(Debug)]
pub struct Ours {
    index: Arc<Index>,
    pods: Vec<Pod>,
    matches: Matches,
    hasher: ChainHasher,
    hashes: Vec<BlockHash>,
    planner: Planner,
}

/// The profile `cache_aware` over the same index, from tokens to a plan.
#[derive(Debug)]
struct Planner {
    selector: Selector,
    workspace: Workspace,
    fleet: Fleet,
    plan: RoutingPlan,
    now: Instant,
    seed: u64,
}

impl Planner {
    fn new(index: &Arc<Index>, pods: &[Pod]) -> Self {
        let state = PluginState::new(Arc::clone(index), Hashing::Native(block_size()));
        let selector = profiles::cache_aware(&state).build().expect("a ready profile builds");
        let infos = pods.iter().enumerate().map(|(at, pod)| PodInfo::new(*pod, &format!("pod-{at}")));
        let (workspace, fleet) = (selector.workspace(), Fleet::new(1, infos.collect::<Vec<_>>()));
        Self { selector, workspace, fleet, plan: RoutingPlan::default(), now: Instant::now(), seed: 0 }
    }

    fn plan(&mut self, tokens: &[u32]) -> u64 {
        self.seed += 1;
        let request = Request::new(MODEL, self.now).tokens(tokens).seed(self.seed);
        let Self { selector, workspace, fleet, plan, .. } = self;
        selector.decide(workspace, RoutingInput::new(&request, fleet), plan).expect("every pod is well");
        let (pod, held) = self.chosen();
        (pod ^ held) as u64
    }

    fn chosen(&self) -> (usize, usize) {
        let step = &self.plan.steps()[0];
        (step.candidates[0].pod.id().index(), step.cache.map_or(0, |cache| cache.held))
    }
}

/// A prompt, and the same from its end for evictions.
#[derive(Debug)]
pub struct OurChain {
    forward: Vec<BlockHash>,
    backward: Vec<BlockHash>,
}

impl System for Ours {
    const NAME: &'static str = "pointsman";
    type Chain = OurChain;

    fn new(pods: usize) -> Self {
        let index = Arc::new(Index::new(Config::default()));
        let pods: Vec<Pod> = (0..pods).map(|i| index.join(&format!("pod-{i}")).expect("room for every pod")).collect();
        let planner = Planner::new(&index, &pods);
        Self { index, pods, matches: Matches::default(), hasher: hasher(), hashes: Vec::new(), planner }
    }

    fn chain(hashes: &[BlockHash]) -> OurChain {
        OurChain { forward: hashes.to_vec(), backward: hashes.iter().rev().copied().collect() }
    }

    fn chain_of_tokens(tokens: &[u32]) -> OurChain {
        Self::chain(&hasher().hash(tokens))
    }

    fn touch(chain: &OurChain) -> u64 {
        chain.forward.iter().map(|hash| hash.get() >> 32).sum()
    }

    fn write(&mut self, chains: &[OurChain], steps: &[Step]) -> Duration {
        let start = Instant::now();
        for step in steps {
            let chain = &chains[step.chain];
            let event = match step.op {
                Op::Store => {
                    let parent = match step.from {
                        0 => Parent::Root,
                        from => Parent::Block(chain.forward[from - 1]),
                    };
                    Event::Stored(Stored::new(parent, &chain.forward[step.from..step.to]))
                }
                Op::Evict => {
                    let len = chain.backward.len();
                    Event::Removed(Removed::new(&chain.backward[len - step.to..len - step.from]))
                }
            };
            self.index.apply(self.pods[step.pod], EventSemantics::Membership, &event).expect("every pod is live");
        }
        start.elapsed()
    }

    fn ask(&mut self, chain: &OurChain) -> u64 {
        self.index.search(&chain.forward, &mut self.matches);
        self.sum()
    }

    fn ask_by_pod(&mut self, chain: &OurChain) -> u64 {
        self.index.search(&chain.forward, &mut self.matches);
        let groups = self.matches.groups().iter();
        groups.map(|group| group.pods.iter().map(|pod| (pod.index() ^ group.depth) as u64).sum::<u64>()).sum()
    }

    fn ask_tokens(&mut self, tokens: &[u32]) -> u64 {
        self.hashes.clear();
        self.hasher.extend_into(tokens, &mut self.hashes);
        self.index.search(&self.hashes, &mut self.matches);
        self.sum()
    }

    fn ask_tokens_lazily(&mut self, tokens: &[u32]) -> u64 {
        let mut chain = self.hasher.lazy(tokens, &mut self.hashes);
        self.index.search_lazy(&mut chain, &mut self.matches);
        self.sum()
    }

    fn plan_tokens(&mut self, tokens: &[u32]) -> u64 {
        self.planner.plan(tokens)
    }

    fn hash_tokens(&mut self, tokens: &[u32]) -> u64 {
        self.hashes.clear();
        self.hasher.extend_into(tokens, &mut self.hashes);
        self.hashes.last().map_or(0, |hash| hash.get())
    }

    fn depths(&mut self, chain: &OurChain, depths: &mut [u32]) {
        self.index.search(&chain.forward, &mut self.matches);
        self.read(depths);
    }

    fn depths_of_tokens(&mut self, tokens: &[u32], depths: &mut [u32]) {
        self.ask_tokens_lazily(tokens);
        self.read(depths);
    }

    fn planned(&mut self, tokens: &[u32]) -> Option<(usize, usize)> {
        self.planner.plan(tokens);
        Some(self.planner.chosen())
    }

    fn clear(&mut self, pod: usize) -> Duration {
        let start = Instant::now();
        self.index.apply(self.pods[pod], EventSemantics::Membership, &Event::Cleared).expect("every pod is live");
        start.elapsed()
    }

    fn probes(&self) -> Option<usize> {
        Some(self.matches.lookups())
    }

    fn claimed_bytes(&self) -> Option<usize> {
        Some(self.index.stats().bytes)
    }

    fn tidy(&mut self) {
        kv_index::collect_garbage();
    }
}

impl Ours {
    fn read(&self, depths: &mut [u32]) {
        depths.fill(0);
        for group in self.matches.groups() {
            for pod in group.pods {
                depths[pod.index()] = group.depth as u32;
            }
        }
    }

    fn sum(&self) -> u64 {
        self.matches.groups().iter().map(|group| group.depth as u64 ^ group.pods.words()[0]).sum()
    }
}

const MODEL: &str = "bench";

fn block_size() -> BlockSize {
    BlockSize::new(BLOCK_TOKENS as u32).expect("not zero")
}

fn hasher() -> ChainHasher {
    ChainHasher::new(ChainSeed::new(MODEL), block_size())
}
