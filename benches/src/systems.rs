//! The systems under test behind one small face: the same content in each, each by its fastest call.

use kv_index::{BlockHash, Config, Event, Index, Matches, Parent, Pod, Removed, Source, Stored};
use smg_kv_index::{ChainBlockMap, ChainIndex, SequenceHash, StoredBlock};

use crate::fleet::{Fleet, Step};

/// A system that can be fed and asked.
pub trait System {
    /// What it is called in tables.
    const NAME: &'static str;
    /// An empty one for so many pods.
    fn new(pods: usize) -> Self;
    /// Applies a step.
    fn step(&mut self, fleet: &Fleet, step: &Step);
    /// Asks for a chain; a number that depends on the whole answer.
    fn ask(&mut self, chain: &[BlockHash]) -> u64;
    /// The same as depths by pod, for comparing.
    fn depths(&mut self, chain: &[BlockHash], depths: &mut [u32]);

    /// Applies every step of a fleet.
    fn fill(&mut self, fleet: &Fleet) {
        for step in &fleet.steps {
            self.step(fleet, step);
        }
    }
}

/// Ours.
#[derive(Debug)]
pub struct Ours {
    /// The index.
    pub index: Index,
    pods: Vec<Pod>,
    matches: Matches,
}

impl System for Ours {
    const NAME: &'static str = "pointsman";

    fn new(pods: usize) -> Self {
        let index = Index::new(Config::default());
        let pods = (0..pods).map(|i| index.join(&format!("pod-{i}")).expect("room")).collect();
        Self { index, pods, matches: Matches::default() }
    }

    fn step(&mut self, fleet: &Fleet, step: &Step) {
        let chain = &fleet.chains[step.chain];
        let blocks = &chain[step.from..step.to];
        let parent = if step.from == 0 { Parent::Root } else { Parent::Block(chain[step.from - 1]) };
        let event = if step.store {
            Event::Stored(Stored::new(parent, blocks))
        } else {
            Event::Removed(Removed::new(blocks))
        };
        self.index.apply(self.pods[step.pod], Source::Membership, &event).expect("live");
    }

    fn ask(&mut self, chain: &[BlockHash]) -> u64 {
        self.index.search(chain, &mut self.matches);
        self.matches.groups().iter().map(|g| g.depth as u64 ^ g.pods.words()[0]).sum()
    }

    fn depths(&mut self, chain: &[BlockHash], depths: &mut [u32]) {
        self.index.search(chain, &mut self.matches);
        depths.fill(0);
        for group in self.matches.groups() {
            for pod in group.pods {
                depths[pod.index()] = group.depth as u32;
            }
        }
    }
}

impl Ours {
    /// Probes of the last search.
    #[must_use]
    pub fn probes(&self) -> usize {
        self.matches.probes()
    }
}

/// SMG's chain index with its caller-owned maps.
pub struct Smg {
    /// The index.
    pub index: ChainIndex,
    maps: Vec<ChainBlockMap>,
    workers: Vec<u32>,
    buffer: Vec<StoredBlock>,
    hashes: Vec<SequenceHash>,
}

impl std::fmt::Debug for Smg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Smg")
    }
}

impl System for Smg {
    const NAME: &'static str = "smg";

    fn new(pods: usize) -> Self {
        let index = ChainIndex::with_max_workers(pods);
        let workers = (0..pods).map(|i| index.intern_worker(&format!("pod-{i}")).expect("room")).collect();
        let maps = (0..pods).map(|_| ChainBlockMap::new()).collect();
        Self { index, maps, workers, buffer: Vec::new(), hashes: Vec::new() }
    }

    fn step(&mut self, fleet: &Fleet, step: &Step) {
        let chain = &fleet.chains[step.chain];
        let blocks = &chain[step.from..step.to];
        let (worker, map) = (self.workers[step.pod], &mut self.maps[step.pod]);
        if step.store {
            self.buffer.clear();
            self.buffer.extend(blocks.iter().map(|h| StoredBlock {
                seq_hash: SequenceHash(h.get()),
                content_hash: smg_kv_index::ContentHash(h.get()),
            }));
            let parent = (step.from > 0).then(|| SequenceHash(chain[step.from - 1].get()));
            self.index.apply_stored(worker, &self.buffer, parent, map).expect("parent is held");
        } else {
            self.hashes.clear();
            self.hashes.extend(blocks.iter().map(|h| SequenceHash(h.get())));
            self.index.apply_removed(worker, &self.hashes, map);
        }
    }

    fn ask(&mut self, chain: &[BlockHash]) -> u64 {
        let mut sum = 0u64;
        self.index.score_into(chain, |h| h.get(), false, |worker, depth| sum += u64::from(worker ^ depth));
        sum
    }

    fn depths(&mut self, chain: &[BlockHash], depths: &mut [u32]) {
        depths.fill(0);
        self.index.score_into(chain, |h| h.get(), false, |worker, depth| depths[worker as usize] = depth);
    }
}
