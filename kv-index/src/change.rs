//! Write path: one update of one pod, carried from its cache to the path-compressed segments (runs).
//!
//! Blocks that come are entered in the pod's map first and then given their places, a stretch at a time; blocks that
//! leave are taken out of the map first, and out of their runs by spans.

mod placing;
mod restore;

use crate::block::{BlockHash, Parent};
use crate::cache::{Left, NewCopy, Outcome, PodCache};
use crate::detail::Detail;
use crate::event::{ApplyStats, Event, EventSemantics, Removed, Stored};
use crate::held::{Held, Spot};
use crate::index::Index;
use crate::pod::PodId;
use crate::reclaim::{Pin, pin};
use crate::runs::{Anchor, Place, Span};
use crate::sync::MutexGuard;
use crate::tier::Tier;

/// A change under way: the pod's lock is held.
pub(crate) struct Change<'a, const W: usize> {
    index: &'a Index<W>,
    pod: PodId,
    cache: MutexGuard<'a, PodCache>,
    pin: Pin,
    buffers: Buffers,
    applied: ApplyStats,
}

/// How a store's blocks are to be entered.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    Real(EventSemantics),
    Speculated(std::time::Instant),
}

impl<'a, const W: usize> Change<'a, W> {
    pub(crate) fn new(index: &'a Index<W>, pod: PodId, mut cache: MutexGuard<'a, PodCache>) -> Self {
        let buffers = std::mem::take(&mut cache.buffers);
        Self { index, pod, cache, pin: pin(), buffers, applied: ApplyStats::default() }
    }

    pub(crate) fn cache(&mut self) -> &mut PodCache {
        &mut self.cache
    }

    pub(crate) fn event(&mut self, event: &Event<'_>, source: EventSemantics) {
        match event {
            Event::Stored(stored) => self.store(stored, Entry::Real(source)),
            Event::Removed(removed) => self.remove(removed, source),
            Event::Cleared => self.clear(),
        }
        self.commit();
    }

    /// Enters a store's blocks in chain order, up to the first that does not fit.
    pub(crate) fn store(&mut self, stored: &Stored<'_>, entry: Entry) {
        self.take_out();
        let blocks = stored.blocks;
        for &hash in blocks.iter().take(AHEAD) {
            self.cache.prefetch(hash);
        }
        if let Some(&first) = blocks.first() {
            self.index.heads.prefetch(first);
        }
        let (mut parent, mut anchor) = (stored.parent, self.anchor(stored.parent));
        let mut at = 0;
        while at < blocks.len() {
            let plain = self.pass_plain(stored, at, entry, &mut anchor);
            if plain > 0 {
                at += plain;
                parent = Parent::Block(blocks[at - 1]);
                continue;
            }
            if blocks.len() - at > 1 {
                self.buffers.spots.reserve(blocks.len() - at);
                self.cache.reserve(blocks.len() - at);
            }
            let moves = self.cache.moves();
            let stretch = self.gather(stored, at, entry);
            let fresh = &blocks[at..at + self.buffers.spots.len()];
            let placed = self.place(fresh, parent, &mut anchor, moves);
            self.applied.stored += placed;
            for &hash in &fresh[placed..] {
                self.cache.drop_block(hash);
            }
            at += placed;
            if placed < fresh.len() || stretch == Stretch::Full {
                self.applied.refused += blocks.len() - at;
                return;
            }
            if placed > 0 {
                parent = Parent::Block(blocks[at - 1]);
            }
            if stretch == Stretch::Held {
                let hash = blocks[at];
                self.repeat(stored, at, entry, parent);
                (parent, anchor) = (Parent::Block(hash), self.anchor(Parent::Block(hash)));
                at += 1;
            }
        }
    }

    /// Passes over blocks that the pod holds right behind `anchor` and of which the store says nothing new; how many.
    fn pass_plain(&mut self, stored: &Stored<'_>, at: usize, entry: Entry, anchor: &mut Option<Anchor>) -> usize {
        let Some(Anchor::Behind(_, mut last)) = *anchor else { return 0 };
        if !matches!(entry, Entry::Real(EventSemantics::Membership)) || !stored.locations.is_empty() {
            return 0;
        }
        let mut count = 0;
        for &hash in &stored.blocks[at..] {
            if let Some(&ahead) = stored.blocks.get(at + count + AHEAD) {
                self.cache.prefetch(ahead);
            }
            let Some(Held { place: Some(place), state }) = self.cache.get(hash) else { break };
            if place.run != last.run || place.offset != last.offset + 1 || !state.is_plainly_in(stored.tier.bit()) {
                break;
            }
            last = place;
            count += 1;
        }
        if count > 0 {
            self.applied.already_held += count;
            *anchor = Some(Anchor::Behind(stored.blocks[at + count - 1], last));
        }
        count
    }

