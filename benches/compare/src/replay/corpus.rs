//! Replay corpus: a trace as a router sees it, a lookup for every request and the events of every pod's cache.
//!
//! Requests go to pods by a seeded draw; one that goes on from an earlier one goes where that went, nine times in ten.
//! The pod's [`BlockPool`] then computes the prompt (one event for what it had to evict, one for what it stored) and
//! decodes the answer block by block, each with an event of its own and one for the block that made room. The rule:
//! lookups and events stand here in the order of their time, and an event's parent is held.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use kv_index::BlockHash;
use pointsman_engine_sim::block_pool::{BlockId, BlockPool, Evicted};

use pointsman_benches::fleet::{Op, Step};
use pointsman_benches::system::BLOCK_TOKENS;
use pointsman_lab::SplitMix64;
use pointsman_lab::trace::{Request, Trace};

/// How many pods, and how large.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Pods {
    /// Pods.
    pub count: usize,
    /// Blocks in the cache of each.
    pub capacity: usize,
}

impl Pods {
    /// So many with caches of so many blocks.
    #[must_use]
    pub const fn new(count: usize, capacity: usize) -> Self {
        Self { count, capacity }
    }
}

/// Lookups and events with their times in µs.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Corpus {
    /// Pods that events speak of.
    pub pods: usize,
    /// A chain for every prompt, one for every answer that begins with the block it follows, and one for what was
    /// evicted at a time.
    pub chains: Vec<Vec<BlockHash>>,
    /// When which prompt is looked up.
    pub lookups: Vec<(u64, usize)>,
    /// When which pod reports what.
    pub steps: Vec<(u64, Step)>,
    /// Answers to compare with.
    pub checks: Vec<Check>,
    /// How long all of it takes, in µs.
    pub window: u64,
}

/// What a lookup must answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Check {
    /// The prompt.
    pub prompt: usize,
    /// Once so many events are applied.
    pub after: usize,
    /// Leading blocks by pod.
    pub depths: Vec<u32>,
}

impl Corpus {
    /// What this trace makes of these pods.
    #[must_use]
    pub fn new(trace: &Trace, pods: Pods, seed: u64) -> Self {
        let mut builder = Builder {
            pools: (0..pods.count).map(|_| BlockPool::new(pods.capacity, 0)).collect(),
            evicted: Evicted::default(),
            running: Vec::with_capacity(trace.requests.len()),
            corpus: Self { pods: pods.count, ..Self::default() },
        };
        let mut due = BinaryHeap::new();
        let placed = place(trace, pods.count, seed).into_iter().zip(trace.expected());
        for (number, (request, (pod, at))) in trace.requests.iter().zip(placed).enumerate() {
            builder.enter(request, trace.block, pod);
            due.push(Reverse((at, number, Act::Arrive)));
        }
        while let Some(Reverse((at, number, act))) = due.pop() {
            if let Some((wait, next)) = builder.act(at, number, act) {
                due.push(Reverse((at + wait, number, next)));
            }
        }
        builder.corpus
    }

    /// Blocks looked up, stored and evicted.
    #[must_use]
    pub fn blocks(&self) -> [usize; 3] {
        let mut blocks = [self.lookups.iter().map(|&(_, prompt)| self.chains[prompt].len()).sum(), 0, 0];
        for (_, step) in &self.steps {
            blocks[if step.op == Op::Store { 1 } else { 2 }] += step.blocks();
        }
        blocks
    }
}

/// What happens next to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Arrive,
    Prefilled,
    Decoded(usize),
}

struct Builder {
    pools: Vec<BlockPool>,
    evicted: Evicted,
    running: Vec<Running>,
    corpus: Corpus,
}

/// A request by its prompt's chain; its answer's is the next.
struct Running {
    pod: usize,
    prompt: usize,
    /// Leading blocks that its pod holds for it.
    blocks: Vec<BlockId>,
}

impl Builder {
    fn enter(&mut self, request: &Request, block: usize, pod: usize) {
        let parts = (block / BLOCK_TOKENS).max(1);
        let (input, output) = (request.input as usize, request.output as usize);
        let prompt = (input / BLOCK_TOKENS).min(request.ids.len() * parts);
        let answer = (input + output) / BLOCK_TOKENS - input / BLOCK_TOKENS;
        let block = |id: u64, part: usize| BlockHash::new(SplitMix64::new(id << 12 ^ part as u64).next_u64());
        let prompt: Vec<_> = (0..prompt).map(|at| block(request.ids[at / parts], at % parts)).collect();
        let own = |at: usize| block(ANSWERS + self.running.len() as u64, at);
        let answer = prompt.last().copied().into_iter().chain((0..answer).map(own)).collect();
        self.running.push(Running { pod, prompt: self.corpus.chains.len(), blocks: Vec::new() });
        self.corpus.chains.extend([prompt, answer]);
    }

    /// Lets it happen; what happens next, and in how many µs.
    fn act(&mut self, at: u64, number: usize, act: Act) -> Option<(u64, Act)> {
        let Self { pools, corpus, .. } = self;
        corpus.window = at;
        match act {
            Act::Arrive => {
                let prompt = self.running[number].prompt;
                let chain = &corpus.chains[prompt];
                if chain.is_empty() {
                    return None;
                }
                if corpus.lookups.len() % CHECK_EVERY == 0 {
                    let depths = pools.iter().map(|pool| pool.prefix(chain).count() as u32).collect();
                    corpus.checks.push(Check { prompt, after: corpus.steps.len(), depths });
                }
                corpus.lookups.push((at, prompt));
                Some((PREFILL + PREFILL_BLOCK * chain.len() as u64, Act::Prefilled))
            }
            Act::Prefilled => {
                self.prefill(at, number);
                self.decode_next(number, 0)
            }
            Act::Decoded(block) => {
                let grown = self.decode(at, number, block);
                if grown { self.decode_next(number, block + 1) } else { self.end(number) }
            }
        }
    }

