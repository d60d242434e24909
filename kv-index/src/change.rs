//! One change of one pod, from its cache to the table and the hole ledger, in the order that keeps every
//! concurrent search explainable.
//!
//! The order: new holes are published, then the table changes, then healed holes are withdrawn. A search
//! that sees a block beyond a hole therefore also sees the hole.

use crate::block::{BlockHash, Parent};
use crate::cache::{NewCopy, Outcome, PodCache};
use crate::detail::Detail;
use crate::event::{Applied, Event, Removed, Source, Stored};
use crate::index::{Index, MOVES_AT_ONCE};
use crate::pod::PodId;
use crate::reclaim::{Pin, pin};
use crate::runs::{Follow, RunId};
use crate::snapshot::RestoredBlock;
use crate::sync::MutexGuard;
use crate::table::Meta;
use crate::tier::Tier;

/// A change under way: the pod's lock is held, the table not yet touched.
pub(crate) struct Change<'a, const W: usize> {
    index: &'a Index<W>,
    pod: PodId,
    cache: MutexGuard<'a, PodCache>,
    pin: Pin,
    buffers: Buffers,
    /// Room in the table taken for blocks not there yet, and how much of it the blocks that follow may use.
    room: usize,
    promised: usize,
    applied: Applied,
}

/// A block the pod did not hold before, and what it follows.
#[derive(Debug)]
struct Fresh {
    hash: BlockHash,
    before: Parent,
    /// Whether the pod may hold blocks under it already.
    follow: Follow,
}

/// A block the pod holds no longer, and what it followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) hash: BlockHash,
    pub(crate) before: Option<BlockHash>,
}

/// How a store's blocks are to be entered.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    Real(Source),
    Speculated(std::time::Instant),
}

impl<'a, const W: usize> Change<'a, W> {
    pub(crate) fn new(index: &'a Index<W>, pod: PodId, cache: MutexGuard<'a, PodCache>) -> Self {
        let mut cache = cache;
        let buffers = std::mem::take(&mut cache.buffers);
        Self { index, pod, cache, pin: pin(), buffers, room: 0, promised: 0, applied: Applied::default() }
    }

    pub(crate) fn cache(&mut self) -> &mut PodCache {
        &mut self.cache
    }

    pub(crate) fn event(&mut self, event: &Event<'_>, source: Source) {
        match event {
            Event::Stored(stored) => self.store(stored, Entry::Real(source)),
            Event::Removed(removed) => self.remove(removed, source),
            Event::Cleared => self.clear(),
        }
        self.commit();
    }

    /// Enters a store's blocks in chain order, up to the first that does not fit.
    pub(crate) fn store(&mut self, stored: &Stored<'_>, entry: Entry) {
        let blocks = stored.blocks;
        for &hash in blocks.iter().take(AHEAD) {
            self.prefetch(hash);
        }
        self.buffers.fresh.reserve(blocks.len());
        for (offset, &hash) in blocks.iter().enumerate() {
            if let Some(&ahead) = blocks.get(offset + AHEAD) {
                self.prefetch(ahead);
            }
            let before = if offset == 0 { stored.parent } else { Parent::Block(blocks[offset - 1]) };
            let source = if let Entry::Real(source) = entry { source } else { Source::Membership };
            let copy = NewCopy { tier: stored.tier, source, location: stored.locations.get(offset).copied() };
            if let Some(spot) = self.cache.find(hash) {
                self.applied.repeated += 1;
                match entry {
                    Entry::Real(_) => self.cache.add_copy(spot, hash, before, copy),
                    Entry::Speculated(deadline) => self.cache.prolong(hash, deadline),
                }
                continue;
            }
            if !self.has_room(hash, blocks.len() - offset) {
                self.applied.refused += blocks.len() - offset;
                return;
            }
            let follow = match entry {
                Entry::Real(_) => self.cache.insert(hash, before, copy),
                Entry::Speculated(deadline) => self.cache.insert_speculated(hash, before, deadline),
            };
            self.buffers.fresh.push(Fresh { hash, before, follow });
        }
    }

