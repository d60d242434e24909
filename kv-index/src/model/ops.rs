//! Traces of operations as plain data that shrinks and prints: everything a host can do to an index.

use std::time::Duration;

use super::events::{NAMES, digest, name, raise, slot, stream};
use super::{Model, origin};
use crate::{
    Batch, BatchOutcome, BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Consumer, Event, EventSemantics, Feed,
    FeedConfig, Index, Inventory, InventoryBlock, Location, Matches, Parent, Pod, StreamId, Tier,
};

/// One operation. Pods, prompts and places are numbers that wrap around what there is.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "for tests and fuzzing only")]
pub enum Op {
    /// A pod joins.
    Join(u8),
    /// A pod is retired, and perhaps swept at once.
    Retire(u8),
    /// Every retired pod is swept, in steps of this many blocks.
    Sweep(u8),
    /// An event.
    Apply(u8, EventSemantics, PodUpdate),
    /// A numbered batch: pod, incarnation, sequence, whether gaps are given up, events.
    Batch(u8, u8, u8, bool, Vec<PodUpdate>),
    /// An inventory: prompts with depth, tier and copies, of which the first few blocks are skipped.
    Reconcile(u8, Vec<(Prompt, u8, Tier, u8)>),
    /// The same under a number: pod, incarnation, sequence, prompts.
    Inventory(u8, u8, u8, Vec<(Prompt, u8, Tier, u8)>),
    /// A speculation until a tick, without the first so many blocks.
    Speculate(u8, Prompt, u8, u8),
    /// Time passes to a tick.
    Expire(u8),
    /// The index is replaced by its snapshot.
    Restart,
}

/// What an event says.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "for tests and fuzzing only")]
pub enum PodUpdate {
    /// Blocks `from..to` of a prompt.
    Stored(Prompt, u8, u8, Tier, Told),
    /// Blocks `from..to` of a prompt.
    Removed(Prompt, u8, u8, Tier, Order),
    /// Everything.
    Cleared,
}

/// Whether the source says what a block follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "for tests and fuzzing only")]
pub enum Told {
    /// The true parent.
    Parent,
    /// Nothing.
    Nothing,
    /// A false one, where one block of the chain is passed over, or another is in its place. From then on only what others hold is compared, and what
    /// [`Index::scan`] says of the liar.
    Lie,
}

/// The order a removal lists its blocks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "for tests and fuzzing only")]
pub enum Order {
    /// Deepest first, as most engines evict.
    TailFirst,
    /// As in the chain.
    HeadFirst,
    /// Every third one, and what is left in two more rounds.
    Scattered,
}

/// A prompt as stretches of equal tokens: token and how often. Prompts share what they start with.
pub type Prompt = Vec<(u8, u8)>;

/// Runs a trace against the index and the model and compares everything both say.
///
/// # Panics
///
/// When they disagree.
pub fn replay<const W: usize>(config: Config, ops: &[Op]) {
    let mut world = World::<W>::new(config);
    for op in ops {
        world.run(op);
        world.compare();
    }
}

struct World<const W: usize> {
    config: Config,
    index: Index<W>,
    model: Model,
    /// The handle of each name's pod, live or not.
    pods: Vec<Option<Pod>>,
    hasher: ChainHasher,
    /// Whether each name's pod has lied, and whether any ever did.
    liars: [bool; NAMES],
    has_lied: bool,
    /// Whether any pod ever lied or did not say what a block follows.
    is_odd: bool,
    /// Every prompt seen, to search for.
    prompts: Vec<Vec<u32>>,
    now: u8,
    matches: Matches<W>,
}

/// What a search looks up at most, of so many blocks that pods stop at so many depths of: O(K · log N).
fn most_lookups(depths: usize, blocks: usize) -> usize {
    (depths + 1) * (2 + (blocks + 1).ilog2() as usize)
}

