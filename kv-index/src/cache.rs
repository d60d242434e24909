//! One pod's cache as its events tell it: what is held, where, how often, and under what.
//!
//! Pure bookkeeping behind the pod's lock. A change happens here first, then in the table ([`crate::change`]).
//! The rule that keeps searches exact: while the table still shows a child, the hole above it stays known;
//! so holes and unlinked blocks that went are forgotten only in [`PodCache::settle`].

mod speculated;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::block::{BlockHash, Parent};
use crate::change::{Buffers, Left};
use crate::detail::Detail;
use crate::digest::Digest;
use crate::event::{Applied, Source};
use crate::feed::Cursors;
use crate::held::{Held, HeldMap, Spot, State};
use crate::ledger::{Holes, Ledger};
use crate::map::FixedMap;
use crate::runs::Follow;
use crate::tier::{Location, Tier};

/// Everything the index keeps about one pod.
#[derive(Debug, Default)]
pub(crate) struct PodCache {
    held: HeldMap,
    details: FixedMap<BlockHash, Detail>,
    holes: Holes,
    /// Blocks whose parent is not known, those that left and are not settled included.
    unlinked: usize,
    unlinked_left: usize,
    digest: Digest,
    deadlines: FixedMap<BlockHash, Instant>,
    /// Deepest first among equal deadlines, so that a speculated tail never outlives its start.
    expiries: BinaryHeap<Reverse<(Instant, Reverse<u32>, BlockHash)>>,
    pub(crate) cursors: Cursors,
    pub(crate) buffers: Buffers,
    /// Blocks that were learned to be followed by one that was there already.
    pub(crate) relinked: Vec<BlockHash>,
    /// Everything that was ever applied.
    pub(crate) totals: Applied,
    /// Stores that named another parent than an earlier one did.
    pub(crate) contradictions: u64,
    /// How often everything was forgotten, so that whoever keeps state beside the pod's notices.
    pub(crate) clears: u64,
}

/// What became of one block of a `Removed`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Gone(Left),
    Kept,
    Missing,
}

impl PodCache {
    /// Counts a copy of a block the pod holds already, or makes a speculated one real.
    pub(crate) fn add_copy(&mut self, spot: Spot, hash: BlockHash, parent: Parent, copy: NewCopy) {
        let mut held = self.held.at(spot);
        if held.state.has(State::SPECULATED) {
            held.state = held.state.without(State::SPECULATED);
            self.deadlines.remove(&hash);
        }
        let count = self.copies(hash, held.state, copy.tier);
        if count == 0 || copy.source == Source::Copies {
            self.digest.add(hash, copy.tier);
            self.set_copies(hash, &mut held.state, copy.tier, count.saturating_add(1));
        }
        if copy.location.is_some() {
            self.detail(hash, &mut held.state).relocate(copy.tier, copy.location);
        }
        self.held.put(spot, held);
        self.relink(hash, parent);
    }

    /// Adds a block the pod does not hold; whether it holds blocks under it already.
    pub(crate) fn insert(&mut self, hash: BlockHash, parent: Parent, copy: NewCopy) -> Follow {
        let mut held = self.link(parent);
        held.state = held.state.with_tiers(copy.tier.bit());
        self.digest.add(hash, copy.tier);
        if copy.location.is_some() {
            self.detail(hash, &mut held.state).relocate(copy.tier, copy.location);
        }
        self.fill(hash, held)
    }

    /// Makes a held block real with exactly these copies, whatever it had.
    pub(crate) fn replace(&mut self, spot: Spot, hash: BlockHash, parent: Parent, detail: &Detail) {
        let mut held = self.held.at(spot);
        if held.state.has(State::SPECULATED) {
            held.state = held.state.without(State::SPECULATED);
            self.deadlines.remove(&hash);
        }
        for tier in Tier::ALL {
            let (have, want) = (self.copies(hash, held.state, tier), detail.copies[tier.index()]);
            self.digest.remove_copies(hash, tier, have);
            self.digest.add_copies(hash, tier, want);
        }
        let tiers = (0..4).filter(|&tier| detail.copies[tier] > 0).fold(0, |tiers, tier| tiers | 1 << tier);
        held.state = held.state.with_tiers(tiers).without(State::DETAILED);
        if detail.is_trivial() {
            self.details.remove(&hash);
        } else {
            held.state = held.state.with(State::DETAILED);
            self.details.insert(hash, detail.clone());
        }
        self.held.put(spot, held);
        self.relink(hash, parent);
    }