    fn prefill(&mut self, at: u64, number: usize) {
        let running = &mut self.running[number];
        let (pool, chain) = (&mut self.pools[running.pod], &self.corpus.chains[running.prompt]);
        running.blocks = pool.prefix(chain).collect();
        let reused = running.blocks.len();
        running.blocks.iter().for_each(|&id| pool.share(id));
        for &hash in &chain[reused..] {
            let Some(id) = pool.allocate(&mut self.evicted) else { break };
            pool.seal(id, hash);
            running.blocks.push(id);
        }
        let stored = Step::store(running.pod, running.prompt, reused..running.blocks.len());
        self.report(at, stored);
    }

    fn decode(&mut self, at: u64, number: usize, block: usize) -> bool {
        let running = &mut self.running[number];
        let (pool, answer) = (&mut self.pools[running.pod], running.prompt + 1);
        let Some(id) = pool.allocate(&mut self.evicted) else { return false };
        pool.seal(id, self.corpus.chains[answer][block + 1]);
        running.blocks.push(id);
        let stored = Step::store(running.pod, answer, block + 1..block + 2);
        self.report(at, stored);
        true
    }

    fn decode_next(&mut self, number: usize, block: usize) -> Option<(u64, Act)> {
        let running = &self.running[number];
        let [prompt, answer] = [0, 1].map(|part| self.corpus.chains[running.prompt + part].len());
        // A prompt that was cut has no block for its answer to follow.
        if running.blocks.len() < prompt || block + 1 == answer {
            return self.end(number);
        }
        Some((DECODE_BLOCK, Act::Decoded(block)))
    }

    fn end(&mut self, number: usize) -> Option<(u64, Act)> {
        let running = &mut self.running[number];
        self.pools[running.pod].release(&std::mem::take(&mut running.blocks));
        None
    }

    /// Events for what was evicted to make room, and for what was stored.
    fn report(&mut self, at: u64, stored: Step) {
        let Corpus { chains, steps, .. } = &mut self.corpus;
        // Chains are evicted from their ends.
        let evicted: Vec<_> = self.evicted.gpu.drain(..).rev().collect();
        if !evicted.is_empty() {
            steps.push((at, Step::evict(stored.pod, chains.len(), 0..evicted.len())));
            chains.push(evicted);
        }
        if stored.blocks() > 0 {
            steps.push((at, stored));
        }
    }
}

/// A pod for every request: where the conversation was, or any.
fn place(trace: &Trace, pods: usize, seed: u64) -> Vec<usize> {
    let (mut rng, mut homes) = (SplitMix64::new(seed ^ 0x90D5), HashMap::new());
    let mut choose = |request: &Request| {
        // The first id may be the system prompt of all.
        let own = request.ids.get(1..).unwrap_or_default();
        let home = own.iter().rev().find_map(|id| homes.get(id).copied());
        let pod = home.filter(|_| rng.below(10) > 0).unwrap_or_else(|| rng.below(pods));
        for id in own {
            homes.insert(*id, pod);
        }
        pod
    };
    trace.requests.iter().map(&mut choose).collect()
}

/// µs until the first token of a prompt that is all held, and for every block.
const PREFILL: u64 = 20_000;
const PREFILL_BLOCK: u64 = 800;
/// µs to decode a block.
const DECODE_BLOCK: u64 = 400_000;
/// Ids from here on stand for answers.
const ANSWERS: u64 = 1 << 50;
/// Every how many lookups' answers are compared.
const CHECK_EVERY: usize = 40;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use pointsman_lab::trace::synthetic::Synthetic;

    #[test]
    fn events_fit_each_other_and_the_checks() {
        let trace = Synthetic::Conversation.trace(300, 2);
        let corpus = Corpus::new(&trace, Pods::new(4, 3_000), 1);
        let mut held = vec![HashSet::new(); 4];
        let mut checks = corpus.checks.iter().peekable();
        assert!(checks.len() >= 300 / CHECK_EVERY - 1);
        for (number, (_, step)) in corpus.steps.iter().enumerate() {
            while let Some(check) = checks.next_if(|check| check.after == number) {
                for (pod, &depth) in check.depths.iter().enumerate() {
                    let prompt = corpus.chains[check.prompt].iter();
                    assert_eq!(prompt.take_while(|hash| held[pod].contains(*hash)).count(), depth as usize);
                }
            }
            let (pod, chain) = (&mut held[step.pod], &corpus.chains[step.chain]);
            let blocks = &chain[step.from..step.to];
            match step.op {
                Op::Store => {
                    assert!(step.from == 0 || pod.contains(&chain[step.from - 1]), "the parent is held");
                    assert!(blocks.iter().all(|hash| pod.insert(*hash)), "new to the pod");
                }
                Op::Evict => assert!(blocks.iter().all(|hash| pod.remove(hash))),
            }
            assert!(pod.len() <= 3_000);
        }
        assert!(corpus.steps.is_sorted_by_key(|(at, _)| *at) && corpus.lookups.is_sorted_by_key(|(at, _)| *at));
        let [asked, stored, evicted] = corpus.blocks();
        assert!(stored <= asked * 2 && evicted > stored / 4, "{asked} {stored} {evicted}");
    }

    #[test]
    fn a_seed_decides_where_requests_go() {
        let trace = Synthetic::Conversation.trace(200, 2);
        let steps = |seed| Corpus::new(&trace, Pods::new(8, 2_000), seed).steps;
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
    }
}
