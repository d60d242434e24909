//! Reference model: the simplest single-threaded code that states what the index promises. For tests and fuzzing.
//!
//! Pods are maps from block to copies. A search looks at one block after the other. Nothing here knows about
//! segments, detached spans or shards, nor about what a block follows; whatever events come in whatever order, the index must agree.

mod audit;
mod decode;
mod events;
mod ops;
#[cfg(all(test, not(routing_loom)))]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::Instant;

pub use decode::decode;
pub use ops::{Op, Order, PodUpdate, Prompt, Told, replay};

use crate::{
    ApplyStats, Batch, BatchOutcome, BlockHash, Config, Cursor, Digest, Event, EventSemantics, FeedConfig, Inventory,
    InventoryBlock, StreamId, Tier,
};

/// Everything the index promises to know.
#[derive(Clone, Debug)]
pub struct Model {
    config: Config,
    pods: BTreeMap<String, ModelPod>,
    /// Blocks of retired pods that no sweep has taken yet.
    unswept: Vec<ModelPod>,
}

/// One pod's cache.
#[derive(Clone, Debug, Default)]
pub struct ModelPod {
    blocks: BTreeMap<BlockHash, Entry>,
    streams: BTreeMap<StreamId, (u64, u64)>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    copies: [u32; 4],
    /// Set while nobody has confirmed the block.
    deadline: Option<Instant>,
}