    pub(crate) fn remove(&mut self, removed: &Removed<'_>, source: Source) {
        let blocks = removed.blocks;
        for &hash in blocks.iter().take(AHEAD) {
            self.prefetch(hash);
        }
        for (offset, &hash) in blocks.iter().enumerate() {
            if let Some(&ahead) = blocks.get(offset + AHEAD) {
                self.prefetch(ahead);
            }
            match self.cache.remove_copy(hash, removed.tier, source) {
                Outcome::Gone(left) => self.buffers.gone.push(left),
                Outcome::Kept => self.applied.kept += 1,
                Outcome::Missing => self.applied.missing += 1,
            }
        }
    }

    /// Makes a block real with exactly these copies; false if it does not fit.
    pub(crate) fn replace(&mut self, hash: BlockHash, parent: Parent, detail: &Detail) -> bool {
        let held = self.cache.find(hash).is_some();
        if held {
            self.applied.repeated += 1;
        } else {
            if !self.has_room(hash, 0) {
                return false;
            }
            // The first tier it is in; the others follow below.
            let tier = Tier::ALL.into_iter().find(|tier| detail.copies[tier.index()] > 0).unwrap_or(Tier::Gpu);
            let copy = NewCopy { tier, source: Source::Membership, location: None };
            let follow = self.cache.insert(hash, parent, copy);
            self.buffers.fresh.push(Fresh { hash, before: parent, follow });
        }
        if let Some(spot) = self.cache.find(hash) {
            self.cache.replace(spot, hash, parent, detail);
        }
        true
    }

    /// Puts a snapshot's blocks back, as far as they fit; false if one is there twice.
    pub(crate) fn restore(&mut self, blocks: Vec<RestoredBlock>) -> bool {
        let count = blocks.len();
        for (i, (hash, held, detail)) in blocks.into_iter().enumerate() {
            if self.cache.find(hash).is_some() {
                return false;
            }
            if !self.has_room(hash, count - i) {
                self.refuse(count - i);
                break;
            }
            // Parents are restored before their children, as far as positions are known.
            let follow = if held.position.is_some() { Follow::Nothing } else { Follow::Perhaps };
            let before = held.parent.map_or(Parent::Unknown, Parent::Block);
            self.buffers.fresh.push(Fresh { hash, before, follow });
            self.cache.restore_block(hash, held, detail);
        }
        self.cache.restore_links();
        true
    }

    /// Counts blocks that were left out.
    pub(crate) fn refuse(&mut self, blocks: usize) {
        self.applied.refused += blocks;
    }

    /// Takes a block out whatever its copies.
    pub(crate) fn drop_block(&mut self, hash: BlockHash) {
        self.buffers.gone.extend(self.cache.drop_block(hash));
    }

    pub(crate) fn clear(&mut self) {
        self.cache.clear(&mut self.buffers.gone);
    }

    /// Carries what was entered so far to the ledger and the table.
    pub(crate) fn commit(&mut self) {
        self.publish_holes();
        self.clear_bits();
        self.set_bits();
        self.mark_relinked();
        self.cache.settle();
        self.publish_holes();
    }

    /// Ends the change; what it did.
    pub(crate) fn finish(mut self) -> Applied {
        self.commit();
        self.cache.totals += self.applied;
        self.applied
    }

    fn publish_holes(&mut self) {
        if let Some(ledger) = self.cache.ledger_news() {
            self.index.ledgers.publish(self.pod, ledger, &self.pin);
        }
    }

    fn clear_bits(&mut self) {
        if self.buffers.gone.is_empty() {
            return;
        }
        self.applied.removed += self.buffers.gone.len();
        // Tail first, whatever the order of the report: a run grows shorter only from its end.
        if self.buffers.gone.len() > 1 && self.buffers.gone[1].before == Some(self.buffers.gone[0].hash) {
            self.buffers.gone.reverse();
        }
        let emptied = self.index.clear_bits(self.pod, &self.buffers.gone, &self.pin);
        self.index.give_back(emptied, 0);
        self.buffers.gone.clear();
    }

