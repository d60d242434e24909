//! System under test: what an index implements to be measured, generic so that nothing stands between the clock and its
//! calls.
//!
//! Any number of threads search and write; what belongs to one of them is its [`System::Scratch`] or [`System::Writer`].
//! The rule: what a system's calls want to own is built before the clock starts, what they leave undone when they
//! return is waited for before it stops, and no two writers write for the same pod.

use std::fmt;
use std::time::{Duration, Instant};

use kv_index::BlockHash;

use crate::fleet::Step;

/// A system that can be fed and asked.
pub trait System: Send + Sync {
    /// What it is called in tables.
    const NAME: &'static str;
    /// One block of a query.
    type Block: Send + Sync;
    /// One prompt in the forms that the system's calls take.
    type Chain: Send + Sync;
    /// What one event has to own.
    type Event: Send;
    /// What one writer has to own.
    type Writer: Send;
    /// What one searching thread has to own.
    type Scratch: Send;

    /// An empty one for so many pods, written to by so many threads.
    fn new(pods: usize, writers: usize) -> Self;
    /// What one of the writers owns.
    fn writer(&self) -> Self::Writer;
    /// What one of the searching threads owns.
    fn scratch(&self) -> Self::Scratch;

    /// A prompt whose hashes are the same numbers for every system.
    fn chain(hashes: &[BlockHash]) -> Self::Chain;
    /// A prompt by the system's own hashes.
    fn chain_of_tokens(tokens: &[u32]) -> Self::Chain;
    /// A prompt as a query.
    fn query(chain: &Self::Chain) -> &[Self::Block];
    /// A block's hash.
    fn bits(block: &Self::Block) -> u64;
    /// Hashes tokens as a query, into a buffer if the system's call takes one.
    fn hash(&self, tokens: &[u32], blocks: &mut Vec<Self::Block>);

    /// What this step has to own when it is applied.
    fn event(chain: &Self::Chain, step: &Step) -> Self::Event;
    /// Applies a step, or hands it to the system's own writer; false if it was refused.
    fn apply(&self, writer: &mut Self::Writer, chain: &Self::Chain, step: &Step, event: Self::Event) -> bool;
    /// Applies steps of one pod that came in one message: at once, if the system takes such; false if one was refused.
    fn apply_batch(
        &self,
        writer: &mut Self::Writer,
        chains: &[Self::Chain],
        steps: &[Step],
        events: impl Iterator<Item = Self::Event>,
    ) -> bool {
        let mut apply = |(step, event): (&Step, _)| self.apply(writer, &chains[step.chain], step, event);
        steps.iter().zip(events).fold(true, |taken, next| apply(next) & taken)
    }
    /// Forgets all that a pod holds.
    fn clear(&self, writer: &mut Self::Writer, pod: usize);
    /// Waits until a search sees all that was applied.
    fn drain(&self) {}

    /// Searches and reads the answer pod by pod: who holds how many leading blocks.
    fn search_by_pod(&self, query: &[Self::Block], scratch: &mut Self::Scratch, each: impl FnMut(usize, u32));
    /// The same; a number that depends on the whole answer.
    fn sum_by_pod(&self, query: &[Self::Block], scratch: &mut Self::Scratch) -> u64 {
        let mut sum = 0;
        self.search_by_pod(query, scratch, |pod, depth| sum += pod as u64 ^ u64::from(depth));
        sum
    }
    /// Searches; a number that depends on the whole answer in the form in which it comes.
    fn search(&self, query: &[Self::Block], scratch: &mut Self::Scratch) -> u64 {
        self.sum_by_pod(query, scratch)
    }
    /// Hashes tokens and searches, only as many as the search asks for if the system can.
    fn search_lazily(&self, tokens: &[u32], blocks: &mut Vec<Self::Block>, scratch: &mut Self::Scratch) -> u64 {
        self.hash(tokens, blocks);
        self.search(blocks, scratch)
    }
    /// The same, the answer by pod.
    fn depths_lazily(&self, tokens: &[u32], scratch: &mut Self::Scratch, each: impl FnMut(usize, u32)) {
        let mut blocks = Vec::new();
        self.hash(tokens, &mut blocks);
        self.search_by_pod(&blocks, scratch, each);
    }
    /// Hashes tokens, searches and decides: the pod that is chosen, and how many blocks the plan says it holds. Nothing
    /// without a decision layer.
    fn plan(&self, tokens: &[u32], scratch: &mut Self::Scratch) -> Option<(usize, usize)> {
        let _ = (tokens, scratch);
        None
    }
    /// Look-ups that the last search took, if the system counts them.
    fn probes(scratch: &Self::Scratch) -> Option<usize> {
        let _ = scratch;
        None
    }
    /// Bytes the system itself says it takes.
    fn claimed_bytes(&self, writer: &Self::Writer) -> Option<usize> {
        let _ = writer;
        None
    }
    /// Gives back what can be given back.
    fn tidy(&self) {}
}