impl<const W: usize> World<W> {
    fn new(config: Config) -> Self {
        let hasher = ChainHasher::new(ChainSeed::new("model"), BlockSize::new(1).expect("not zero"));
        Self {
            config,
            index: Index::with_width(config),
            model: Model::new(config),
            pods: vec![None; NAMES],
            liars: [false; NAMES],
            has_lied: false,
            is_odd: false,
            hasher,
            prompts: vec![vec![]],
            now: 0,
            matches: Matches::default(),
        }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Join(pod) => {
                let (slot, name) = slot(*pod);
                let joined = self.index.join(&name);
                assert_eq!(joined.is_ok(), self.model.join(&name), "{joined:?}");
                if let Ok(pod) = joined {
                    assert_ne!(Some(pod), self.pods[slot], "a handle is never given twice");
                    self.pods[slot] = Some(pod);
                    self.liars[slot] = false;
                }
            }
            Op::Retire(pod) => {
                let (slot, name) = slot(*pod);
                let retired = self.pods[slot].is_some_and(|pod| self.index.retire(pod));
                assert_eq!(retired, self.model.retire(&name));
                assert!(self.pods[slot].is_none_or(|pod| !self.index.retire(pod)), "retiring twice is a no-op");
            }
            Op::Sweep(budget) => self.sweep(usize::from(*budget)),
            Op::Apply(pod, source, change) => self.apply(*pod, *source, change),
            Op::Batch(pod, incarnation, sequence, skip_gap, changes) => {
                self.batch(*pod, u64::from(*incarnation % 4), u64::from(*sequence % 8), *skip_gap, changes);
            }
            Op::Reconcile(pod, items) => self.reconcile(*pod, items),
            Op::Inventory(pod, incarnation, sequence, items) => {
                self.inventory(*pod, u64::from(*incarnation % 4), u64::from(*sequence % 8), items);
            }
            Op::Speculate(pod, prompt, from, tick) => {
                let chain = self.chain(prompt);
                let from = usize::from(*from) % (chain.len() + 1);
                let parent = from.checked_sub(1).map_or(Parent::Root, |before| Parent::Block(chain[before]));
                let (chain, deadline) = (&chain[from..], origin() + Duration::from_secs(u64::from(*tick)));
                if let Some((pod, name)) = self.live(*pod) {
                    let got = self.index.speculate_after(pod, parent, chain, deadline).expect("live");
                    assert_eq!(got, self.model.speculate(&name, chain, deadline));
                }
            }
            Op::Expire(tick) => {
                self.now = self.now.max(*tick);
                let now = origin() + Duration::from_secs(u64::from(self.now));
                let mut dropped = 0;
                loop {
                    let step = self.index.expire(now, 3);
                    assert!(step.dropped <= 3, "a step keeps to its budget");
                    dropped += step.dropped;
                    if !step.pending {
                        break;
                    }
                }
                assert_eq!(dropped, self.model.expire(now));
            }
            Op::Restart => self.restart(),
        }
    }

    fn apply(&mut self, pod: u8, source: EventSemantics, change: &PodUpdate) {
        let (blocks, change) = self.lower(pod, change);
        let places: Vec<Location> =
            blocks.iter().map(|h| Location { device: 1, offset: h.get() % 97, length: 1 }).collect();
        let event = raise(&blocks, &change, if blocks.len() % 5 == 4 { &places } else { &[] });
        match self.live(pod) {
            Some((pod, name)) => {
                let got = self.index.apply(pod, source, &event).expect("live");
                assert_eq!(got, self.model.apply(&name, source, &event), "{event:?}");
            }
            // A late event of a pod that is gone.
            None => {
                if let Some(pod) = self.pods[slot(pod).0] {
                    assert!(self.index.apply(pod, source, &event).is_err());
                }
            }
        }
    }

    fn batch(&mut self, of: u8, incarnation: u64, sequence: u64, skip_gap: bool, changes: &[PodUpdate]) {
        let Some((pod, name)) = self.live(of) else { return };
        let lowered: Vec<_> = changes.iter().map(|change| self.lower(of, change)).collect();
        let events: Vec<Event<'_>> = lowered.iter().map(|(blocks, change)| raise(blocks, change, &[])).collect();
        let batch = Batch { incarnation, sequence, events: &events };
        let config = stream(incarnation, sequence);
        let feed = Feed::new(&self.index, pod, config);
        let got = if skip_gap { feed.skip_gap(&batch) } else { feed.consume(&batch) };
        let got = got.expect("live");
        let expected = self.model.consume(&name, &config, &batch, skip_gap);
        assert_eq!(got, expected, "{batch:?}");
        if matches!(got, BatchOutcome::Applied(_) | BatchOutcome::Restarted(_) | BatchOutcome::GapSkipped(_)) {
            // Another consumer brings the same batch.
            assert_eq!(feed.consume(&batch), Ok(BatchOutcome::Duplicate));
        }
    }

    fn reconcile(&mut self, pod: u8, items: &[(Prompt, u8, Tier, u8)]) {
        let Some((pod, name)) = self.live(pod) else { return };
        let inventory = self.list(items);
        let got = self.index.reconcile(pod, &inventory).expect("live");
        assert_eq!(got, self.model.reconcile(&name, &inventory), "{inventory:?}");
        let again = self.index.reconcile(pod, &inventory).expect("live");
        assert_eq!(again, self.model.reconcile(&name, &inventory), "{inventory:?}, again");
        if got.refused == 0 {
            assert_eq!((again.stored, again.removed), (0, 0), "the second time there is no difference");
            assert_eq!(self.index.digest(pod), Ok(digest(&inventory)));
        }
    }

    fn inventory(&mut self, pod: u8, incarnation: u64, sequence: u64, items: &[(Prompt, u8, Tier, u8)]) {
        let Some((pod, name)) = self.live(pod) else { return };
        let blocks = self.list(items);
        let inventory = Inventory { incarnation, sequence, blocks: &blocks };
        let config = stream(incarnation, sequence);
        let feed = Feed::new(&self.index, pod, config);
        let got = feed.reconcile(&inventory).expect("live");
        assert_eq!(got, self.model.take_inventory(&name, &config, &inventory), "{inventory:?}");
        if let BatchOutcome::Applied(applied) | BatchOutcome::Restarted(applied) | BatchOutcome::GapSkipped(applied) =
            got
        {
            assert_eq!(feed.reconcile(&inventory), Ok(BatchOutcome::Duplicate));
            assert!(applied.refused > 0 || self.index.digest(pod) == Ok(digest(&blocks)));
        }
    }

    /// An inventory's blocks.
    fn list(&mut self, items: &[(Prompt, u8, Tier, u8)]) -> Vec<InventoryBlock> {
        let mut inventory = Vec::new();
        for (prompt, skip, tier, copies) in items {
            let (chain, is_silent) = (self.chain(prompt), skip % 16 > 12);
            self.is_odd |= is_silent;
            for (i, &hash) in chain.iter().enumerate().skip(usize::from(skip % 4)) {
                let parent = match i {
                    _ if is_silent => Parent::Unknown,
                    0 => Parent::Root,
                    _ => Parent::Block(chain[i - 1]),
                };
                inventory.push(InventoryBlock {
                    tier: *tier,
                    copies: u32::from(copies % 3),
                    location: (copies % 7 == 0).then_some(Location::default()),
                    ..InventoryBlock::new(hash, parent)
                });
            }
        }
        inventory
    }

    fn sweep(&mut self, budget: usize) {
        let mut steps = 0;
        loop {
            let swept = self.index.sweep(budget);
            assert!(swept.blocks <= budget.max(1) + 3, "a step stays near its budget: {swept:?}");
            self.compare_searches();
            if swept.pending == 0 {
                break;
            }
            steps += 1;
            assert!(steps < 10_000, "a sweep ends");
        }
        self.model.sweep();
    }

    fn restart(&mut self) {
        let bytes = self.index.snapshot();
        // What lay behind a missing block comes back as a stray and counts for itself: narrow bounds might refuse it.
        self.config = Config::default().max_pods(self.config.max_pods);
        self.index = Index::restore(self.config, &bytes).expect("our own snapshot");
        self.model.restart();
        self.model.rebound(self.config);
        for slot in 0..NAMES {
            self.pods[slot] = self.index.pod(&name(slot));
        }
    }

    fn compare(&mut self) {
        self.compare_searches();
        let stats = self.index.stats();
        let distinct = self.model.distinct();
        assert!(stats.blocks == distinct || self.has_lied && stats.blocks > distinct, "{stats:?}, {distinct} distinct");
        for slot in 0..NAMES {
            let Some((pod, name)) = self.live(slot as u8) else { continue };
            assert_eq!(self.index.pod_stats(pod).expect("live").blocks, self.model.held(&name));
            assert_eq!(self.index.digest(pod).expect("live"), self.model.digest(&name));
            for stream in [StreamId(0), StreamId(1)] {
                let feed = Feed::new(&self.index, pod, FeedConfig { stream, ..FeedConfig::default() });
                assert_eq!(feed.cursor(), Ok(self.model.cursor(&name, stream)));
            }
            let mut runs = Vec::new();
            for prompt in &self.prompts {
                let chain = self.hasher.hash(prompt);
                let tiers = self.model.locate(&name, &chain);
                assert_eq!(self.index.locate(pod, &chain, &mut runs), Ok(tiers.len()));
                assert_eq!(self.index.announced(pod, &chain), Ok(tiers.len()));
                for (at, tiers) in tiers.iter().enumerate() {
                    let here = runs.iter().filter(|run| (run.from..run.to).contains(&at)).map(|run| run.tier);
                    assert_eq!(here.collect::<Vec<_>>(), *tiers);
                }
            }
        }
        self.index.audit();
    }

    fn compare_searches(&mut self) {
        let mut buffer = Vec::new();
        for prompt in &self.prompts {
            let chain = self.hasher.hash(prompt);
            let expected = self.model.search(&chain);
            for kind in 0..3 {
                match kind {
                    0 => self.index.search(&chain, &mut self.matches),
                    1 => self.index.search_lazy(&mut self.hasher.lazy(prompt, &mut buffer), &mut self.matches),
                    _ => self.index.scan(&chain, &mut self.matches),
                }
                let groups = self.matches.groups();
                // Fuzzing would find what the bound leaves out: blocks stored here and there behind ones that the pod never had.
                if kind == 0 && !self.is_odd && cfg!(test) {
                    let most = most_lookups(groups.len(), chain.len());
                    assert!(self.matches.lookups() <= most, "{} look-ups, {groups:?}", self.matches.lookups());
                }
                assert!(groups.windows(2).all(|pair| pair[0].depth > pair[1].depth), "deepest first: {groups:?}");
                assert!(groups.iter().all(|group| group.depth > 0 && !group.pods.is_empty()));
                let total: usize = groups.iter().map(|group| group.pods.len()).sum();
                let counts = kind == 2 || !self.liars.contains(&true);
                let expected_total = expected.values().filter(|&&depth| depth > 0).count();
                assert!(!counts || total == expected_total, "only live pods, each once");
                for (name, depth) in &expected {
                    let pod = self.index.pod(name).expect("live");
                    let lied = (0..NAMES).any(|slot| self.liars[slot] && self.pods[slot] == Some(pod));
                    if lied && kind < 2 {
                        continue;
                    }
                    assert_eq!(self.matches.depth(pod.id()), *depth, "{name}, search {kind}, {chain:?}");
                }
            }
        }
    }

    fn live(&self, pod: u8) -> Option<(Pod, String)> {
        let (slot, name) = slot(pod);
        Some((self.pods[slot].filter(|&pod| self.index.pod(&name) == Some(pod))?, name))
    }

    fn chain(&mut self, prompt: &Prompt) -> Vec<BlockHash> {
        let tokens: Vec<u32> = prompt
            .iter()
            .flat_map(|&(token, count)| std::iter::repeat_n(u32::from(token), usize::from(count % 24)))
            .collect();
        let chain = self.hasher.hash(&tokens);
        if !self.prompts.contains(&tokens) && self.prompts.len() < 24 {
            self.prompts.push(tokens);
        }
        chain
    }

    /// The blocks of a change in its order, and the change.
    fn lower(&mut self, pod: u8, change: &PodUpdate) -> (Vec<BlockHash>, (PodUpdate, Parent)) {
        let (PodUpdate::Stored(prompt, from, to, ..) | PodUpdate::Removed(prompt, from, to, ..)) = change else {
            return (Vec::new(), (change.clone(), Parent::Root));
        };
        let chain = self.chain(prompt);
        let at = |byte: u8| usize::from(byte) % (chain.len() + 1);
        let (from, to) = (at(*from).min(at(*to)), at(*from).max(at(*to)));
        let mut blocks = chain[from..to].to_vec();
        let mut parent = if from == 0 { Parent::Root } else { Parent::Block(chain[from - 1]) };
        match change {
            PodUpdate::Removed(.., Order::TailFirst) => blocks.reverse(),
            PodUpdate::Removed(.., Order::Scattered) => {
                blocks = (0..3).flat_map(|round| blocks.iter().skip(round).step_by(3)).copied().collect();
            }
            PodUpdate::Stored(.., Told::Nothing) => {
                parent = Parent::Unknown;
                self.is_odd = true;
            }
            // In narrow bounds it matters how often a block counts.
            PodUpdate::Stored(.., Told::Lie) if self.config.max_blocks > 1_000 && !blocks.is_empty() => {
                parent = if from > 0 { Parent::Root } else { Parent::Block(blocks[blocks.len() - 1]) };
                if blocks.len() > 2 && to % 2 == 0 {
                    blocks.remove(1);
                } else if blocks.len() > 2 {
                    blocks[1] = BlockHash::new(blocks[1].get() ^ 1);
                    parent = if from == 0 { Parent::Root } else { Parent::Block(chain[from - 1]) };
                }
                self.liars[slot(pod).0] = true;
                (self.has_lied, self.is_odd) = (true, true);
            }
            _ => {}
        }
        (blocks, (change.clone(), parent))
    }
}
