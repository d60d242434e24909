//! Blocks that leave a segment: its end goes with its last holder, the directory's entries with it, and in the end the segment.

use crate::blocks::BlockHash;
use crate::directory::HomesAhead;
use crate::pods::PodId;
use crate::segments::segment::Writing;
use crate::segments::{BlockPosition, SegmentId, Segments};
use crate::sync::{AtomicU64, Ordering};
use crate::writers::WritePin;

/// Consecutive blocks of a segment in one of its lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) segment: SegmentId,
    pub(crate) life: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// What left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gone {
    /// Blocks that the pod held.
    pub(crate) held: usize,
    /// Of these, blocks that nobody holds any more.
    pub(crate) dead: usize,
}

impl<const W: usize> Segments<W> {
    /// A pod loses what it holds of spans of one segment, in order and apart from each other; and whether the segment was in the life of the spans
    /// to the end: if not, some blocks may be elsewhere.
    pub(crate) fn remove(&self, pod: PodId, spans: &[Span], pin: &WritePin<'_>) -> (Gone, bool) {
        let (mut rest, mut gone) = (spans, Gone::default());
        while let Some((&Span { segment, life, from, to }, before)) = rest.split_last() {
            let forget = |hashes: &[AtomicU64]| self.forget(BlockPosition { segment, offset: from }, hashes, pin);
            let shared = self.segment(segment, pin);
            if !shared.is_own(pod, to) || !shared.shorten_own(pod, life, from, to, forget) {
                let mut writing = self.lock(segment, pin);
                if writing.life() != life {
                    return (gone, false);
                }
                let (detached, before) = (writing.holders.detached(), gone.held);
                for span in rest {
                    // The segment may have become shorter since.
                    let to = span.to.min(writing.holders.len()).max(span.from);
                    for (from, to) in writing.holders.held(pod, span.from, to) {
                        gone.held += (to - from) as usize;
                        gone.dead += writing.holders.remove(pod, from, to) as usize;
                    }
                }
                // Nobody frees a segment twice: who finds nothing of its own in it leaves it alone.
                if gone.held > before {
                    self.finish(segment, writing, detached, pin);
                }
                break;
            }
            let count = (to - from) as usize;
            (rest, gone) = (before, Gone { held: gone.held + count, dead: gone.dead + count });
        }
        (gone, true)
    }

    /// A pod loses its last blocks of a segment, `most` at most; and whether it has none there any more.
    pub(crate) fn take_off(&self, pod: PodId, segment: SegmentId, most: usize, pin: &WritePin<'_>) -> (Gone, bool) {
        let mut writing = self.lock(segment, pin);
        let detached = writing.holders.detached();
        let mut gone = Gone::default();
        while let Some((from, to)) = writing.holders.last_held(pod).filter(|_| gone.held < most) {
            let from = from.max(to.saturating_sub((most - gone.held).min(u32::MAX as usize) as u32));
            gone.held += (to - from) as usize;
            gone.dead += writing.holders.remove(pod, from, to) as usize;
        }
        if gone.held == 0 {
            return (gone, true);
        }
        let done = !writing.holders.has(pod);
        self.finish(segment, writing, detached, pin);
        (gone, done)
    }

    /// A pod loses all it has in a segment.
    pub(crate) fn drop_pod(&self, pod: PodId, segment: SegmentId, pin: &WritePin<'_>) -> Gone {
        self.take_off(pod, segment, usize::MAX, pin).0
    }

    /// Takes blocks that lie there one behind the other out of the directory.
    fn forget(&self, first: BlockPosition, hashes: &[AtomicU64], pin: &WritePin<'_>) {
        // Relaxed: only who has locked the segment, as we have, writes them.
        let hash = |at: &AtomicU64| BlockHash::new(at.load(Ordering::Relaxed));
        if let [at] = hashes {
            return self.directory.remove(hash(at), first, pin);
        }
        let hashes = hashes.iter().map(hash);
        for (count, home) in HomesAhead::new(&self.directory, hashes, pin).enumerate() {
            self.directory.remove_at(home, first.plus(count), pin);
        }
    }

    /// Publishes a segment that pods left, or frees it if nobody holds any of it; it had so many `detached` spans.
    pub(super) fn finish(&self, id: SegmentId, mut writing: Writing<'_, W>, detached: usize, pin: &WritePin<'_>) {
        self.count_detached(detached, writing.holders.detached());
        self.forget(BlockPosition { segment: id, offset: writing.holders.len() }, writing.trimmed(), pin);
        if writing.holders.len() > 0 {
            let is_another = self.recount(&mut writing, id, pin);
            let parent = writing.parent();
            writing.publish();
            drop(writing);
            return self.merge_again(id, parent, is_another, pin);
        }
        if let Some(head) = writing.head() {
            self.heads.remove(head, pin);
        }
        let parent = writing.parent();
        self.wait_no_more(&mut writing, parent, id, pin);
        writing.publish();
        drop(writing);
        self.give_back(id, pin);
    }
}