    fn set_bits(&mut self) {
        if self.buffers.fresh.is_empty() {
            return;
        }
        self.applied.stored += self.buffers.fresh.len();
        let Self { index, pod, ref pin, .. } = *self;
        let mut moves = index.sets.moves();
        let mut entered = 0;
        // The run that the block before, in chain order, is the last of.
        let mut tail: Option<(RunId, BlockHash)> = None;
        for (i, fresh) in self.buffers.fresh.iter().enumerate() {
            if i > 0 && i % MOVES_AT_ONCE == 0 {
                moves = index.sets.moves();
            }
            let more = (self.buffers.fresh.len() - i - 1).min(MOVES_AT_ONCE) as u32;
            tail = match fresh.before {
                Parent::Block(before) if tail.is_some_and(|(_, last)| last == before) => tail,
                Parent::Block(before) => index.table.probe(before, pin).run().map(|run| (run, before)),
                Parent::Root | Parent::Unknown => None,
            };
            let before = if let Parent::Block(before) = fresh.before { Some(before) } else { None };
            let mut run = None;
            let old = index.table.update(fresh.hash, pin, |old| {
                let set = moves.with(old.set(), pod, more);
                let kept = old.place().filter(|&at| index.runs.set(&index.sets, at, set, before));
                // Of a block that is there already, nobody knows what is stored under it.
                let follow = if old == Meta::ABSENT { fresh.follow } else { Follow::Perhaps };
                let place = kept.or_else(|| index.runs.push(&index.sets, tail, fresh.hash, set, follow));
                run = place.map(|at| at.run);
                Meta::new(set, place)
            });
            if let Some((followed, _)) = tail.filter(|(tail, _)| run != Some(*tail)) {
                index.runs.mark_followed(followed);
            }
            if let Some(run) = run.filter(|_| fresh.follow == Follow::Perhaps) {
                index.runs.mark_followed(run);
            }
            tail = run.map(|run| (run, fresh.hash));
            entered += usize::from(old == Meta::ABSENT);
        }
        drop(moves);
        index.give_back(self.room, entered);
        (self.room, self.promised) = (0, 0);
        self.buffers.fresh.clear();
    }

    /// Blocks whose parent was learned only now follow that parent's run.
    fn mark_relinked(&mut self) {
        for hash in std::mem::take(&mut self.cache.relinked) {
            if let Some(run) = self.index.table.probe(hash, &self.pin).run() {
                self.index.runs.mark_followed(run);
            }
        }
    }

    /// Whether a block the pod does not hold may be added; takes room in the table if it needs any.
    ///
    /// Mostly there is room for all of the `following` blocks, this one included, and nobody has to ask which of
    /// them the table has already; what was not needed is given back with the commit.
    fn has_room(&mut self, hash: BlockHash, following: usize) -> bool {
        if self.cache.len() >= self.index.config.max_blocks_per_pod {
            return false;
        }
        if self.promised > 0 {
            self.promised -= 1;
            return true;
        }
        let granted = self.index.reserve(following);
        if granted > 0 && granted == following {
            self.room += granted;
            self.promised = granted - 1;
            return true;
        }
        self.index.give_back(granted, 0);
        if self.index.table.probe(hash, &self.pin) != Meta::ABSENT {
            return true;
        }
        let granted = self.index.reserve(1);
        self.room += granted;
        granted == 1
    }

    fn prefetch(&self, hash: BlockHash) {
        self.cache.prefetch(hash);
        self.index.table.prefetch(hash);
    }
}

impl<const W: usize> Drop for Change<'_, W> {
    fn drop(&mut self) {
        let mut buffers = std::mem::take(&mut self.buffers);
        buffers.fresh.clear();
        buffers.gone.clear();
        // A burst's buffer is not kept for good.
        if buffers.fresh.capacity() + buffers.gone.capacity() <= 1024 {
            self.cache.buffers = buffers;
        }
    }
}

/// What a change gathers, kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    fresh: Vec<Fresh>,
    gone: Vec<Left>,
}

/// How many blocks ahead a store or removal asks for.
const AHEAD: usize = 12;
