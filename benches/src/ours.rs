//! Our index as a system under test: `Index::search` over cumulative hashes.

use std::sync::Arc;
use std::time::Instant;

use kv_index::{
    Batch, BatchOutcome, BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Consumer, Event, EventSemantics, Feed,
    FeedConfig, Index, Matches, Parent, Pod, Removed, Stored,
};
use routing_core::{Fleet, Load, PodInfo, Request, RoutingInput, RoutingPlan, Selector, Workspace};
use routing_plugins::{Hashing, PluginState, profiles};

use crate::fleet::{Op, Step};
use crate::system::{BLOCK_TOKENS, Client, System};

/// Our index and its pods.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ours {
    /// The index.
    pub index: Arc<Index>,
    /// The pods that joined it.
    pub pods: Vec<Pod>,
    hasher: ChainHasher,
}

/// Buffers of one searching thread.
#[derive(Debug)]
#[non_exhaustive]
pub struct OurScratch {
    /// What the last search found.
    pub matches: Matches,
    planner: Planner,
}

/// The profile `cache_aware` over an index, from tokens to a plan.
#[derive(Debug)]
pub struct Planner {
    selector: Selector,
    workspace: Workspace,
    fleet: Fleet,
    plan: RoutingPlan,
    now: Instant,
    seed: u64,
}

impl Planner {
    /// Over an index, for pods of it.
    ///
    /// # Panics
    ///
    /// If the profile does not build, which it does.
    #[must_use]
    pub fn new(index: Arc<Index>, fleet: Fleet) -> Self {
        let state = PluginState::new(index, Hashing::Native(block_size()));
        let selector = profiles::cache_aware(&state).build().expect("a ready profile builds");
        let workspace = selector.workspace();
        Self { selector, workspace, fleet, plan: RoutingPlan::default(), now: Instant::now(), seed: 0 }
    }

    /// The pod that is chosen, and how many blocks the plan says it holds.
    ///
    /// # Panics
    ///
    /// If no pod is chosen, though all are well.
    pub fn plan(&mut self, tokens: &[u32]) -> (usize, usize) {
        self.seed += 1;
        let request = Request::new(MODEL, self.now).tokens(tokens).seed(self.seed);
        let Self { selector, workspace, fleet, plan, .. } = self;
        selector.decide(workspace, RoutingInput::new(&request, fleet), plan).expect("every pod is well");
        let step = &plan.steps()[0];
        (step.candidates[0].pod.id().index(), step.cache.map_or(0, |cache| cache.held))
    }
}

/// A prompt, and the same from its end for evictions.
#[derive(Clone, Debug)]
pub struct OurChain {
    forward: Vec<BlockHash>,
    backward: Vec<BlockHash>,
}

impl OurChain {
    fn event(&self, step: &Step) -> Event<'_> {
        match step.op {
            Op::Store => {
                let parent = step.from.checked_sub(1).map_or(Parent::Root, |at| Parent::Block(self.forward[at]));
                Event::Stored(Stored::new(parent, &self.forward[step.from..step.to]))
            }
            Op::Evict => {
                let len = self.backward.len();
                Event::Removed(Removed::new(&self.backward[len - step.to..len - step.from]))
            }
        }
    }
}

impl Client<Ours> {
    /// An eighth of so many pods hold each chain, to four depths, filled as engines do: most at once, then block by block.
    ///
    /// # Panics
    ///
    /// If there are more pods than an index has room for.
    #[must_use]
    pub fn held_to_four_depths(pods: usize, chains: Vec<OurChain>) -> Self {
        let mut client = Self::new(pods, chains);
        let mut steps = Vec::new();
        for (at, chain) in client.chains.iter().enumerate() {
            for holder in 0..(pods / 8).max(1) {
                let (pod, depth) = ((at * 5 + holder * 7) % pods, chain.forward.len() * (holder % 4 + 1) / 4);
                let at_once = depth - (depth / 4).min(16);
                steps.extend(Step::serve(pod, at, 0..at_once, depth));
            }
        }
        client.write(&steps);
        client
    }
}

impl Ours {
    /// Its pods, each with its load.
    #[must_use]
    pub fn fleet(&self, load: impl Fn(usize) -> Load) -> Fleet {
        let info = |(at, pod): (usize, &Pod)| PodInfo::new(*pod, &format!("pod-{at}")).load(load(at));
        Fleet::new(1, self.pods.iter().enumerate().map(info).collect::<Vec<_>>())
    }
}

impl System for Ours {
    const NAME: &'static str = "pointsman";
    type Block = BlockHash;
    type Chain = OurChain;
    type Event = ();
    /// The sequence of each pod's next batch.
    type Writer = Vec<u64>;
    type Scratch = OurScratch;

