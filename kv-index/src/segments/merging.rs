//! Merging: where a segment goes on in one that the same pods hold, the two become one.
//!
//! Pods that prefill a prompt in step, chunk by chunk, would leave a segment for each chunk, and a pod that names a chain from its end
//! a segment for each block. The longer of two that are merged is not copied, or at most twice what stays: so a block is copied
//! a logarithm of times in its life, and segments that stay apart along a chain that the same pods hold double in length.
//!
//! Two that cannot become one, since too many pods stop between them or have holes there, are noted, and tried again when a pod leaves one of them.
//!
//! The first segment takes the second one's blocks over. Its new end is published first, then the directory's entries move one by one, then
//! the head of the second is taken out and the second given up: whoever looks a block up meanwhile finds it in one of the
//! two, and waits for its lock. A search that passed the first segment before and finds no second looks at the first again.

use smallvec::SmallVec;

use crate::blocks::{BlockHash, Parent};
use crate::pods::PodSet;
use crate::segments::claims::Sides;
use crate::segments::holders::{Holders, INLINE};
use crate::segments::segment::Writing;
use crate::segments::{BlockPosition, LONGEST, SegmentId, Segments};
use crate::sync::Ordering;
use crate::writers::WritePin;

impl<const W: usize> Segments<W> {
    /// Merges a segment with the one that goes on from it, if that is due, and the result with what waits for its last block.
    ///
    /// Whether the two became one.
    pub(crate) fn merge(&self, first: SegmentId, second: SegmentId, pin: &WritePin<'_>) -> bool {
        if first == second {
            // Where pods lie, it may have become one on the way.
            return false;
        }
        let merged = self.may_merge(first, second, pin) && self.merge_two(first, second, pin);
        if merged {
            self.merge_awaiting(first, pin);
            let next = || self.segment(first, pin).next().filter(|next| *next != first);
            while next().is_some_and(|next| self.may_merge(first, next, pin) && self.merge_two(first, next, pin)) {}
        } else {
            self.note_next(first, second, pin);
        }
        merged
    }

    /// Pods left a segment: what it could not become one with before it may now, and what its parent is in, if that is another one.
    pub(super) fn merge_again(&self, id: SegmentId, parent: Parent, is_another: bool, pin: &WritePin<'_>) {
        if let Some(next) = self.segment(id, pin).next().filter(|next| *next != id) {
            self.merge(id, next, pin);
        }
        if let (true, Parent::Block(parent)) = (is_another || self.segment(id, pin).is_next(), parent) {
            if let Some((at, _)) = self.place(parent, pin).filter(|(at, _)| at.segment != id) {
                self.merge(at.segment, id, pin);
            }
        }
    }

    /// Notes that two segments might become one later, unless most of those that hold the first one go elsewhere: along a chain that
    /// happens a logarithm of times.
    fn note_next(&self, first: SegmentId, second: SegmentId, pin: &WritePin<'_>) {
        let (a, b) = (self.view(first, pin), self.view(second, pin));
        if a.len() > 0 && b.len() > 0 && 2 * b.base().len() >= a.base().len() {
            self.segment(first, pin).set_next(Some(second));
            self.segment(second, pin).set_is_next();
        }
    }

    /// Merges a segment with the one that waits for its last block, as often as that is due.
    pub(crate) fn merge_awaiting(&self, first: SegmentId, pin: &WritePin<'_>) {
        loop {
            let view = self.view(first, pin);
            let Some(last) = view.last_block().filter(|_| view.is_current()) else { return };
            let child = self.awaiting(last, pin).filter(|child| *child != first);
            if !child.is_some_and(|child| self.may_merge(first, child, pin) && self.merge_two(first, child, pin)) {
                return;
            }
        }
    }

    /// The segment that waits for this block: its first one follows it, and was stored before it.
    pub(super) fn awaiting(&self, hash: BlockHash, pin: &WritePin<'_>) -> Option<SegmentId> {
        let waiting = self.directory.candidates(hash, pin).into_iter().filter(|at| at.offset == WAITING);
        waiting.map(|at| at.segment).find(|segment| {
            let segment = self.lock(*segment, pin);
            segment.waits() && segment.parent() == Parent::Block(hash)
        })
    }

    /// Lets a segment wait for the block that its first one follows, unless another does.
    pub(super) fn wait(&self, segment: &mut Writing<'_, W>, id: SegmentId, parent: BlockHash, pin: &WritePin<'_>) {
        let mut known = self.directory.candidates(parent, pin);
        if known.iter().any(|at| at.offset == WAITING) {
            return;
        }
        while let Err(found) =
            self.directory.insert(parent, BlockPosition { segment: id, offset: WAITING }, &known, pin)
        {
            known = found;
        }
        segment.set_waits(true);
    }

