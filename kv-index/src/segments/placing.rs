//! Placement of blocks: behind what they follow, into the segment that begins with them, or into a new one.
//!
//! Whoever makes a place for a block that follows a known one holds that one's segment locked meanwhile, so that pods that agree
//! make one place. Pods that do not agree, and a pod that does not say what a block follows, may make a second one: the directory
//! tells, and both segments are doubled. Two segments are locked at once only where the second is not yet known to anybody.

use crate::blocks::{BlockHash, Parent};
use crate::pods::PodId;
use crate::segments::holders::{Holders, INLINE, Ranges};
use crate::segments::segment::Writing;
use crate::segments::{BlockPosition, LONGEST, Segments};
use crate::writers::WritePin;

/// What blocks are to be placed behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// This block, which is here.
    Behind(BlockHash, BlockPosition),
    /// What they follow is nowhere, nothing, or nobody said.
    Nowhere(Parent),
}

impl Anchor {
    pub(super) fn parent(self) -> Parent {
        match self {
            Self::Behind(parent, _) => Parent::Block(parent),
            Self::Nowhere(parent) => parent,
        }
    }
}

/// Blocks that a pod is to hold, and where.
#[derive(Clone, Copy)]
struct Store<'b> {
    pod: PodId,
    anchor: Anchor,
    blocks: &'b [BlockHash],
    /// Whether they may be ones that nobody holds.
    room: bool,
}

/// What became of an attempt to place blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    Taken(Taken),
    /// The pod holds the first block here, behind something else than it says now.
    Held(BlockPosition),
    /// What the blocks follow is there no more.
    Moved,
    /// The first block needs room, and there is none.
    Full,
}

/// Blocks that were placed: the first `count`, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) first: BlockPosition,
    pub(crate) count: usize,
    /// Of these, how many nobody held before.
    pub(crate) entered: usize,
    /// Those that the pod held before, by their offsets in the segment.
    pub(crate) repeats: Ranges,
    /// Whether the pod had no part in the segment before.
    pub(crate) joined: bool,
    /// Whether somebody said that the first one follows something else.
    pub(crate) contradicted: bool,
    /// Whether they went to a segment that begins with them, and so what they follow may go on in that.
    pub(crate) by_head: bool,
    /// Whether a segment waits for the last one.
    pub(crate) awaited: bool,
}

