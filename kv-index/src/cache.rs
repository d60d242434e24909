//! Per-pod cache state: which blocks a pod holds, in which tiers, how many copies, under which parent.
//!
//! Pure bookkeeping behind the pod's lock. A change happens here and among the runs ([`crate::change`]).

mod speculated;
mod strays;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::block::BlockHash;
use crate::cache::strays::Strays;
use crate::change::Buffers;
use crate::detail::Detail;
use crate::digest::Digest;
use crate::event::{ApplyStats, EventSemantics};
use crate::feed::{Cursors, Feeds};
use crate::held::{Held, HeldMap, Spot, State};
use crate::map::FixedMap;
use crate::runs::Place;
use crate::spread::Spread;
use crate::tier::{Location, Tier};

/// Everything the index keeps about one pod.
///
/// In this order: what every event touches comes first, on as few cache lines as it takes.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct PodCache {
    held: HeldMap,
    digest: Digest,
    /// Blocks that several parents were named for.
    contradicted: usize,
    /// Whether searches were told to ask the pod itself.
    pub(crate) known_unlinked: bool,
    /// Everything that was ever applied.
    pub(crate) totals: ApplyStats,
    pub(crate) buffers: Buffers,
    /// Blocks that the pod holds apart from what they follow.
    pub(crate) strays: Strays,
    pub(crate) cursors: Cursors,
    pub(crate) feeds: Feeds,
    details: FixedMap<BlockHash, Detail>,
    deadlines: FixedMap<BlockHash, Instant>,
    /// Latest first among equal deadlines, so that a speculated tail never outlives its start.
    expiries: BinaryHeap<Reverse<(Instant, Reverse<u64>, BlockHash)>>,
    /// Speculations so far.
    speculations: u64,
    /// Stores that named another parent than an earlier one did.
    pub(crate) contradictions: u64,
    /// How often everything was forgotten, so that whoever keeps state beside the pod's notices.
    pub(crate) clears: u64,
}

/// A block that left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// From its place.
    Place(Place),
    /// From among the strays.
    Stray,
}

/// What became of one block of a `Removed`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    PodRetired(Left),
    Kept,
    Missing,
}

impl PodCache {
    /// Of a pod that holds nothing.
    pub(crate) fn new(spread: Spread) -> Self {
        Self { held: HeldMap::new(spread), ..Self::default() }
    }

