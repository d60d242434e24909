//! Replay corpus: a trace as a router sees it, a lookup for every request and the events of every pod's cache.
//!
//! Requests go to pods by a seeded draw; one that goes on from an earlier one goes where that went, nine times in ten.
//! The pod's [`BlockPool`] then computes the prompt (one event for what it had to evict, one for what it stored) and
//! decodes the answer block by block, each with an event of its own and one for the block that made room. The rule:
//! lookups and events stand here in the order of their time, and an event's parent is held.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use kv_index::BlockHash;
use pointsman_engine_sim::block_pool::{BlockId, BlockPool, Evicted};

use crate::concurrent::{Change, ChangeKind, Script, Span};
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
    /// The blocks.
    pub script: Arc<Script>,
    /// When which prompt is looked up.
    pub lookups: Vec<(u64, Span)>,
    /// When which pod reports what.
    pub changes: Vec<(u64, Change)>,
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
    pub prompt: Span,
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
            script: Script::default(),
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
        builder.corpus.script = Arc::new(builder.script);
        builder.corpus
    }

    /// Blocks looked up, stored and evicted.
    #[must_use]
    pub fn blocks(&self) -> [usize; 3] {
        let mut blocks = [self.lookups.iter().map(|(_, prompt)| prompt.blocks()).sum(), 0, 0];
        for (_, change) in &self.changes {
            blocks[if matches!(change.what, ChangeKind::Stored { .. }) { 1 } else { 2 }] += change.blocks();
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
    script: Script,
    running: Vec<Running>,
    corpus: Corpus,
}

/// A request with its prompt and, right after it, its answer in the script.
struct Running {
    pod: usize,
    start: usize,
    prompt: usize,
    answer: usize,
    /// Leading blocks that its pod holds for it.
    blocks: Vec<BlockId>,
}

impl Builder {
    fn enter(&mut self, request: &Request, block: usize, pod: usize) {
        let (start, parts) = (self.script.prompts.len(), (block / BLOCK_TOKENS).max(1));
        let (input, output) = (request.input as usize, request.output as usize);
        let prompt = (input / BLOCK_TOKENS).min(request.ids.len() * parts);
        let answer = (input + output) / BLOCK_TOKENS - input / BLOCK_TOKENS;
        let block = |id: u64, part: usize| BlockHash::new(SplitMix64::new(id << 12 ^ part as u64).next_u64());
        let blocks = (0..prompt).map(|at| block(request.ids[at / parts], at % parts));
        let own = |at: usize| block(ANSWERS + self.running.len() as u64, at);
        self.script.prompts.extend(blocks.chain((0..answer).map(own)));
        self.running.push(Running { pod, start, prompt, answer, blocks: Vec::new() });
    }

    /// Lets it happen; what happens next, and in how many µs.
    fn act(&mut self, at: u64, number: usize, act: Act) -> Option<(u64, Act)> {
        self.corpus.window = at;
        match act {
            Act::Arrive => {
                let (prompt, blocks) = (self.prompt(number), self.running[number].prompt);
                if blocks == 0 {
                    return None;
                }
                if self.corpus.lookups.len() % CHECK_EVERY == 0 {
                    let hashes = &self.script.prompts[prompt.range()];
                    let depths = self.pools.iter().map(|pool| pool.prefix(hashes).count() as u32).collect();
                    self.corpus.checks.push(Check { prompt, after: self.corpus.changes.len(), depths });
                }
                self.corpus.lookups.push((at, prompt));
                Some((PREFILL + PREFILL_BLOCK * blocks as u64, Act::Prefilled))
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

    fn prompt(&self, number: usize) -> Span {
        let running = &self.running[number];
        Span::new(running.start, running.start + running.prompt)
    }

    fn prefill(&mut self, at: u64, number: usize) {
        let prompt = self.prompt(number).range();
        let (running, chain) = (&mut self.running[number], &self.script.prompts[prompt]);
        let pool = &mut self.pools[running.pod];
        running.blocks = pool.prefix(chain).collect();
        let reused = running.blocks.len();
        running.blocks.iter().for_each(|&id| pool.share(id));
        for &hash in &chain[reused..] {
            let Some(id) = pool.allocate(&mut self.evicted) else { break };
            pool.seal(id, hash);
            running.blocks.push(id);
        }
        let (pod, start, held) = (running.pod, running.start, running.blocks.len());
        self.report(at, pod, start, start + reused..start + held);
    }

    fn decode(&mut self, at: u64, number: usize, block: usize) -> bool {
        let running = &mut self.running[number];
        let (pod, start, place) = (running.pod, running.start, running.start + running.prompt + block);
        let pool = &mut self.pools[pod];
        let Some(id) = pool.allocate(&mut self.evicted) else { return false };
        pool.seal(id, self.script.prompts[place]);
        running.blocks.push(id);
        self.report(at, pod, start, place..place + 1);
        true
    }

    fn decode_next(&mut self, number: usize, block: usize) -> Option<(u64, Act)> {
        let running = &self.running[number];
        // A prompt that was cut has no block for its answer to follow.
        if running.blocks.len() < running.prompt || block == running.answer {
            return self.end(number);
        }
        Some((DECODE_BLOCK, Act::Decoded(block)))
    }

    fn end(&mut self, number: usize) -> Option<(u64, Act)> {
        let running = &mut self.running[number];
        self.pools[running.pod].release(&std::mem::take(&mut running.blocks));
        None
    }

    /// Events for what was evicted and stored.
    fn report(&mut self, at: u64, pod: usize, start: usize, stored: std::ops::Range<usize>) {
        let removed = self.script.removed.len();
        self.script.removed.append(&mut self.evicted.gpu);
        let evicted = Span::new(removed, self.script.removed.len());
        if evicted.blocks() > 0 {
            self.corpus.changes.push((at, Change::remove(pod, evicted)));
        }
        if !stored.is_empty() {
            let blocks = Span::new(stored.start, stored.end);
            self.corpus.changes.push((at, Change::store(&self.script, pod, start, blocks)));
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
        for (number, (_, change)) in corpus.changes.iter().enumerate() {
            while let Some(check) = checks.next_if(|check| check.after == number) {
                for (pod, &depth) in check.depths.iter().enumerate() {
                    let prompt = corpus.script.prompts[check.prompt.range()].iter();
                    assert_eq!(prompt.take_while(|hash| held[pod].contains(*hash)).count(), depth as usize);
                }
            }
            let pod = &mut held[change.pod as usize];
            match change.what {
                ChangeKind::Stored { parent, blocks } => {
                    assert!(parent.is_none_or(|parent| pod.contains(&parent)), "the parent is held");
                    for hash in &corpus.script.prompts[blocks.range()] {
                        assert!(pod.insert(*hash), "new to the pod");
                    }
                }
                ChangeKind::Removed(blocks) => {
                    assert!(corpus.script.removed[blocks.range()].iter().all(|hash| pod.remove(hash)));
                }
            }
            assert!(pod.len() <= 3_000);
        }
        assert!(corpus.changes.is_sorted_by_key(|(at, _)| *at) && corpus.lookups.is_sorted_by_key(|(at, _)| *at));
        let [asked, stored, evicted] = corpus.blocks();
        assert!(stored <= asked * 2 && evicted > stored / 4, "{asked} {stored} {evicted}");
    }

    #[test]
    fn a_seed_decides_where_requests_go() {
        let trace = Synthetic::Conversation.trace(200, 2);
        let changes = |seed| Corpus::new(&trace, Pods::new(8, 2_000), seed).changes;
        assert_eq!(changes(1), changes(1));
        assert_ne!(changes(1), changes(2));
    }
}