    /// Counts a copy out; a membership source takes all copies of the tier.
    pub(crate) fn remove_copy(&mut self, hash: BlockHash, tier: Tier, source: Source) -> Outcome {
        let Some(spot) = self.held.find(hash) else { return Outcome::Missing };
        let mut held = self.held.at(spot);
        let count = self.copies(hash, held.state, tier);
        if count == 0 {
            return Outcome::Missing;
        }
        let left = if source == Source::Copies { count - 1 } else { 0 };
        self.digest.remove_copies(hash, tier, count - left);
        self.set_copies(hash, &mut held.state, tier, left);
        self.held.put(spot, held);
        if held.state.tiers() != 0 {
            return Outcome::Kept;
        }
        self.drop_block(hash).map_or(Outcome::Missing, Outcome::Gone)
    }

    /// Forgets a block altogether, whatever its copies.
    pub(crate) fn drop_block(&mut self, hash: BlockHash) -> Option<Left> {
        let (held, children) = self.held.remove(hash)?;
        for tier in Tier::ALL {
            self.digest.remove_copies(hash, tier, self.copies(hash, held.state, tier));
        }
        if held.state.has(State::DETAILED) {
            self.details.remove(&hash);
        }
        if held.state.has(State::SPECULATED) {
            self.deadlines.remove(&hash);
        }
        if children > 0 {
            self.holes.open(hash, held.position, children);
        }
        self.unlink(held);
        Some(Left { hash, before: held.parent })
    }

    /// Forgets everything; `gone` gets every block there was.
    pub(crate) fn clear(&mut self, gone: &mut Vec<Left>) {
        gone.extend(self.held.iter().map(|(hash, held)| Left { hash, before: held.parent }));
        self.held = HeldMap::default();
        self.details = FixedMap::default();
        self.deadlines = FixedMap::default();
        self.expiries = BinaryHeap::new();
        self.digest = Digest::EMPTY;
        self.holes.heal_all();
        self.unlinked_left = self.unlinked;
        self.clears += 1;
    }

    /// Forgets the holes that are no more, once the table shows it.
    pub(crate) fn settle(&mut self) {
        self.holes.settle();
        if self.unlinked_left > 0 {
            self.unlinked -= std::mem::take(&mut self.unlinked_left);
            self.holes.touch();
        }
    }

    /// What searches should be told about holes, if anything changed.
    pub(crate) fn ledger_news(&mut self) -> Option<Ledger> {
        self.holes.news(self.unlinked)
    }

    /// Takes blocks out of a retired pod's map, about `budget` at a time.
    pub(crate) fn drain_some(&mut self, budget: usize, out: &mut Vec<Left>) {
        self.held.drain_some(budget, out);
    }

    pub(crate) fn find(&self, hash: BlockHash) -> Option<Spot> {
        self.held.find(hash)
    }