    /// Enters blocks from `at` on in the pod's map, up to the first that it holds or has no room for.
    fn gather(&mut self, stored: &Stored<'_>, at: usize, entry: Entry) -> Stretch {
        self.buffers.spots.clear();
        let room = self.index.config.max_blocks_per_pod.saturating_sub(self.cache.len());
        let blocks = &stored.blocks[at..];
        let plain = matches!(entry, Entry::Real(_)) && stored.locations.is_empty();
        loop {
            let done = self.buffers.spots.len();
            if plain {
                let rest = &blocks[done..blocks.len().min(room.max(done))];
                self.cache.insert_plain(rest, stored.tier, &mut self.buffers.spots);
            }
            let done = self.buffers.spots.len();
            let Some(&hash) = blocks.get(done) else { break };
            if done == room {
                return if self.cache.find(hash).is_some() { Stretch::Held } else { Stretch::Full };
            }
            let (spot, found) = match entry {
                Entry::Real(_) => self.cache.find_or_insert(hash, stored.tier),
                Entry::Speculated(deadline) => self.cache.find_or_speculate(hash, deadline),
            };
            if found {
                return Stretch::Held;
            }
            if let Some(&location) = stored.locations.get(at + done) {
                self.cache.locate(spot, hash, stored.tier, location);
            }
            self.buffers.spots.push(spot);
        }
        Stretch::Whole
    }

    /// A block that the pod holds was stored again, behind `parent`.
    fn repeat(&mut self, stored: &Stored<'_>, at: usize, entry: Entry, parent: Parent) {
        self.applied.already_held += 1;
        let hash = stored.blocks[at];
        let Some(spot) = self.cache.find(hash) else { return };
        match entry {
            Entry::Speculated(deadline) => self.cache.prolong(hash, deadline),
            Entry::Real(source) => self.cache.add_copy(spot, hash, copy_of(stored, at, source)),
        }
        self.relink(spot, hash, parent);
    }

    pub(crate) fn remove(&mut self, removed: &Removed<'_>, source: EventSemantics) {
        let blocks = removed.blocks;
        for &hash in blocks.iter().take(AHEAD) {
            self.cache.prefetch(hash);
        }
        for (offset, &hash) in blocks.iter().enumerate() {
            if let Some(&ahead) = blocks.get(offset + AHEAD) {
                self.cache.prefetch(ahead);
            }
            match self.cache.remove_copy(hash, removed.tier, source) {
                Outcome::PodRetired(left) => self.gone(left),
                Outcome::Kept => self.applied.still_held += 1,
                Outcome::Missing => self.applied.not_held += 1,
            }
        }
    }

    /// Makes a block real with exactly these copies; false if it does not fit.
    pub(crate) fn replace(&mut self, hash: BlockHash, parent: Parent, detail: &Detail) -> bool {
        if let Some(spot) = self.cache.find(hash) {
            self.applied.already_held += 1;
            self.relink(spot, hash, parent);
        } else if !self.enter(hash, parent, detail) {
            return false;
        }
        if let Some(spot) = self.cache.find(hash) {
            self.cache.replace(spot, hash, detail);
        }
        true
    }

    /// Enters one block that the pod does not hold; false if it does not fit.
    fn enter(&mut self, hash: BlockHash, parent: Parent, detail: &Detail) -> bool {
        self.take_out();
        if self.cache.len() >= self.index.config.max_blocks_per_pod {
            return false;
        }
        // The first tier it is in; the others follow.
        let tier = Tier::ALL.into_iter().find(|tier| detail.copies[tier.index()] > 0).unwrap_or(Tier::Gpu);
        let (spot, _) = self.cache.find_or_insert(hash, tier);
        self.buffers.spots.clear();
        self.buffers.spots.push(spot);
        let (mut anchor, moves) = (self.anchor(parent), self.cache.moves());
        let placed = self.place(&[hash], parent, &mut anchor, moves);
        self.applied.stored += placed;
        if placed == 0 {
            self.cache.drop_block(hash);
        }
        placed == 1
    }

    /// Counts blocks that were left out.
    pub(crate) fn refuse(&mut self, blocks: usize) {
        self.applied.refused += blocks;
    }