    /// Makes room for so many more blocks, where that is not too much at once.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.held.reserve(more);
    }

    /// Finds a block, or adds it as one that is yet to be placed: where it is, and whether it was there.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, hash: BlockHash, tier: Tier) -> (Spot, bool) {
        let state = State::default().with_tiers(tier.bit());
        let (spot, found) = self.held.find_or_insert(hash, Held { place: None, state });
        if !found {
            self.digest.add(hash, tier);
        }
        (spot, found)
    }

    /// Adds blocks as ones that are yet to be placed, up to the first that is there or takes a second look; how many.
    pub(crate) fn insert_plain(&mut self, blocks: &[BlockHash], tier: Tier, spots: &mut Vec<Spot>) -> usize {
        let count = self.held.insert_plain(blocks, State::default().with_tiers(tier.bit()), spots);
        let mut digest = self.digest;
        blocks[..count].iter().for_each(|&hash| digest.add(hash, tier));
        self.digest = digest;
        count
    }

    /// Notes where in its tier a held block lies.
    pub(crate) fn locate(&mut self, spot: Spot, hash: BlockHash, tier: Tier, location: Location) {
        let mut held = self.held.at(spot);
        self.detail(hash, &mut held.state).relocate(tier, Some(location));
        self.held.put(spot, held);
    }

    /// Counts a copy of a block the pod holds already, or makes a speculated one real.
    pub(crate) fn add_copy(&mut self, spot: Spot, hash: BlockHash, copy: NewCopy) {
        let mut held = self.held.at(spot);
        if held.state.has(State::SPECULATED) {
            held.state = held.state.without(State::SPECULATED);
            self.deadlines.remove(&hash);
        }
        let count = self.copies(hash, held.state, copy.tier);
        // Copies beyond all counting are not counted, by the digest neither.
        if count == 0 || copy.source == EventSemantics::Copies && count < u32::MAX {
            self.digest.add(hash, copy.tier);
            self.set_copies(hash, &mut held.state, copy.tier, count.saturating_add(1));
        }
        if copy.location.is_some() {
            self.detail(hash, &mut held.state).relocate(copy.tier, copy.location);
        }
        self.held.put(spot, held);
    }

    /// Makes a held block real with exactly these copies, whatever it had.
    pub(crate) fn replace(&mut self, spot: Spot, hash: BlockHash, detail: &Detail) {
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
    }

    /// Counts a copy out; a membership source takes all copies of the tier.
    pub(crate) fn remove_copy(&mut self, hash: BlockHash, tier: Tier, source: EventSemantics) -> Outcome {
        let Some(spot) = self.held.find(hash) else { return Outcome::Missing };
        let mut held = self.held.at(spot);
        if let (Some(place), true) = (held.place, held.state == State::default().with_tiers(tier.bit())) {
            // One copy in one tier and nothing else to know: most blocks are like that.
            self.held.remove_at(hash, spot);
            self.digest.remove(hash, tier);
            return Outcome::PodRetired(Left::Place(place));
        }
        let count = self.copies(hash, held.state, tier);
        if count == 0 {
            return Outcome::Missing;
        }
        let left = if source == EventSemantics::Copies { count - 1 } else { 0 };
        if left == 0 && held.state.tiers() == tier.bit() {
            return self.drop_block(hash).map_or(Outcome::Missing, Outcome::PodRetired);
        }
        self.digest.remove_copies(hash, tier, count - left);
        self.set_copies(hash, &mut held.state, tier, left);
        self.held.put(spot, held);
        Outcome::Kept
    }

    /// Forgets a block altogether, whatever its copies.
    pub(crate) fn drop_block(&mut self, hash: BlockHash) -> Option<Left> {
        let Held { place, state } = self.held.remove(hash)?;
        if state == State::default().with_tiers(Tier::Gpu.bit()) {
            self.digest.remove(hash, Tier::Gpu);
            if let Some(place) = place {
                return Some(Left::Place(place));
            }
        } else if state.has(State::DETAILED) {
            let detail = self.details.remove(&hash).unwrap_or_default();
            for tier in Tier::ALL {
                self.digest.remove_copies(hash, tier, detail.copies[tier.index()]);
            }
        } else {
            for tier in Tier::ALL.into_iter().filter(|tier| state.tiers() & tier.bit() != 0) {
                self.digest.remove(hash, tier);
            }
        }
        if state.has(State::SPECULATED) {
            self.deadlines.remove(&hash);
        }
        self.contradicted -= usize::from(state.has(State::CONTRADICTED));
        Some(place.map_or_else(
            || {
                self.strays.remove(hash);
                Left::Stray
            },
            Left::Place,
        ))
    }

    /// Forgets everything; the runs that the pod had a part in are for the caller to tell.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.details = FixedMap::default();
        self.deadlines = FixedMap::default();
        self.expiries = BinaryHeap::new();
        self.digest = Digest::EMPTY;
        self.strays = Strays::default();
        self.contradicted = 0;
        // What a snapshot had is past.
        self.feeds.saved.clear();
        self.clears += 1;
    }

    /// Places of all blocks, as often as there are blocks, in no order; strays have none.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.held.iter().filter_map(|(_, held)| held.place)
    }

    /// Every block with its entry.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (BlockHash, Held)> + '_ {
        self.held.iter()
    }

    /// Takes blocks out of a retired pod's map, about `budget` at a time.
    pub(crate) fn drain_some(&mut self, budget: usize, out: &mut Vec<Held>) {
        self.held.drain_some(budget, out);
    }

    #[inline]
    pub(crate) fn find(&self, hash: BlockHash) -> Option<Spot> {
        self.held.find(hash)
    }

    #[inline]
    pub(crate) fn get(&self, hash: BlockHash) -> Option<Held> {
        self.held.get(hash)
    }

    #[inline]
    pub(crate) fn at(&self, spot: Spot) -> Held {
        self.held.at(spot)
    }

    /// Changes when spots found before are void.
    #[inline]
    pub(crate) fn moves(&self) -> u64 {
        self.held.moves()
    }

    /// The blocks found at these spots have their places now, one behind the other.
    #[inline]
    pub(crate) fn set_places(&mut self, spots: &[Spot], first: Place) {
        self.held.set_places(spots, first);
    }

    /// A store named another parent for a block than an earlier one did. From now on it goes by its hash alone.
    pub(crate) fn contradict(&mut self, spot: Spot) {
        let held = self.held.at(spot);
        self.contradictions += 1;
        self.contradicted += 1;
        self.held.put(spot, Held { state: held.state.with(State::CONTRADICTED), ..held });
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: BlockHash) {
        self.held.prefetch(hash);
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether runs do not say all there is to say of this pod: nobody told what some block follows, or what was told
    /// does not fit together.
    pub(crate) fn is_unlinked(&self) -> bool {
        self.contradicted > 0 || self.strays.unknown() > 0
    }

    pub(crate) fn speculated(&self) -> usize {
        self.deadlines.len()
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn bytes(&self) -> usize {
        self.held.bytes()
            + self.strays.bytes()
            + self.details.capacity() * (size_of::<(BlockHash, Detail)>() + 1)
            + self.deadlines.capacity() * (size_of::<(BlockHash, Instant)>() + 1)
            + self.expiries.capacity() * size_of::<(Instant, u64, BlockHash)>()
    }

    /// Every block the engine really has, after a number that orders blocks by their places.
    pub(crate) fn real_places(&self) -> impl Iterator<Item = (u64, BlockHash)> + '_ {
        let real = self.held.iter().filter(|(_, held)| !held.state.has(State::SPECULATED));
        let order = |at: Place| u64::from(at.run.raw()) << 32 | u64::from(at.offset);
        real.map(move |(hash, held)| (held.place.map_or(0, order), hash))
    }

    /// Every block the engine really has, with its entry and copies.
    pub(crate) fn real_blocks(&self) -> impl Iterator<Item = (BlockHash, Held, Detail)> + '_ {
        let real = self.held.iter().filter(|(_, held)| !held.state.has(State::SPECULATED));
        real.map(|(hash, held)| (hash, held, self.detail_of(hash, held.state)))
    }

    /// Tiers and copies of a block the pod really holds.
    pub(crate) fn real(&self, hash: BlockHash) -> Option<Detail> {
        let held = self.held.get(hash).filter(|held| !held.state.has(State::SPECULATED))?;
        Some(self.detail_of(hash, held.state))
    }

    /// Copies of a block in a tier, as they were counted.
    #[cfg(feature = "engine")]
    pub(crate) fn copies_of(&self, hash: BlockHash, tier: Tier) -> u32 {
        self.held.get(hash).map_or(0, |held| self.copies(hash, held.state, tier))
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
    pub(crate) source: EventSemantics,
    pub(crate) location: Option<Location>,
}
