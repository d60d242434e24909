//! Write path: one update of one pod, carried to the segments and to what the pod's cache says beside them.
//!
//! Blocks that come are placed a stretch at a time. Blocks that leave are looked up, gathered by segments, and taken out together.

mod leaving;
mod placing;
mod restore;

pub(crate) use restore::RestoredBlock;

use crate::blocks::{ApplyStats, BlockHash, Event, EventSemantics, Parent, Removed, Stored};
use crate::index::Index;
use crate::index::cache::PodCache;
use crate::index::detail::Detail;
use crate::pods::{Pod, PodId, PodRetired};
use crate::segments::{BlockPosition, Segments};
use crate::sync::MutexGuard;
use crate::writers::{COUNTED, WritePin, Writers};

/// A change under way: the pod's lock is held.
pub(crate) struct PodUpdate<'a, const W: usize> {
    index: &'a Index<W>,
    pod: PodId,
    cache: MutexGuard<'a, PodCache>,
    pin: WritePin<'a>,
    applied: ApplyStats,
}

/// How a store's blocks are to be entered.
#[derive(Clone, Copy)]
pub(crate) enum Entry<'d> {
    Real(EventSemantics),
    Speculated(std::time::Instant),
    /// With exactly these copies.
    Listed(&'d Detail),
}

impl<const WORDS: usize> Index<WORDS> {
    /// Begins a change of a live pod.
    pub(crate) fn change(&self, pod: Pod) -> Result<PodUpdate<'_, WORDS>, PodRetired> {
        Ok(PodUpdate::new(self, pod.id(), self.cache(pod)?))
    }
}

impl<'a, const W: usize> PodUpdate<'a, W> {
    pub(crate) fn new(index: &'a Index<W>, pod: PodId, mut cache: MutexGuard<'a, PodCache>) -> Self {
        let pin = index.writers.enter();
        if pin.writers() == Writers::Many {
            cache.among_many = cache.among_many.wrapping_add(1);
            if cache.among_many % COUNTED == 0 {
                index.writers.count(&pin);
            }
        }
        Self { index, pod, cache, pin, applied: ApplyStats::default() }
    }

    #[cfg(all(test, not(routing_loom)))]
    pub(crate) fn is_alone(&self) -> bool {
        self.pin.writers() == Writers::One
    }

    /// Something was done that takes as long as a batch: whoever waits meanwhile is let in.
    #[cfg(feature = "engine")]
    pub(crate) fn lets_others_in(&mut self) {
        self.pin.let_in();
    }

    /// What is done next may take long, or waits for others: whoever writes to other pods need not wait for it.
    pub(crate) fn keeps_nobody_waiting(&mut self) {
        self.pin.step_aside();
    }

    pub(crate) fn cache(&mut self) -> &mut PodCache {
        &mut self.cache
    }

    pub(crate) fn event(&mut self, event: &Event<'_>, source: EventSemantics) {
        self.pin.let_in();
        match event {
            Event::Stored(stored) => self.store(stored, Entry::Real(source)),
            Event::Removed(removed) => self.remove(removed, source),
            Event::Cleared => self.clear(),
        }
    }

    /// Asks for what the first events of a batch will look up first, and then for the segments that it leads to, so that their misses
    /// overlap. Of more than caches hold that would be in vain.
    pub(crate) fn prefetch<'e>(&self, events: impl Iterator<Item = Event<'e>> + Clone) {
        let events = events.take(EVENTS_AHEAD);
        let Segments { directory, .. } = &self.index.segments;
        for event in events.clone() {
            first_looked_up(&event).into_iter().for_each(|hash| directory.prefetch(hash));
            if let Event::Stored(Stored { blocks: [first, ..], .. }) = event {
                directory.prefetch_to_write(*first);
            }
        }
        for hash in events.filter_map(|event| first_looked_up(&event)) {
            if let Some(at) = directory.sole(hash, &self.pin) {
                self.index.segments.prefetch(at.segment, &self.pin);
            }
        }
    }

    /// Where the pod holds a block.
    pub(crate) fn find(&self, hash: BlockHash) -> Option<BlockPosition> {
        self.index.segments.find(self.pod, hash, &self.pin)
    }

    /// Counts blocks that were left out.
    pub(crate) fn refuse(&mut self, blocks: usize) {
        self.applied.refused += blocks;
    }

    pub(crate) fn clear(&mut self) {
        self.keeps_nobody_waiting();
        self.take_out();
        let dead = self
            .cache
            .segments()
            .into_iter()
            .map(|segment| self.index.segments.drop_pod(self.pod, segment, &self.pin).dead)
            .sum();
        self.applied.removed += self.cache.len;
        self.cache.clear();
        self.index.room.give_back(self.pod, dead);
    }

    /// Hands out every block that the pod really has, along the segments.
    pub(crate) fn for_real(&self, mut each: impl FnMut(BlockHash)) {
        let _still = self.index.segments.hold_still();
        for segment in self.cache.segments() {
            self.index.segments.for_held(self.pod, segment, &self.pin, |_, _, blocks| {
                let is_real = |hash: &&BlockHash| self.cache.is_plain() || self.cache.real(**hash).is_some();
                blocks.iter().filter(is_real).for_each(|hash| each(*hash));
            });
        }
    }

    /// Carries what was entered so far to the segments.
    pub(crate) fn commit(&mut self) {
        self.take_out();
        if self.cache.len == 0 {
            self.index.segments.unset_loose(self.pod);
        }
    }

    /// Ends the change; what it did.
    pub(crate) fn finish(mut self) -> ApplyStats {
        self.commit();
        self.cache.totals += self.applied;
        self.applied
    }
}

/// The block by which an event finds its way.
fn first_looked_up(event: &Event<'_>) -> Option<BlockHash> {
    match event {
        Event::Stored(Stored { parent: Parent::Block(parent), .. }) => Some(*parent),
        Event::Stored(Stored { blocks, .. }) | Event::Removed(Removed { blocks, .. }) => blocks.first().copied(),
        Event::Cleared => None,
    }
}

/// How many events of a batch are looked at before the first is carried out.
const EVENTS_AHEAD: usize = 512;

/// How many blocks ahead a store or removal asks for.
const AHEAD: usize = 16;