    /// Takes blocks out whatever their copies.
    pub(crate) fn drop_blocks(&mut self, blocks: impl Iterator<Item = BlockHash> + Clone) {
        let mut ahead = blocks.clone();
        ahead.by_ref().take(AHEAD).for_each(|hash| self.cache.prefetch(hash));
        for hash in blocks {
            ahead.next().into_iter().for_each(|hash| self.cache.prefetch(hash));
            self.drop_block(hash);
        }
    }

    /// Takes a block out whatever its copies.
    pub(crate) fn drop_block(&mut self, hash: BlockHash) {
        if let Some(left) = self.cache.drop_block(hash) {
            self.gone(left);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.take_out();
        let Self { index, pod, ref pin, .. } = *self;
        // A bit a run: each is asked once to forget the pod, however many of its blocks the pod had.
        let mut seen = vec![0u64; index.runs.made() as usize / 64 + 1];
        let mut emptied = self.cache.strays.len();
        for place in self.cache.places() {
            let run = place.run.raw() as usize;
            if seen[run / 64] >> (run % 64) & 1 == 0 {
                seen[run / 64] |= 1 << (run % 64);
                emptied += index.runs.drop_pod(&index.heads, pod, place.run, pin);
            }
        }
        self.applied.removed += self.cache.len();
        self.cache.clear();
        index.give_back(emptied, 0);
    }

    /// Notes a block that left.
    fn gone(&mut self, left: Left) {
        self.applied.removed += 1;
        let Left::Place(Place { run, offset }) = left else {
            self.index.give_back(1, 0);
            return;
        };
        match self.buffers.gone.last_mut() {
            Some(span) if span.run == run && offset + 1 == span.from => span.from = offset,
            Some(span) if span.run == run && offset == span.to => span.to += 1,
            _ => self.buffers.gone.push(Span { run, from: offset, to: offset + 1 }),
        }
    }

    /// Takes what left out of its runs.
    fn take_out(&mut self) {
        if self.buffers.gone.is_empty() {
            return;
        }
        let Self { index, pod, ref pin, .. } = *self;
        // In whatever order blocks were named, those of one run go together.
        if self.buffers.gone.len() > 1 {
            join_spans(&mut self.buffers.gone);
        }
        let mut emptied = 0;
        for spans in self.buffers.gone.chunk_by(|a, b| a.run == b.run) {
            emptied += index.runs.remove(&index.heads, pod, spans, pin);
        }
        self.buffers.gone.clear();
        index.give_back(emptied, 0);
    }

    /// Carries what was entered so far to the runs.
    pub(crate) fn commit(&mut self) {
        self.take_out();
        let unlinked = self.cache.is_unlinked();
        if unlinked != self.cache.known_unlinked {
            self.cache.known_unlinked = unlinked;
            self.index.set_unlinked(self.pod, unlinked);
        }
    }

    /// Ends the change; what it did.
    pub(crate) fn finish(mut self) -> ApplyStats {
        self.commit();
        self.cache.totals += self.applied;
        self.applied
    }
}

impl<const W: usize> Drop for Change<'_, W> {
    fn drop(&mut self) {
        let mut buffers = std::mem::take(&mut self.buffers);
        buffers.gone.clear();
        // A burst's buffer is not kept for good.
        if buffers.spots.capacity() + buffers.gone.capacity() <= 1024 {
            self.cache.buffers = buffers;
        }
    }
}

/// Puts spans in order, and those that adjoin together.
fn join_spans(spans: &mut Vec<Span>) {
    spans.sort_unstable_by_key(|span| (span.run.raw(), span.from));
    spans.dedup_by(|next, span| {
        let adjoins = next.run == span.run && next.from == span.to;
        span.to = if adjoins { next.to } else { span.to };
        adjoins
    });
}

fn copy_of(stored: &Stored<'_>, offset: usize, source: EventSemantics) -> NewCopy {
    NewCopy { tier: stored.tier, source, location: stored.locations.get(offset).copied() }
}

/// Where a stretch of new blocks ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stretch {
    /// With the event.
    Whole,
    /// At a block that the pod holds.
    Held,
    /// At a block that the pod may not have.
    Full,
}

/// What a change gathers, kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Where the blocks of the present stretch are in the pod's map.
    spots: Vec<Spot>,
    /// What left, by runs.
    gone: Vec<Span>,
}

/// How many blocks ahead a store or removal asks for.
const AHEAD: usize = 16;