impl Model {
    /// No pods.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, pods: BTreeMap::new(), unswept: Vec::new() }
    }

    /// Adds a pod; false if the name is taken or there is no room.
    pub fn join(&mut self, name: &str) -> bool {
        if self.pods.contains_key(name) || self.pods.len() + self.unswept.len() >= self.config.max_pods {
            return false;
        }
        self.pods.insert(name.to_owned(), ModelPod::default());
        true
    }

    /// Takes a pod out of sight.
    pub fn retire(&mut self, name: &str) -> bool {
        let Some(pod) = self.pods.remove(name) else { return false };
        self.unswept.push(pod);
        true
    }

    /// Forgets what retired pods held.
    pub fn sweep(&mut self) {
        self.unswept.clear();
    }

    /// How many leading blocks each pod holds.
    #[must_use]
    pub fn search(&self, chain: &[BlockHash]) -> BTreeMap<String, usize> {
        let depth = |pod: &ModelPod| chain.iter().take_while(|hash| pod.blocks.contains_key(hash)).count();
        self.pods.iter().map(|(name, pod)| (name.clone(), depth(pod))).collect()
    }

    /// Distinct blocks that anybody holds, retired pods included.
    #[must_use]
    pub fn distinct(&self) -> usize {
        let hashes = self.pods.values().chain(&self.unswept).flat_map(|pod| pod.blocks.keys());
        hashes.collect::<BTreeSet<_>>().len()
    }

    /// Blocks a pod holds.
    #[must_use]
    pub fn held(&self, name: &str) -> usize {
        self.pods.get(name).map_or(0, |pod| pod.blocks.len())
    }

    /// Copies that engines reported for a pod.
    #[must_use]
    pub fn digest(&self, name: &str) -> Digest {
        let mut digest = Digest::EMPTY;
        for (hash, entry) in self.pods.get(name).into_iter().flat_map(|pod| &pod.blocks) {
            for tier in Tier::ALL {
                for _ in 0..entry.copies[tier.index()] {
                    digest.add(*hash, tier);
                }
            }
        }
        digest
    }

    /// Tiers of the leading blocks a pod really holds.
    #[must_use]
    pub fn locate(&self, name: &str, chain: &[BlockHash]) -> Vec<Vec<Tier>> {
        let Some(pod) = self.pods.get(name) else { return Vec::new() };
        let real = |hash: &BlockHash| pod.blocks.get(hash).filter(|entry| entry.deadline.is_none());
        let tiers = |entry: &Entry| Tier::ALL.into_iter().filter(|tier| entry.copies[tier.index()] > 0).collect();
        chain.iter().map_while(|hash| real(hash).map(tiers)).collect()
    }

    /// Applies an event.
    pub fn apply(&mut self, name: &str, source: EventSemantics, event: &Event<'_>) -> ApplyStats {
        let mut applied = ApplyStats::default();
        match event {
            Event::Stored(stored) => {
                self.enter(name, stored.blocks, &mut applied, |entry| {
                    entry.deadline = None;
                    let copies = &mut entry.copies[stored.tier.index()];
                    if *copies == 0 || source == EventSemantics::Copies {
                        *copies += 1;
                    }
                });
            }
            Event::Removed(removed) => {
                let blocks = &mut self.pods.get_mut(name).expect("live").blocks;
                for hash in removed.blocks {
                    let copies = blocks.get_mut(hash).map(|entry| &mut entry.copies[removed.tier.index()]);
                    let Some(copies) = copies.filter(|copies| **copies > 0) else {
                        applied.not_held += 1;
                        continue;
                    };
                    *copies = if source == EventSemantics::Copies { *copies - 1 } else { 0 };
                    if blocks[hash].copies == [0; 4] {
                        blocks.remove(hash);
                        applied.removed += 1;
                    } else {
                        applied.still_held += 1;
                    }
                }
            }
            Event::Cleared => {
                applied.removed += std::mem::take(&mut self.pods.get_mut(name).expect("live").blocks).len()
            }
        }
        applied
    }

    /// Lets a chain be found until a deadline.
    pub fn speculate(&mut self, name: &str, chain: &[BlockHash], deadline: Instant) -> ApplyStats {
        let mut applied = ApplyStats::default();
        self.enter(name, chain, &mut applied, |entry| {
            if entry.copies == [0; 4] {
                entry.deadline = Some(entry.deadline.map_or(deadline, |old| old.max(deadline)));
            }
        });
        applied
    }

    /// Drops what was speculated until now; how many blocks.
    pub fn expire(&mut self, now: Instant) -> usize {
        let before: usize = self.pods.values().map(|pod| pod.blocks.len()).sum();
        for pod in self.pods.values_mut() {
            pod.blocks.retain(|_, entry| entry.deadline.is_none_or(|deadline| deadline > now));
        }
        before - self.pods.values().map(|pod| pod.blocks.len()).sum::<usize>()
    }

    /// Makes a pod's real blocks those of the inventory.
    pub fn reconcile(&mut self, name: &str, inventory: &[InventoryBlock]) -> ApplyStats {
        let mut applied = ApplyStats::default();
        let listed: BTreeSet<BlockHash> = inventory.iter().filter(|b| b.copies > 0).map(|b| b.hash).collect();
        let blocks = &mut self.pods.get_mut(name).expect("live").blocks;
        let before = blocks.len();
        blocks.retain(|hash, entry| entry.deadline.is_some() || listed.contains(hash));
        applied.removed = before - blocks.len();
        let mut done = BTreeSet::new();
        for block in inventory.iter().filter(|b| listed.contains(&b.hash)) {
            if !done.insert(block.hash) {
                continue;
            }
            let mut copies = [0; 4];
            for listed in inventory.iter().filter(|b| b.hash == block.hash && b.copies > 0) {
                copies[listed.tier.index()] += listed.copies;
            }
            self.enter(name, &[block.hash], &mut applied, |entry| {
                (entry.copies, entry.deadline) = (copies, None);
            });
        }
        applied
    }

    /// Judges a batch and applies it if it is due.
    pub fn consume(&mut self, name: &str, config: &FeedConfig, batch: &Batch<'_>, skip_gap: bool) -> BatchOutcome {
        let pod = self.pods.get_mut(name).expect("live");
        let Some(next) = batch.sequence.checked_add(1) else { return BatchOutcome::Foreign };
        let passed = (batch.incarnation, next);
        let known = pod.streams.get(&config.stream).copied();
        let restarted = known.is_some_and(|(incarnation, _)| batch.incarnation > incarnation);
        let mut forgotten = 0;
        if restarted {
            forgotten = std::mem::take(&mut pod.blocks).len();
            pod.streams.clear();
            pod.streams.insert(config.stream, (batch.incarnation, config.first_sequence));
        }
        let verdict: fn(ApplyStats) -> BatchOutcome = match pod.streams.get(&config.stream).copied() {
            None if batch.sequence > config.first_sequence && !skip_gap => {
                return BatchOutcome::Gap { from: config.first_sequence, to: batch.sequence, restarted };
            }
            None => BatchOutcome::Applied,
            Some((incarnation, _)) if batch.incarnation < incarnation => return BatchOutcome::Stale,
            Some((_, next)) if restarted && (skip_gap || batch.sequence <= next) => BatchOutcome::Restarted,
            Some((_, next)) if batch.sequence < next => return BatchOutcome::Duplicate,
            Some((_, next)) if batch.sequence == next => BatchOutcome::Applied,
            Some((_, next)) if !skip_gap => return BatchOutcome::Gap { from: next, to: batch.sequence, restarted },
            Some(_) => {
                forgotten = std::mem::take(&mut pod.blocks).len();
                pod.streams.clear();
                BatchOutcome::GapSkipped
            }
        };
        pod.streams.insert(config.stream, passed);
        let mut applied = ApplyStats { removed: forgotten, ..ApplyStats::default() };
        for event in batch.events {
            applied += self.apply(name, config.semantics, event);
        }
        if batch.events.contains(&Event::Cleared) {
            // Of what other streams brought nothing is left either: they begin anew.
            let pod = self.pods.get_mut(name).expect("live");
            pod.streams.retain(|stream, _| *stream == config.stream);
        }
        verdict(applied)
    }

    /// Makes a pod's real blocks those of a numbered inventory, unless its number was passed.
    pub fn take_inventory(&mut self, name: &str, config: &FeedConfig, inventory: &Inventory<'_>) -> BatchOutcome {
        let Some(next_sequence) = inventory.sequence.checked_add(1) else { return BatchOutcome::Foreign };
        let streams = &mut self.pods.get_mut(name).expect("live").streams;
        let verdict: fn(ApplyStats) -> BatchOutcome = match streams.get(&config.stream).copied() {
            None => BatchOutcome::Applied,
            Some((incarnation, _)) if inventory.incarnation < incarnation => return BatchOutcome::Stale,
            Some((incarnation, _)) if inventory.incarnation > incarnation => BatchOutcome::Restarted,
            Some((_, next)) if inventory.sequence < next => return BatchOutcome::Duplicate,
            Some((_, next)) if inventory.sequence == next => BatchOutcome::Applied,
            Some(_) => BatchOutcome::GapSkipped,
        };
        streams.insert(config.stream, (inventory.incarnation, next_sequence));
        verdict(self.reconcile(name, inventory.blocks))
    }

    /// Where a pod's stream stands.
    #[must_use]
    pub fn cursor(&self, name: &str, stream: StreamId) -> Option<Cursor> {
        let (incarnation, next) = *self.pods.get(name)?.streams.get(&stream)?;
        Some(Cursor { incarnation, next })
    }

    /// What survives a snapshot: live pods, without speculation.
    pub fn restart(&mut self) {
        self.unswept.clear();
        for pod in self.pods.values_mut() {
            pod.blocks.retain(|_, entry| entry.deadline.is_none());
        }
    }

    /// From now on other bounds hold.
    pub fn rebound(&mut self, config: Config) {
        self.config = config;
    }

    /// Adds blocks in order, up to the first that does not fit.
    fn enter(&mut self, name: &str, blocks: &[BlockHash], applied: &mut ApplyStats, mut add: impl FnMut(&mut Entry)) {
        for (i, &hash) in blocks.iter().enumerate() {
            let known = self.pods.values().chain(&self.unswept).any(|pod| pod.blocks.contains_key(&hash));
            let full = self.distinct() >= self.config.max_blocks && !known;
            let pod = self.pods.get_mut(name).expect("live");
            if let Some(entry) = pod.blocks.get_mut(&hash) {
                applied.already_held += 1;
                add(entry);
                continue;
            }
            if pod.blocks.len() >= self.config.max_blocks_per_pod || full {
                applied.refused += blocks.len() - i;
                return;
            }
            applied.stored += 1;
            add(pod.blocks.entry(hash).or_default());
        }
    }
}

/// Runs any bytes as a trace, half of them in narrow bounds: the fuzz target, and the replay of its findings.
///
/// # Panics
///
/// When index and model disagree.
pub fn replay_any(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let narrow = Config::default().max_blocks(usize::from(first)).max_blocks_per_pod(40).max_pods(3);
    replay::<1>(if first % 2 == 0 { Config::default() } else { narrow }, &decode(rest));
}

/// Restores an index from any body under a good header: what comes out, if anything, keeps every invariant.
///
/// # Panics
///
/// When it does not.
pub fn restore_any(body: &[u8]) {
    if let Ok(index) = crate::Index::<1>::restore(Config::default(), &crate::index::snapshot::with_header(body)) {
        index.audit();
        let again = crate::Index::<1>::restore(Config::default(), &index.snapshot()).expect("our own snapshot");
        again.audit();
    }
}

/// A fixed instant to count model time from.
#[must_use]
pub fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "tests need some instant; which one does not matter")]
    *ORIGIN.get_or_init(Instant::now)
}
