//! An index over a lossy wire: packets of cache events are lost, late and repeated, engines restart, pods are replaced.
//!
//! Conversations are routed by the index alone. At the end it must hold what every engine holds.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

mod fleet;
mod wire;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Index, Matches, Stats};
use pointsman_lab::SplitMix64;

use fleet::{Fleet, Turn};
use wire::Counts;

const PODS: usize = 5;
const CONVERSATIONS: usize = 120;
const TURNS: usize = 4;
const RESTARTS: usize = 4;
const REPLACEMENTS: usize = 2;

/// Modelled time between two ticks, and how long a routed prompt is expected to show up in its pod's cache.
const TICK: Duration = Duration::from_millis(200);
const SPECULATION: Duration = Duration::from_secs(2);

/// What was said so far; the last turn's answer is behind its prompt.
#[derive(Clone)]
struct Conversation {
    tokens: Vec<u32>,
    prompt: usize,
    turns: usize,
}

struct Run<'i> {
    index: &'i Index,
    hasher: ChainHasher,
    fleet: Fleet<'i>,
    rng: SplitMix64,
    conversations: Vec<Conversation>,
    /// Conversations between two turns, and those whose request was lost.
    resting: Vec<usize>,
    lost: Vec<usize>,
    in_flight: usize,
    turns: usize,
    speculated: usize,
    swept: usize,
    now: Instant,
}

impl<'i> Run<'i> {
    fn new(index: &'i Index, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let hasher = ChainHasher::new(ChainSeed::new("example-8b"), BlockSize::new(16).unwrap());
        let mut fleet = Fleet::new(index, rng.fork());
        (0..PODS).for_each(|_| fleet.join());
        let systems: Vec<Vec<u32>> = (0..3).map(|_| tokens(&mut rng, 256, 2_048)).collect();
        let open = |at: usize| Conversation { tokens: systems[at % systems.len()].clone(), prompt: 0, turns: TURNS };
        let conversations: Vec<Conversation> = (0..CONVERSATIONS).map(open).collect();
        let resting = (0..CONVERSATIONS).collect();
        let (lost, now) = (Vec::new(), Instant::now());
        let (in_flight, turns, speculated, swept) = (0, 0, 0, 0);
        Self { index, hasher, fleet, rng, conversations, resting, lost, in_flight, turns, speculated, swept, now }
    }

    /// Mishaps that are due, some requests, some steps of every engine, housekeeping. False when all is answered.
    fn tick(&mut self) -> bool {
        self.now += TICK;
        let due = |of: usize, turns: usize| (turns * of * 2 / (CONVERSATIONS * TURNS)).div_ceil(2);
        while self.fleet.counts.restarts < due(RESTARTS, self.turns) {
            let lost = self.fleet.restart_one();
            self.lose(lost);
        }
        while self.fleet.counts.retired < due(REPLACEMENTS, self.turns) {
            let lost = self.fleet.retire_one();
            self.lose(lost);
            self.fleet.join();
        }
        for _ in 0..PODS.div_ceil(2) {
            if let Some(client) = self.next_client() {
                self.route(client);
            }
        }
        for client in self.fleet.step() {
            self.in_flight -= 1;
            if self.conversations[client].turns > 0 {
                self.resting.push(client);
            }
        }
        self.index.expire(self.now, usize::MAX);
        self.swept += self.index.sweep(512).freed;
        self.in_flight + self.resting.len() + self.lost.len() > 0
    }

    fn lose(&mut self, clients: Vec<usize>) {
        self.in_flight -= clients.len();
        self.lost.extend(clients);
    }

    /// A lost request again, or the next turn of a conversation: new words, or another answer to the last prompt.
    fn next_client(&mut self) -> Option<usize> {
        if let Some(client) = self.lost.pop() {
            return Some(client);
        }
        let at = self.rng.below(self.resting.len());
        let client = (!self.resting.is_empty()).then(|| self.resting.swap_remove(at))?;
        let talk = &mut self.conversations[client];
        if talk.prompt > 0 && self.rng.one_in(8) {
            talk.tokens.truncate(talk.prompt);
        } else {
            talk.tokens.extend(tokens(&mut self.rng, 16, 384));
            // A prompt of whole blocks that is cached has its last block computed again, which makes a copy.
            let whole = talk.tokens.len() / 16 * 16;
            talk.tokens.truncate(if self.rng.one_in(2) { whole } else { usize::MAX });
        }
        talk.prompt = talk.tokens.len();
        talk.tokens.extend(tokens(&mut self.rng, 16, 320));
        talk.turns -= 1;
        self.turns += 1;
        Some(client)
    }