    fn new(pods: usize, _writers: usize) -> Self {
        let index = Arc::new(Index::new(Config::default()));
        let pods = (0..pods).map(|i| index.join(&format!("pod-{i}")).expect("room for every pod")).collect();
        Self { index, pods, hasher: hasher() }
    }

    fn writer(&self) -> Vec<u64> {
        vec![0; self.pods.len()]
    }

    fn scratch(&self) -> OurScratch {
        let planner = Planner::new(Arc::clone(&self.index), self.fleet(|_| Load::default()));
        OurScratch { matches: Matches::default(), planner }
    }

    fn chain(hashes: &[BlockHash]) -> OurChain {
        OurChain { forward: hashes.to_vec(), backward: hashes.iter().rev().copied().collect() }
    }

    fn chain_of_tokens(tokens: &[u32]) -> OurChain {
        Self::chain(&hasher().hash(tokens))
    }

    fn query(chain: &OurChain) -> &[BlockHash] {
        &chain.forward
    }

    fn bits(block: &BlockHash) -> u64 {
        block.get()
    }

    fn hash(&self, tokens: &[u32], blocks: &mut Vec<BlockHash>) {
        blocks.clear();
        self.hasher.extend_into(tokens, blocks);
    }

    fn event(_: &OurChain, _: &Step) {}

    fn apply(&self, _: &mut Vec<u64>, chain: &OurChain, step: &Step, (): ()) -> bool {
        let applied = self.index.apply(self.pods[step.pod], EventSemantics::Membership, &chain.event(step));
        applied.expect("every pod is live").refused == 0
    }

    fn apply_batch(
        &self,
        sequences: &mut Vec<u64>,
        chains: &[OurChain],
        steps: &[Step],
        _: impl Iterator<Item = ()>,
    ) -> bool {
        let pod = steps[0].pod;
        let events: Vec<Event<'_>> = steps.iter().map(|step| chains[step.chain].event(step)).collect();
        let config = FeedConfig::default().semantics(EventSemantics::Membership);
        let feed = Feed::new(&self.index, self.pods[pod], config);
        let batch = Batch { incarnation: 1, sequence: sequences[pod], events: &events };
        sequences[pod] += 1;
        matches!(feed.consume(&batch), Ok(BatchOutcome::Applied(applied)) if applied.refused == 0)
    }

    fn clear(&self, _: &mut Vec<u64>, pod: usize) {
        self.index.apply(self.pods[pod], EventSemantics::Membership, &Event::Cleared).expect("every pod is live");
    }

    fn search_by_pod(&self, query: &[BlockHash], scratch: &mut OurScratch, each: impl FnMut(usize, u32)) {
        self.index.search(query, &mut scratch.matches);
        by_pod(&scratch.matches, each);
    }

    fn search(&self, query: &[BlockHash], scratch: &mut OurScratch) -> u64 {
        self.index.search(query, &mut scratch.matches);
        sum(&scratch.matches)
    }

    fn search_lazily(&self, tokens: &[u32], blocks: &mut Vec<BlockHash>, scratch: &mut OurScratch) -> u64 {
        self.index.search_lazy(&mut self.hasher.lazy(tokens, blocks), &mut scratch.matches);
        sum(&scratch.matches)
    }

    fn depths_lazily(&self, tokens: &[u32], scratch: &mut OurScratch, each: impl FnMut(usize, u32)) {
        self.search_lazily(tokens, &mut Vec::new(), scratch);
        by_pod(&scratch.matches, each);
    }

    fn plan(&self, tokens: &[u32], scratch: &mut OurScratch) -> Option<(usize, usize)> {
        Some(scratch.planner.plan(tokens))
    }

    fn probes(scratch: &OurScratch) -> Option<usize> {
        Some(scratch.matches.lookups())
    }

    fn claimed_bytes(&self, _: &Vec<u64>) -> Option<usize> {
        Some(self.index.stats().bytes)
    }

    fn tidy(&self) {
        kv_index::collect_garbage();
    }
}

fn by_pod(matches: &Matches, mut each: impl FnMut(usize, u32)) {
    for group in matches.groups() {
        group.pods.iter().for_each(|pod| each(pod.index(), group.depth as u32));
    }
}

fn sum(matches: &Matches) -> u64 {
    matches.groups().iter().map(|group| group.depth as u64 ^ group.pods.words()[0]).fold(0, u64::wrapping_add)
}

/// The model that prompts are for.
pub const MODEL: &str = "bench";

/// Blocks of [`BLOCK_TOKENS`].
///
/// # Panics
///
/// Never: that is not zero.
#[must_use]
pub fn block_size() -> BlockSize {
    BlockSize::new(BLOCK_TOKENS as u32).expect("not zero")
}

fn hasher() -> ChainHasher {
    ChainHasher::new(ChainSeed::new(MODEL), block_size())
}
