//! Per-pod cache state: which segments a pod has a part in, and what is not plain about its blocks.
//!
//! Pure bookkeeping behind the pod's lock. What a pod holds of a segment is said by the segment; a block that is neither speculated, nor
//! copied, nor located, nor in another tier than GPU memory leaves no trace here. A change happens here and among the segments.

mod buffers;
mod speculated;

pub(crate) use buffers::Buffers;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::blocks::{ApplyStats, BlockHash, EventSemantics, Location, Tier};
use crate::index::detail::Detail;
use crate::index::digest::Digest;
use crate::index::state::State;
use crate::index::streams::{Cursors, Feeds};
use crate::map::FixedMap;
use crate::segments::SegmentId;

/// Everything the index keeps about one pod.
///
/// In this order: what every event touches comes first, on as few cache lines as it takes.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct PodCache {
    /// Blocks that the pod holds.
    pub(crate) len: usize,
    /// Segments that the pod has a part in, and some that it had: see [`PodCache::joined`].
    segments: Vec<SegmentId>,
    /// How long `segments` may grow before it is gone through.
    most_segments: usize,
    /// What is not plain about blocks.
    marks: FixedMap<BlockHash, State>,
    /// Updates by one of many writers.
    pub(crate) among_many: u32,
    /// Everything that was ever applied.
    pub(crate) totals: ApplyStats,
    pub(crate) buffers: Buffers,
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

/// What becomes of one block of a `Removed`, if the pod holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Leaves,
    Kept,
    Missing,
}

impl PodCache {
    /// The pod came to have a part in a segment. `has` tells whether it still has one.
    pub(crate) fn joined(&mut self, segment: SegmentId, has: impl Fn(SegmentId) -> bool) {
        if self.segments.len() >= self.most_segments.max(FEW) {
            self.segments.sort_unstable();
            self.segments.dedup();
            self.segments.retain(|&segment| has(segment));
            self.segments.shrink_to(2 * self.segments.len());
            self.most_segments = 4 * self.segments.len();
        }
        self.segments.push(segment);
    }

    /// Segments that the pod may have a part in, each once.
    pub(crate) fn segments(&self) -> Vec<SegmentId> {
        let mut segments = self.segments.clone();
        segments.sort_unstable();
        segments.dedup();
        segments
    }

    /// The segments that the pod may have a part in, to be taken out one by one; some may be there twice.
    pub(crate) fn segments_left(&mut self) -> &mut Vec<SegmentId> {
        &mut self.segments
    }