    /// A segment waits no more for the block that its first one was said to follow.
    pub(super) fn wait_no_more(&self, segment: &mut Writing<'_, W>, parent: Parent, id: SegmentId, pin: &WritePin<'_>) {
        if let (true, Parent::Block(parent)) = (segment.waits(), parent) {
            self.directory.remove(parent, BlockPosition { segment: id, offset: WAITING }, pin);
            segment.set_waits(false);
        }
    }

    /// Whether it is worth the locks.
    fn may_merge(&self, first: SegmentId, second: SegmentId, pin: &WritePin<'_>) -> bool {
        let (first, second) = (self.view(first, pin), self.view(second, pin));
        let alone = first.base() - second.base();
        first.len() > 0
            && second.len() > 0
            && second.len() <= 2 * first.len()
            && first.len() + second.len() <= LONGEST
            && second.base().is_subset(&first.base())
            && alone.len() <= first.drop_offs().count() + OTHERS
    }

    /// Merges two segments, unless somebody writes the second one now, or they are not as they seemed; whether it did.
    fn merge_two(&self, id: SegmentId, second: SegmentId, pin: &WritePin<'_>) -> bool {
        let mut first = self.lock(id, pin);
        // Not waited for: where pods lie, a segment may follow itself around a corner.
        let Some(mut rest) = self.segment(second, pin).try_lock(&self.array_bytes, pin) else { return false };
        // Both being locked: a walk that begins later finds the two as one, whichever it comes to first.
        if self.walks.load(Ordering::SeqCst) > 0 {
            return false;
        }
        let Some(merged) = merged(&first, &rest) else { return false };
        // Before the first of them lies behind what they did not say that it follows.
        let Sides { contradict, silent, .. } = rest.sides();
        let unsaid = contradict | silent;
        if rest.is_unsaid() | !unsaid.is_empty() {
            first.set_unsaid();
        }
        unsaid.iter().for_each(|pod| self.set_loose(pod));
        let (from, count) = (first.holders.len() as usize, rest.holders.len() as usize);
        let blocks: SmallVec<[BlockHash; 16]> = (0..count).map(|at| rest.hash(at)).collect();
        first.write_behind(&blocks);
        first.holders = merged;
        if rest.is_doubled() {
            // Before a search can see the blocks in it.
            first.set_doubled();
        }
        // Who noted a place behind the end, which went since, must not find it there again.
        first.end_life();
        first.publish();
        for (at, &hash) in blocks.iter().enumerate() {
            let (old, new) = (
                BlockPosition { segment: second, offset: at as u32 },
                BlockPosition { segment: id, offset: (from + at) as u32 },
            );
            self.directory.replace(hash, old, new, pin);
        }
        // Whoever entered a block's other place meanwhile, before its entry moved, said so of the second segment.
        if rest.is_doubled() {
            first.set_doubled();
        }
        self.segment(id, pin).set_next(self.segment(second, pin).next());
        let parent = rest.parent();
        self.wait_no_more(&mut rest, parent, second, pin);
        self.heads.remove(blocks[0], pin);
        rest.end_life();
        rest.holders = Holders::default();
        rest.publish();
        drop(rest);
        drop(first);
        self.give_back(second, pin);
        true
    }
}

/// Who holds what when the second segment's blocks are the first one's; none if they are to stay apart.
fn merged<const W: usize>(first: &Writing<'_, W>, second: &Writing<'_, W>) -> Option<Holders<W>> {
    let (a, b) = (&first.holders, &second.holders);
    if a.len() == 0 || b.len() == 0 || b.len() > 2 * a.len() || (a.len() + b.len()) as usize > LONGEST {
        return None;
    }
    let follows = second.parent() == Parent::Block(first.hash(a.len() as usize - 1));
    let Sides { agree, contradict, .. } = second.sides();
    if !follows || contradict.len() > agree.len() || a.detached() + b.detached() > 0 {
        return None;
    }
    let mut whole = a.base();
    for drop_off in a.drop_offs() {
        whole.remove(drop_off.pod());
    }
    let short: PodSet<W> = whole - b.base();
    if !b.base().is_subset(&whole)
        || short.len() > OTHERS
        || a.drop_offs().len() + short.len() + b.drop_offs().len() > INLINE
    {
        return None;
    }
    Some(a.followed_by(b, short))
}

/// An offset that no block has: the segment waits for the block under whose hash this is.
pub(crate) const WAITING: u32 = u16::MAX as u32;

/// Pods that may hold all of the first segment and none of the second.
const OTHERS: usize = 1;