impl<const W: usize> Segments<W> {
    /// Lets `pod` hold the first of `blocks`, and as many more as go to the same segment.
    ///
    /// There is room for all of them, or there is one block and `room` says whether it may be one that nobody holds.
    pub(crate) fn take(
        &self,
        pod: PodId,
        anchor: Anchor,
        blocks: &[BlockHash],
        room: bool,
        pin: &WritePin<'_>,
    ) -> Take {
        let store = Store { pod, anchor, blocks, room };
        loop {
            let mut parent_segment = None;
            if let Anchor::Behind(last, at) = anchor {
                let next = at.offset + 1;
                let first = BlockPosition { segment: at.segment, offset: next };
                let parent = self.segment(at.segment, pin);
                if room && parent.is_own(pod, next) {
                    let mut awaited = false;
                    let count = |blocks: &[BlockHash]| self.enter(first, blocks, &|_| None, &mut awaited, pin);
                    if let Some(count) = parent.extend_own(pod, last, next, blocks, count) {
                        return Take::Taken(Taken { awaited, ..Taken::new(first, count) });
                    }
                }
                let mut segment = self.lock(at.segment, pin);
                if !segment.is_at(at.offset, last) {
                    return Take::Moved;
                }
                if segment.is_at(next, blocks[0]) {
                    match self.join(store, segment, first, pin) {
                        Some(take) => return take,
                        None => continue,
                    }
                }
                if next == segment.holders.len() && room && segment.holders.holds(pod, at.offset) {
                    let mut taken = Taken::new(first, 0);
                    self.grow(pod, &mut segment, &mut taken, blocks, pin);
                    if taken.count > 0 {
                        segment.publish();
                        return Take::Taken(taken);
                    }
                }
                parent_segment = Some(segment);
            }
            if let Some(id) = self.heads.probe(blocks[0], pin) {
                drop(parent_segment);
                let first = BlockPosition { segment: id, offset: 0 };
                if self.segment(id, pin).is_known(pod, anchor.parent(), blocks, pin) {
                    let repeats = Ranges::from_elem((0, blocks.len() as u32), 1);
                    return Take::Taken(Taken {
                        entered: 0,
                        repeats,
                        by_head: true,
                        ..Taken::new(first, blocks.len())
                    });
                }
                let segment = self.lock(id, pin);
                if !segment.begins_with(blocks[0]) {
                    // It was given up between our finding and locking it.
                    continue;
                }
                match self.join(store, segment, first, pin) {
                    Some(Take::Taken(taken)) => return Take::Taken(Taken { by_head: true, ..taken }),
                    Some(take) => return take,
                    None => continue,
                }
            }
            if let Some(&at) = self.places(blocks[0], pin).first() {
                // In the middle of a segment, unless somebody was quicker than we.
                drop(parent_segment.take());
                let segment = self.lock(at.segment, pin);
                if at.offset == 0 || !segment.is_at(at.offset, blocks[0]) {
                    continue;
                }
                let follows = anchor.parent() == Parent::Block(segment.hash(at.offset as usize - 1));
                let contradicted = !follows && anchor.parent() != Parent::Unknown;
                if !contradicted || self.is_vouched_for(&segment, at.offset) {
                    if !follows && !segment.holders.holds(pod, at.offset) {
                        segment.set_unsaid();
                        self.set_loose(pod);
                    }
                    match self.join(store, segment, at, pin) {
                        Some(Take::Taken(taken)) => return Take::Taken(Taken { contradicted, ..taken }),
                        Some(take) => return take,
                        None => continue,
                    }
                }
                drop(segment);
                if let Some(at) = self.find(pod, blocks[0], pin) {
                    self.set_loose(pod);
                    return Take::Held(at);
                }
            }
            if !room {
                return Take::Full;
            }
            if let Some(taken) = self.create(pod, anchor, parent_segment, blocks, pin) {
                return Take::Taken(taken);
            }
        }
    }