    /// Whether blocks that the pod holds and nothing is known of are all there are.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.marks.is_empty()
    }

    fn state(&self, hash: BlockHash) -> State {
        self.marks.get(&hash).copied().unwrap_or(State::PLAIN)
    }

    fn set_state(&mut self, hash: BlockHash, state: State) {
        if state == State::PLAIN {
            self.marks.remove(&hash);
            self.free_marks();
        } else {
            self.marks.insert(hash, state);
        }
    }

    /// A block came that the pod did not hold.
    pub(crate) fn came(&mut self, hash: BlockHash, tier: Tier, location: Option<Location>) {
        let mut state = State::default().with_tiers(tier.bit());
        if location.is_some() {
            self.detail(hash, &mut state).relocate(tier, location);
        }
        self.set_state(hash, state);
    }

    /// Counts a copy of a block the pod holds already, or makes a speculated one real.
    pub(crate) fn add_copy(&mut self, hash: BlockHash, copy: NewCopy) {
        let mut state = self.unspeculated(hash);
        let count = self.copies(hash, state, copy.tier);
        // Copies beyond all counting are not counted, by the digest neither.
        if count == 0 || copy.source == EventSemantics::Copies && count < u32::MAX {
            self.set_copies(hash, &mut state, copy.tier, count.saturating_add(1));
        }
        if copy.location.is_some() {
            self.detail(hash, &mut state).relocate(copy.tier, copy.location);
        }
        self.set_state(hash, state);
    }

    /// Makes a held block real with exactly these copies, whatever it had.
    pub(crate) fn replace(&mut self, hash: BlockHash, detail: &Detail) {
        let state = self.unspeculated(hash);
        let tiers = (0..4).filter(|&tier| detail.copies[tier] > 0).fold(0, |tiers, tier| tiers | 1 << tier);
        let mut state = state.with_tiers(tiers).without(State::DETAILED);
        if detail.is_trivial() {
            self.details.remove(&hash);
        } else {
            state = state.with(State::DETAILED);
            self.details.insert(hash, detail.clone());
        }
        self.set_state(hash, state);
    }

    /// A block's state, which is real from now on.
    fn unspeculated(&mut self, hash: BlockHash) -> State {
        let state = self.state(hash);
        if state.has(State::SPECULATED) {
            self.no_longer_speculated(hash);
        }
        state.without(State::SPECULATED)
    }

    /// Counts a copy out; a membership source takes all copies of the tier.
    pub(crate) fn remove_copy(&mut self, hash: BlockHash, tier: Tier, source: EventSemantics) -> Outcome {
        let mut state = self.state(hash);
        let count = self.copies(hash, state, tier);
        if count == 0 {
            return Outcome::Missing;
        }
        let left = if source == EventSemantics::Copies { count - 1 } else { 0 };
        if left == 0 && state.tiers() == tier.bit() {
            self.forget(hash);
            return Outcome::Leaves;
        }
        self.set_copies(hash, &mut state, tier, left);
        self.set_state(hash, state);
        Outcome::Kept
    }

    /// Forgets what is not plain about a block.
    pub(crate) fn forget(&mut self, hash: BlockHash) {
        let Some(state) = self.marks.remove(&hash) else { return };
        if state.has(State::DETAILED) {
            self.details.remove(&hash);
        }
        if state.has(State::SPECULATED) {
            self.no_longer_speculated(hash);
        }
        self.free_marks();
    }

    /// Gives the room for marks back when there are none left.
    fn free_marks(&mut self) {
        if self.marks.is_empty() && self.marks.capacity() > MANY {
            (self.marks, self.details) = Default::default();
        }
    }

    /// Forgets everything; the segments that the pod had a part in are for the caller to tell.
    pub(crate) fn clear(&mut self) {
        (self.len, self.segments, self.most_segments) = Default::default();
        (self.marks, self.details, self.deadlines) = Default::default();
        self.expiries = BinaryHeap::new();
        // What a snapshot had is past.
        self.feeds.saved.clear();
        self.clears += 1;
    }

    pub(crate) fn speculated(&self) -> usize {
        self.deadlines.len()
    }

    pub(crate) fn is_speculated(&self, hash: BlockHash) -> bool {
        self.deadlines.contains_key(&hash)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.segments.capacity() * size_of::<SegmentId>()
            + self.marks.capacity() * (size_of::<(BlockHash, State)>() + 1)
            + self.details.capacity() * (size_of::<(BlockHash, Detail)>() + 1)
            + self.deadlines.capacity() * (size_of::<(BlockHash, Instant)>() + 1)
            + self.expiries.capacity() * size_of::<(Instant, u64, BlockHash)>()
    }

    /// Counts copies of blocks that the pod holds into a digest.
    pub(crate) fn digest(&self, blocks: &[BlockHash], digest: &mut Digest) {
        for &hash in blocks {
            match self.marks.get(&hash) {
                None => digest.add(hash, Tier::Gpu),
                Some(&state) => {
                    Tier::ALL.into_iter().for_each(|tier| digest.add_copies(hash, tier, self.copies(hash, state, tier)))
                }
            }
        }
    }

    /// Tiers and copies of a block that the pod holds; none if it is speculated.
    pub(crate) fn real(&self, hash: BlockHash) -> Option<Detail> {
        let state = self.state(hash);
        (!state.has(State::SPECULATED)).then(|| self.detail_of(hash, state))
    }

    /// Copies of a block in a tier, as they were counted; of a block that the pod may not hold one at most.
    #[cfg(feature = "engine")]
    pub(crate) fn copies_of(&self, hash: BlockHash, tier: Tier) -> u32 {
        self.copies(hash, self.state(hash), tier)
    }

    /// Blocks of which something is known here: for audits.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn marked(&self) -> impl Iterator<Item = BlockHash> + '_ {
        self.marks.keys().chain(self.details.keys()).chain(self.deadlines.keys()).copied()
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

/// Room in a map that is given back when the map is empty.
const MANY: usize = 1024;

/// Segments that are not worth going through.
const FEW: usize = 64;

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn id(n: u32) -> SegmentId {
        SegmentId::from_raw(n).expect("not zero")
    }

    /// Going through it looks at every segment: while nothing leaves, each is looked at less than once on average.
    #[test]
    fn the_list_of_segments_is_gone_through_seldom_and_stays_short() {
        let (mut cache, looks) = (PodCache::default(), Cell::new(0));
        let count = |has: bool| {
            looks.set(looks.get() + 1);
            has
        };
        (1..=10_000).for_each(|n| cache.joined(id(n), |_| count(true)));
        assert!(looks.get() < 7_500, "{} looks", looks.get());
        // From here on the pod has a hundred at a time.
        for n in 10_001..=200_000u32 {
            cache.joined(id(n), |segment| segment.raw() + 100 > n);
        }
        assert!(cache.segments.len() <= 400, "{} segments", cache.segments.len());
    }
}