    pub(crate) fn prefetch(&self, hash: BlockHash) {
        self.held.prefetch(hash);
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn holes(&self) -> usize {
        self.holes.len()
    }

    /// Whether searches scan for this pod.
    pub(crate) fn is_scanned(&self) -> bool {
        self.holes.need_scan(self.unlinked)
    }

    pub(crate) fn speculated(&self) -> usize {
        self.deadlines.len()
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn bytes(&self) -> usize {
        self.held.bytes()
            + self.holes.bytes()
            + self.details.capacity() * (size_of::<(BlockHash, Detail)>() + 1)
            + self.deadlines.capacity() * (size_of::<(BlockHash, Instant)>() + 1)
            + self.expiries.capacity() * size_of::<(Instant, u32, BlockHash)>()
    }

    /// Every block the engine really has, with its parent, position and copies.
    pub(crate) fn real_blocks(&self) -> impl Iterator<Item = (BlockHash, Held, Detail)> + '_ {
        let real = self.held.iter().filter(|(_, held)| !held.state.has(State::SPECULATED));
        real.map(|(hash, held)| (hash, held, self.detail_of(hash, held.state)))
    }

    /// Tiers and copies of a block the pod really holds.
    pub(crate) fn real(&self, hash: BlockHash) -> Option<Detail> {
        let held = self.held.get(hash).filter(|held| !held.state.has(State::SPECULATED))?;
        Some(self.detail_of(hash, held.state))
    }

    /// Puts a block back as a snapshot has it; links follow in [`Self::restore_links`].
    pub(crate) fn restore_block(&mut self, hash: BlockHash, held: Held, detail: Detail) {
        let mut state = held.state;
        for tier in Tier::ALL {
            self.digest.add_copies(hash, tier, detail.copies[tier.index()]);
            if detail.copies[tier.index()] > 0 {
                state = state.with_tiers(state.tiers() | tier.bit());
            }
        }
        if !detail.is_trivial() {
            state = state.with(State::DETAILED);
            self.details.insert(hash, detail);
        }
        self.held.insert(hash, Held { state, ..held }, 0);
    }

    /// Counts every restored block under its parent.
    pub(crate) fn restore_links(&mut self) {
        let links: Vec<_> = self.held.iter().map(|(_, held)| held).collect();
        for held in links {
            if held.state.has(State::UNLINKED) {
                self.unlinked += 1;
                self.holes.touch();
            } else if let Some(parent) = held.parent {
                if self.held.add_child(parent).is_none() {
                    self.holes.open(parent, held.position.and_then(|p| p.checked_sub(1)), 1);
                }
            }
        }
    }

    /// Enters a block, over the children that came before it if there are any.
    fn fill(&mut self, hash: BlockHash, held: Held) -> Follow {
        let children = if self.holes.is_empty() { 0 } else { self.holes.fill(hash) };
        self.held.insert(hash, held, children);
        if children > 0 { Follow::Perhaps } else { Follow::Nothing }
    }

    /// Counts a new block under its parent.
    #[inline]
    fn link(&mut self, parent: Parent) -> Held {
        let (parent, position, state) = match parent {
            Parent::Root => (None, Some(0), State::default()),
            Parent::Block(hash) => {
                let position = self.held.add_child(hash).unwrap_or_else(|| self.holes.add_child(hash));
                (Some(hash), position.map(|p| p.saturating_add(1)), State::default())
            }
            Parent::Unknown => {
                self.unlinked += 1;
                self.holes.touch();
                (None, None, State::UNLINKED)
            }
        };
        Held { parent, position, state }
    }

    /// Counts a block that leaves out from under its parent.
    fn unlink(&mut self, held: Held) {
        if let Some(parent) = held.parent {
            if !self.held.drop_child(parent) {
                self.holes.drop_child(parent);
            }
        } else if held.state.has(State::UNLINKED) {
            self.unlinked_left += 1;
        }
    }

    /// A held block was stored again: learns a parent that was unknown. Where the store contradicts an
    /// earlier one, the parent counts as unknown, so that the pod is scanned rather than trusted.
    #[inline]
    fn relink(&mut self, hash: BlockHash, parent: Parent) {
        let held = self.held.get(hash).expect("the block is held");
        let known = if held.state.has(State::UNLINKED) {
            Parent::Unknown
        } else {
            held.parent.map_or(Parent::Root, Parent::Block)
        };
        // A block that was contradicted may lie in a run behind its first parent: no other must ever stand for it there.
        if parent == known || parent == Parent::Unknown || held.state.has(State::CONTRADICTED) {
            return;
        }
        self.unlink(held);
        let learned = if known == Parent::Unknown {
            if let Parent::Block(parent) = parent {
                self.relinked.push(parent);
            }
            self.link(parent)
        } else {
            self.contradictions += 1;
            self.link(Parent::Unknown)
        };
        let contradicted = known != Parent::Unknown;
        let state = held.state.without(State::UNLINKED);
        let state = if contradicted { state.with(State::CONTRADICTED) } else { state };
        let state = if learned.state.has(State::UNLINKED) { state.with(State::UNLINKED) } else { state };
        let spot = self.held.find(hash).expect("the block is held");
        self.held.put(spot, Held { state, ..learned });
    }

    fn copies(&self, hash: BlockHash, state: State, tier: Tier) -> u32 {
        if state.has(State::DETAILED) {
            self.details.get(&hash).map_or(0, |detail| detail.copies[tier.index()])
        } else {
            u32::from(state.tiers() & tier.bit() != 0)
        }
    }

    fn set_copies(&mut self, hash: BlockHash, state: &mut State, tier: Tier, copies: u32) {
        if copies > 1 || state.has(State::DETAILED) {
            let detail = self.detail(hash, state);
            detail.copies[tier.index()] = copies;
            if copies == 0 {
                detail.relocate(tier, None);
            }
            if detail.is_trivial() {
                self.details.remove(&hash);
                *state = state.without(State::DETAILED);
            }
        }
        let tiers = if copies > 0 { state.tiers() | tier.bit() } else { state.tiers() & !tier.bit() };
        *state = state.with_tiers(tiers);
    }

    fn detail(&mut self, hash: BlockHash, state: &mut State) -> &mut Detail {
        let plain = Detail::plain(*state);
        *state = state.with(State::DETAILED);
        self.details.entry(hash).or_insert(plain)
    }

    fn detail_of(&self, hash: BlockHash, state: State) -> Detail {
        let detailed = state.has(State::DETAILED).then(|| self.details.get(&hash).cloned()).flatten();
        detailed.unwrap_or_else(|| Detail::plain(state))
    }
}

/// A copy that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewCopy {
    pub(crate) tier: Tier,
    pub(crate) source: Source,
    pub(crate) location: Option<Location>,
}