/// A system with its only caller, and the prompts that steps and queries speak of.
#[non_exhaustive]
pub struct Client<S: System> {
    /// The system.
    pub system: S,
    /// The prompts.
    pub chains: Vec<S::Chain>,
    /// For writing.
    pub writer: S::Writer,
    /// For searching.
    pub scratch: S::Scratch,
    /// For hashing.
    pub blocks: Vec<S::Block>,
    /// Steps that the system would not take.
    pub refused: usize,
}

impl<S: System> fmt::Debug for Client<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({}, {} chains)", S::NAME, self.chains.len())
    }
}

impl<S: System> Client<S> {
    /// Of an empty system.
    #[must_use]
    pub fn new(pods: usize, chains: Vec<S::Chain>) -> Self {
        let system = S::new(pods, 1);
        let (writer, scratch) = (system.writer(), system.scratch());
        Self { system, chains, writer, scratch, blocks: Vec::new(), refused: 0 }
    }

    /// Applies steps; how long that took until a search sees them.
    pub fn write(&mut self, steps: &[Step]) -> Duration {
        // In portions, so that events made beforehand do not pile up.
        steps.chunks(PORTION).map(|steps| self.write_portion(steps)).sum()
    }

    fn write_portion(&mut self, steps: &[Step]) -> Duration {
        let Self { system, chains, writer, refused, .. } = self;
        let events: Vec<_> = steps.iter().map(|step| S::event(&chains[step.chain], step)).collect();
        let start = Instant::now();
        for (step, event) in steps.iter().zip(events) {
            *refused += usize::from(!system.apply(writer, &chains[step.chain], step, event));
        }
        system.drain();
        start.elapsed()
    }

    /// Applies steps in messages of up to so many, each of one pod; how long that took until a search sees them.
    pub fn write_batches(&mut self, steps: &[Step], size: usize) -> Duration {
        let Self { system, chains, writer, refused, .. } = self;
        let mut took = Duration::ZERO;
        for steps in steps.chunks(PORTION) {
            let mut events: Vec<_> = steps.iter().map(|step| S::event(&chains[step.chain], step)).collect();
            let mut events = events.drain(..);
            let start = Instant::now();
            for batch in steps.chunk_by(|a, b| a.pod == b.pod).flat_map(|steps| steps.chunks(size)) {
                let events = events.by_ref().take(batch.len());
                *refused += usize::from(!system.apply_batch(writer, chains, batch, events));
            }
            system.drain();
            took += start.elapsed();
        }
        took
    }

    /// Searches for one of the prompts.
    pub fn search(&mut self, chain: usize) -> u64 {
        self.system.search(S::query(&self.chains[chain]), &mut self.scratch)
    }

    /// Hashes tokens and searches.
    pub fn search_tokens(&mut self, tokens: &[u32]) -> u64 {
        self.system.hash(tokens, &mut self.blocks);
        self.system.search(&self.blocks, &mut self.scratch)
    }

    /// Hashes tokens, searches and decides; without a decision layer, the first two.
    pub fn plan(&mut self, tokens: &[u32]) -> u64 {
        let plan = self.system.plan(tokens, &mut self.scratch);
        plan.map_or_else(|| self.search_tokens(tokens), |(pod, held)| (pod ^ held) as u64)
    }
}

/// Reads a prompt as a query; a number that depends on all of it.
pub fn touch<S: System>(chain: &S::Chain) -> u64 {
    S::query(chain).iter().map(|block| S::bits(block) >> 32).sum()
}

/// Tokens in a block.
pub const BLOCK_TOKENS: usize = 16;

/// Steps written at a time.
const PORTION: usize = 1 << 14;
