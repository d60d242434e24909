//! What is said of a segment at any time, its lock held or not. But for what follows it, it is never taken back before the segment begins anew.

use super::Segment;
use crate::segments::SegmentId;
use crate::sync::Ordering;

/// A block of the segment may be in another one too.
const DOUBLED: u32 = 1;
/// The segment goes on from one of which it could not become part.
const NEXT: u32 = 2;
/// A pod that holds blocks of the segment did not say that one of them follows what lies before it.
const UNSAID: u32 = 4;

impl<const W: usize> Segment<W> {
    /// Nothing is said: the segment is about to begin anew.
    pub(super) fn clear_flags(&self) {
        // Relaxed: as in `set_doubled`.
        self.flags.store(0, Ordering::Relaxed);
        self.set_next(None);
    }

    /// Whether a block of the segment may be in another one too.
    #[inline]
    pub(in crate::segments) fn is_doubled(&self) -> bool {
        // Relaxed: said before the other place is published; whoever sees that sees this.
        self.flags.load(Ordering::Relaxed) & DOUBLED != 0
    }

    /// From now on look-ups are made for who stops in the segment.
    pub(in crate::segments) fn set_doubled(&self) {
        self.flags.fetch_or(DOUBLED, Ordering::Relaxed);
    }

    /// Whether some pod did not say that a block follows what lies before it here.
    #[inline]
    pub(in crate::segments) fn is_unsaid(&self) -> bool {
        // Relaxed: said before the pod is seen to hold it; whoever sees that sees this.
        self.flags.load(Ordering::Relaxed) & UNSAID != 0
    }

    pub(in crate::segments) fn set_unsaid(&self) {
        self.flags.fetch_or(UNSAID, Ordering::Relaxed);
    }

    /// The segment that may become part of this one when pods leave. A hint: it may be another one by now.
    pub(in crate::segments) fn next(&self) -> Option<SegmentId> {
        // Relaxed, here and below: hints, which are looked at under the locks.
        SegmentId::from_raw(self.next.load(Ordering::Relaxed))
    }

    pub(in crate::segments) fn set_next(&self, next: Option<SegmentId>) {
        let next = next.map_or(0, SegmentId::raw);
        if self.next.load(Ordering::Relaxed) != next {
            self.next.store(next, Ordering::Relaxed);
        }
    }

    /// Whether this is another one's [`Self::next`].
    pub(in crate::segments) fn is_next(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & NEXT != 0
    }

    pub(in crate::segments) fn set_is_next(&self) {
        if !self.is_next() {
            self.flags.fetch_or(NEXT, Ordering::Relaxed);
        }
    }
}