    /// To the pod that holds most of the prompt, unless it has far more to do than others.
    fn route(&mut self, client: usize) {
        let Conversation { tokens, prompt, .. } = &self.conversations[client];
        let (mut matches, mut scan, mut buffer) = (Matches::default(), Matches::default(), Vec::new());
        self.index.search_lazy(&mut self.hasher.lazy(&tokens[..*prompt], &mut buffer), &mut matches);
        let chain = self.hasher.hash(&tokens[..*prompt]);
        self.index.scan(&chain, &mut scan);
        assert_eq!(matches.groups(), scan.groups());
        let limit = 3 * self.in_flight / (2 * PODS) + 2;
        let key = |pod: &kv_index::Pod| {
            let load = self.fleet.load(*pod);
            (load > limit, Reverse(matches.depth(pod.id())), load)
        };
        let pod = self.fleet.pods().min_by_key(key).unwrap();
        if matches.depth(pod.id()) < chain.len() {
            self.speculated += self.index.speculate(pod, &chain, self.now + SPECULATION).unwrap().stored;
        }
        // The last token of an answer is never read again.
        let chain = self.hasher.hash(&tokens[..tokens.len() - 1]);
        self.fleet.submit(pod, Turn { client, prompt: *prompt, output: tokens.len() - prompt, chain });
        self.in_flight += 1;
    }

    /// Lets speculation expire, repairs lost tails by digest, and finishes every sweep.
    fn settle(&mut self) {
        self.index.expire(self.now + 2 * SPECULATION, usize::MAX);
        self.fleet.repair();
        loop {
            let swept = self.index.sweep(512);
            self.swept += swept.freed;
            if swept.pending == 0 {
                return;
            }
        }
    }

    /// Every conversation and every digest: the index against a scan and against the engines.
    fn check(&self) -> usize {
        let (mut search, mut other, mut buffer) = (Matches::default(), Matches::default(), Vec::new());
        let mut held = 0;
        for talk in &self.conversations {
            let chain = self.hasher.hash(&talk.tokens);
            self.index.search(&chain, &mut search);
            self.index.scan(&chain, &mut other);
            assert_eq!(search.groups(), other.groups());
            self.index.search_lazy(&mut self.hasher.lazy(&talk.tokens, &mut buffer), &mut other);
            assert_eq!(search.groups(), other.groups());
            let depths: Vec<usize> = self.fleet.pods().map(|pod| self.fleet.depth(pod, &chain)).collect();
            assert!(self.fleet.pods().map(|pod| search.depth(pod.id())).eq(depths.iter().copied()));
            let named: usize = search.groups().iter().map(|group| group.pods.len()).sum();
            assert_eq!(named, depths.iter().filter(|depth| **depth > 0).count());
            held += usize::from(named > 0);
        }
        assert!(self.fleet.unlike_digests().is_empty());
        let caches: Vec<Vec<BlockHash>> = self.fleet.caches().collect();
        let distinct: HashSet<BlockHash> = caches.iter().flatten().copied().collect();
        let Stats { pods, blocks, block_replicas, .. } = self.index.stats();
        assert_eq!((pods, blocks, block_replicas), (PODS, distinct.len(), caches.iter().map(Vec::len).sum()));
        held
    }
}

fn tokens(rng: &mut SplitMix64, least: usize, most: usize) -> Vec<u32> {
    (0..rng.between(least, most)).map(|_| rng.below(128_000) as u32).collect()
}

fn run(seed: u64) -> (Counts, usize, usize) {
    let index = Index::new(Config::default());
    let mut run = Run::new(&index, seed);
    while run.tick() {}
    assert_eq!(run.turns, CONVERSATIONS * TURNS);
    run.settle();
    let held = run.check();
    assert!(held > 10 && run.speculated > 0, "{held} held");
    assert_eq!(run.swept, REPLACEMENTS);
    (run.fleet.counts, held, run.speculated)
}

#[test]
fn the_index_agrees_with_every_engine_and_one_seed_gives_one_run() {
    let runs: Vec<(Counts, usize, usize)> = (1..=6).map(run).collect();
    assert_eq!(runs[0], run(1));
    assert_ne!(runs[0], runs[1]);
    for (counts, ..) in &runs {
        assert_eq!((counts.restarts, counts.retired, counts.late), (RESTARTS, REPLACEMENTS, REPLACEMENTS));
        assert!(counts.cached_blocks > 0 && counts.removed > 0 && counts.copies > 0, "{counts:?}");
        // A restart is not seen if all packets of the incarnation are lost; the next one shows.
        assert!(counts.gaps > 0 && counts.duplicates > 0 && counts.restarts_seen > 0, "{counts:?}");
        assert_eq!((counts.given_up, counts.applied.not_held, counts.applied.refused), (0, 0, 0));
    }
    assert!(runs.iter().any(|(counts, ..)| counts.stale > 0) && runs.iter().any(|(counts, ..)| counts.repaired > 0));
}
