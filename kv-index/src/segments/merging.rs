//! Merging: where a segment goes on in one that the same pods hold, the two become one.
//!
//! Pods that prefill a prompt in step, chunk by chunk, would leave a segment for each chunk, and a pod that names a chain from its end
//! a segment for each block. The longer of two that are merged is not copied, or at most twice what stays: so a block is copied
//! a logarithm of times in its life, and segments that stay apart along a chain that the same pods hold double in length.
//!
//! The first segment takes the second one's blocks over. Its new end is published first, then the directory's entries move one by one, then
//! the head of the second is taken out and the second given up: whoever looks a block up meanwhile finds it in one of the
//! two, and waits for its lock. A search that passed the first segment before and finds no second looks at the first again.

use smallvec::SmallVec;

use crate::blocks::{BlockHash, Parent};
use crate::pods::PodSet;
use crate::reclamation::Pin;
use crate::segments::holders::{Holders, INLINE};
use crate::segments::segment::Writing;
use crate::segments::{BlockPosition, LONGEST, SegmentId, Segments};
use crate::sync::Ordering;

impl<const W: usize> Segments<W> {
    /// Merges a segment with the one that goes on from it, if that is due, and the result with what waits for its last block.
    pub(crate) fn merge(&self, first: SegmentId, second: SegmentId, pin: &Pin) {
        if self.may_merge(first, second, pin) && self.merge_two(first, second, pin) {
            self.merge_awaiting(first, pin);
        }
    }

    /// Merges a segment with the one that waits for its last block, as often as that is due.
    pub(crate) fn merge_awaiting(&self, first: SegmentId, pin: &Pin) {
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
    pub(super) fn awaiting(&self, hash: BlockHash, pin: &Pin) -> Option<SegmentId> {
        let waiting = self.directory.candidates(hash, pin).into_iter().filter(|at| at.offset == WAITING);
        waiting.map(|at| at.segment).find(|segment| {
            let segment = self.lock(*segment, pin);
            segment.waits() && segment.parent() == Parent::Block(hash)
        })
    }

    /// Lets a segment wait for the block that its first one follows, unless another does.
    pub(super) fn wait(&self, segment: &mut Writing<'_, W>, id: SegmentId, parent: BlockHash, pin: &Pin) {
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

    /// A segment waits no more.
    pub(super) fn wait_no_more(&self, segment: &mut Writing<'_, W>, id: SegmentId, pin: &Pin) {
        if let (true, Parent::Block(parent)) = (segment.waits(), segment.parent()) {
            self.directory.remove(parent, BlockPosition { segment: id, offset: WAITING }, pin);
            segment.set_waits(false);
        }
    }

    /// Whether it is worth the locks.
    fn may_merge(&self, first: SegmentId, second: SegmentId, pin: &Pin) -> bool {
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
    fn merge_two(&self, id: SegmentId, second: SegmentId, pin: &Pin) -> bool {
        let mut first = self.lock(id, pin);
        // Not waited for: where pods lie, a segment may follow itself around a corner.
        let Some(mut rest) = self.segment(second, pin).try_lock(&self.array_bytes, pin) else { return false };
        // Both being locked: a walk that begins later finds the two as one, whichever it comes to first.
        if self.walks.load(Ordering::SeqCst) > 0 {
            return false;
        }
        let Some(merged) = merged(&first, &rest) else { return false };
        let (from, count) = (first.holders.len() as usize, rest.holders.len() as usize);
        let blocks: SmallVec<[BlockHash; 16]> = (0..count).map(|at| rest.hash(at)).collect();
        first.write_behind(&blocks);
        first.holders = merged;
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
        // Whoever entered a block's other place before its entry moved said so of the second segment.
        if rest.is_doubled() {
            first.set_doubled();
        }
        self.wait_no_more(&mut rest, second, pin);
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
    if !follows || second.is_apart() || first.is_doubled() || a.detached() + b.detached() > 0 {
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