    /// Lets the pod hold what the segment has of `blocks` from `first` on, which is there, and makes the segment longer by what may
    /// follow; none if the segment changed while it was not locked for that.
    fn join<'p>(
        &'p self,
        store: Store<'_>,
        mut segment: Writing<'p, W>,
        first: BlockPosition,
        pin: &'p WritePin<'_>,
    ) -> Option<Take> {
        let Store { pod, anchor, mut blocks, room } = store;
        let from = first.offset;
        if segment.is_doubled() {
            // Block by block: the pod may hold it elsewhere. What it holds where stays so, since we are who changes it.
            blocks = &blocks[..1];
            if !segment.holders.holds(pod, from) {
                let life = segment.life();
                drop(segment);
                if let Some(at) = self.find(pod, blocks[0], pin) {
                    self.set_loose(pod);
                    return Some(Take::Held(at));
                }
                segment = self.lock(first.segment, pin);
                if segment.life() != life || !segment.is_at(from, blocks[0]) {
                    return None;
                }
            }
        }
        let common = segment.common(from as usize, blocks);
        if !room && !segment.holders.is_live(from) {
            return Some(Take::Full);
        }
        let detached = segment.holders.detached();
        let to = from + common as u32;
        let (repeats, joined) = (segment.holders.held(pod, from, to), !segment.holders.has(pod));
        let mut taken = Taken { repeats, joined, count: common, ..Taken::new(first, 0) };
        if from == 0 {
            taken.contradicted = self.hear(pod, anchor, &mut segment, first.segment, pin);
        }
        taken.entered = segment.holders.add(pod, from, to) as usize;
        if to == segment.holders.len() && room {
            self.grow(pod, &mut segment, &mut taken, &blocks[common..], pin);
        }
        let detached_now = segment.holders.detached();
        self.count_detached(detached, detached_now);
        segment.publish();
        if detached > detached_now {
            // A hole has healed, which may have kept what goes on from here apart.
            drop(segment);
            if let Some(next) = self.segment(first.segment, pin).next() {
                self.merge(first.segment, next, pin);
            }
        }
        Some(Take::Taken(taken))
    }

    /// Whether several pods said that a block follows what is before it there: who says otherwise is loose there, and gets no place of its own, along
    /// which a search would have to follow it.
    fn is_vouched_for(&self, segment: &Writing<'_, W>, offset: u32) -> bool {
        (segment.holders.pods_at(offset) - self.loose()).len() >= ENOUGH
    }

    /// Makes a segment longer by what may follow its last block, which the pod holds. It is yet to be published.
    fn grow(
        &self,
        pod: PodId,
        segment: &mut Writing<'_, W>,
        taken: &mut Taken,
        blocks: &[BlockHash],
        pin: &WritePin<'_>,
    ) {
        if blocks.is_empty() || !may_grow(segment, pod) {
            return;
        }
        let first = taken.first.plus(taken.count);
        let own = |at: u32| (at < first.offset).then(|| segment.hash(at as usize));
        let count = self.enter(first, blocks, &own, &mut taken.awaited, pin);
        if count > 0 {
            segment.write_behind(&blocks[..count]);
            segment.holders.append(pod, count as u32);
            (taken.count, taken.entered) = (taken.count + count, taken.entered + count);
        }
    }

    /// Makes a segment that begins with the first of `blocks`; none if somebody else did meanwhile. The segment that they follow is locked.
    fn create(
        &self,
        pod: PodId,
        anchor: Anchor,
        parent_segment: Option<Writing<'_, W>>,
        blocks: &[BlockHash],
        pin: &WritePin<'_>,
    ) -> Option<Taken> {
        let parent = anchor.parent();
        let id = self.claim();
        let first = BlockPosition { segment: id, offset: 0 };
        let mut segment = self.lock(id, pin);
        segment.clear_flags();
        let mut awaited = false;
        let contradicted = match self.enter_head(&segment, first, blocks[0], &mut awaited, pin) {
            Ok(contradicted) => contradicted,
            Err(other) => {
                drop(segment);
                self.give_back(id, pin);
                // Until it can be found.
                drop(self.lock(other, pin));
                return None;
            }
        };
        // Searches see nobody hold it until all of it is there.
        segment.begin(parent, blocks, Holders::of_nobody(1));
        segment.publish();
        // Still locked: a writer that knows the id from a former life of the segment must not join before it can be found.
        if self.heads.insert(blocks[0], id, pin).is_some() {
            self.directory.remove(blocks[0], first, pin);
            segment.holders = Holders::default();
            segment.publish();
            drop(segment);
            self.give_back(id, pin);
            return None;
        }
        // From here on others that come to the first block find it: a prompt that many follow is not held up by the rest.
        drop(parent_segment);
        if let Anchor::Nowhere(Parent::Block(parent)) = anchor {
            self.wait(&mut segment, id, parent, pin);
        }
        let mut taken = Taken { contradicted, awaited, joined: true, ..Taken::new(first, 1) };
        segment.holders = Holders::of_one(pod, 1);
        self.grow(pod, &mut segment, &mut taken, &blocks[1..], pin);
        segment.publish();
        Some(taken)
    }
}

impl Taken {
    /// Blocks that nobody held, behind one that the pod holds in the same segment.
    fn new(first: BlockPosition, count: usize) -> Self {
        Self {
            first,
            count,
            entered: count,
            repeats: Ranges::new(),
            joined: false,
            contradicted: false,
            by_head: false,
            awaited: false,
        }
    }
}

/// Whether a pod may make a segment longer. Where several pods hold all of it, it is likely a prompt that they share,
/// and what each has behind it is its own.
fn may_grow<const W: usize>(segment: &Writing<'_, W>, pod: PodId) -> bool {
    let holders = &segment.holders;
    (holders.len() as usize) < LONGEST
        && holders.whole_besides(pod) <= OTHERS
        && holders.drop_offs_if_extended(pod) <= INLINE
}

/// Pods that may hold all of a segment which another makes longer.
const OTHERS: usize = 1;

/// Pods that are believed against one.
const ENOUGH: usize = 2;
