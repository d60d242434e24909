//! Path-compressed segments of the block tree: consecutive blocks of one chain, and which pods hold them.
//!
//! Every block lies in a segment: as its first block, its *head*, which [`Heads`] finds, or behind what it follows. So a search
//! looks up heads only: it reads a segment, sees how far the segment agrees with its chain, and looks up the next block as the head of
//! the next segment. Hashes being cumulative, a segment whose last hash is on the chain lies on it whole. Writers find a block by
//! the [`Directory`], which has every place of every segment.
//!
//! A block that nobody holds any more in the middle of a segment keeps its place there. A chain that leaves a segment in its middle goes
//! on in a segment of its own; where a segment goes on in one that the same pods hold, the two become one.
//!
//! The rules that must never break:
//! - **A pod holds a block in one place.**
//! - A block has one place, or several, of which one at most is a head. Their segments are *doubled* then, said before another
//!   place can be seen: a search that loses a pod in such a segment looks the block up. That happens where pods contradict each
//!   other about what a block follows; see [`placing`] and [`claims`].
//! - A pod that has a block behind one which it did not say to be before it is *loose*, said before it can be seen there.

mod chunks;
mod claims;
mod detached_spans;
mod entering;
mod holders;
mod leaving;
mod look;
mod merging;
mod placing;
mod segment;

pub(crate) use leaving::{Gone, Span};
pub(crate) use merging::WAITING;
pub(crate) use placing::{Anchor, Take, Taken};
pub(crate) use segment::View;

use crate::blocks::{BlockHash, Parent};
use crate::directory::Directory;
use crate::directory::heads::Heads;
use crate::directory::spread::Spread;
pub(crate) use crate::directory::{BlockPosition, SegmentId};
use crate::pods::{AtomicPodSet, PodId, PodSet};
use crate::reclamation::Pin;
use crate::segments::chunks::Chunks;
use crate::segments::segment::{Segment, Writing};
use crate::sync::{AtomicU64, Ordering};

/// Every segment.
#[derive(Debug)]
pub(crate) struct Segments<const W: usize> {
    pub(crate) heads: Heads,
    pub(crate) directory: Directory,
    store: Chunks<Segment<W>>,
    /// Stands for every segment that is gone: it has no blocks.
    nobody: Segment<W>,
    /// Segments that were ever made, so that one which is made anew under an id is told from the one before.
    births: AtomicU64,
    /// Pods that hold a block in the middle of a segment without having said that it follows what is before it there: searches look up
    /// where they stop.
    loose: AtomicPodSet<W>,
    /// How often a pod became one of these.
    loosened: AtomicU64,
    /// Stretches that a pod holds behind a block that it lacks, over all segments.
    detached: AtomicU64,
    /// Walks from segment to segment that are under way: nothing is merged meanwhile.
    walks: AtomicU64,
    /// Bytes of the segments' own arrays.
    array_bytes: AtomicU64,
}

/// Nothing is merged while there is one.
pub(crate) struct Still<'a>(&'a AtomicU64);

impl Drop for Still<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<const W: usize> Segments<W> {
    pub(crate) fn new(spread: Spread) -> Self {
        Self {
            heads: Heads::new(spread),
            directory: Directory::new(spread),
            store: Chunks::new(),
            nobody: Segment::new(0),
            births: AtomicU64::new(1),
            loose: AtomicPodSet::new(),
            loosened: AtomicU64::new(0),
            detached: AtomicU64::new(0),
            walks: AtomicU64::new(0),
            array_bytes: AtomicU64::new(0),
        }
    }

    /// Looks at a segment.
    #[inline]
    pub(crate) fn view<'p>(&'p self, segment: SegmentId, pin: &'p Pin) -> View<'p, W> {
        self.segment(segment, pin).view(pin)
    }

    /// Whether nothing was published in a segment since this version.
    #[inline]
    pub(crate) fn is_at(&self, segment: SegmentId, version: u64, pin: &Pin) -> bool {
        self.segment(segment, pin).is_at(version)
    }

    /// Asks for a segment's lines ahead of their use.
    #[inline]
    pub(crate) fn prefetch(&self, segment: SegmentId, pin: &Pin) {
        self.segment(segment, pin).prefetch();
    }

    /// Looks at all of a segment: asks for its lines before it reads the first.
    #[inline]
    pub(crate) fn view_whole<'p>(&'p self, segment: SegmentId, pin: &'p Pin) -> View<'p, W> {
        let segment = self.segment(segment, pin);
        segment.prefetch();
        segment.view(pin)
    }

    /// Pods whose places say less than they hold.
    #[inline]
    pub(crate) fn loose(&self) -> PodSet<W> {
        self.loose.get()
    }

    /// How often a pod became one of these: who finds the same count before it asks for them and later has missed none.
    #[inline]
    pub(crate) fn loosened(&self) -> u64 {
        // Acquire: whoever sees what made a pod loose has its bit; pairs with `set_loose`.
        self.loosened.load(Ordering::Acquire)
    }

    /// Said before the first block is seen to lie behind what the pod did not say that it follows.
    pub(crate) fn set_loose(&self, pod: PodId) {
        self.loose.insert(pod);
        // Release: publishes the bit; pairs with `loosened`.
        self.loosened.fetch_add(1, Ordering::Release);
    }

    /// A pod that is loose may be so in this segment.
    pub(crate) fn set_unsaid(&self, segment: SegmentId, pin: &Pin) {
        self.segment(segment, pin).set_unsaid();
    }

    /// The pod holds nothing any more.
    pub(crate) fn unset_loose(&self, pod: PodId) {
        self.loose.remove(pod);
    }

    /// Whether the block at a place is this one.
    #[inline]
    pub(crate) fn is_there(&self, at: BlockPosition, hash: BlockHash, pin: &Pin) -> bool {
        loop {
            let view = self.view(at.segment, pin);
            let there = view.is_at(at.offset, hash);
            if view.is_current() {
                return there;
            }
        }
    }

    /// Keeps every block in its segment until the guard is dropped, so that a walk from segment to segment meets each once.
    pub(crate) fn hold_still(&self) -> Still<'_> {
        // SeqCst, and before the first segment is locked: who merges that one later sees it.
        self.walks.fetch_add(1, Ordering::SeqCst);
        Still(&self.walks)
    }

    /// Hands out what a pod holds of a segment: where each stretch begins, what that follows, and its blocks.
    pub(crate) fn for_held(
        &self,
        pod: PodId,
        id: SegmentId,
        pin: &Pin,
        mut each: impl FnMut(BlockPosition, Parent, &[BlockHash]),
    ) {
        let segment = self.lock(id, pin);
        for (from, to) in segment.holders.held(pod, 0, segment.holders.len()) {
            let parent = match from {
                0 => segment.claim_of(pod),
                _ => Parent::Block(segment.hash(from as usize - 1)),
            };
            let blocks: Vec<BlockHash> = (from..to).map(|at| segment.hash(at as usize)).collect();
            each(BlockPosition { segment: id, offset: from }, parent, &blocks);
        }
    }

    /// Whether a pod has a part in a segment.
    pub(crate) fn has(&self, pod: PodId, segment: SegmentId, pin: &Pin) -> bool {
        loop {
            let view = self.view(segment, pin);
            let (begins, is_all) = (view.base().contains(pod), !view.has_detached());
            if view.is_current() && (begins || is_all) {
                return begins;
            }
            if !is_all {
                return self.lock(segment, pin).holders.has(pod);
            }
        }
    }

    fn count_detached(&self, before: usize, after: usize) {
        if before != after {
            // Relaxed: a count that publishes nothing. Wraps, both ways, to the right sum.
            self.detached.fetch_add((after as u64).wrapping_sub(before as u64), Ordering::Relaxed);
        }
    }

    /// Segments in use.
    pub(crate) fn len(&self) -> usize {
        self.store.len()
    }

    pub(crate) fn detached(&self) -> usize {
        self.detached.load(Ordering::Relaxed) as usize
    }

    /// Bytes of all segments, arrays of hashes and tables included.
    pub(crate) fn bytes(&self) -> usize {
        // Relaxed: a sum that publishes nothing.
        let arrays = self.array_bytes.load(Ordering::Relaxed) as usize;
        let tables = self.heads.bytes() + self.directory.bytes();
        arrays + tables + self.store.bytes()
    }

    /// Panics if the segments' arrays take other bytes than counted.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn audit_bytes(&self, pin: &Pin) {
        // Before the look at each, which lets go of counts that are past.
        let counted = self.array_bytes.load(Ordering::Relaxed);
        let bytes: usize = self
            .store
            .ids()
            .into_iter()
            .map(|id| self.lock(SegmentId::from_low_bits(id.into()), pin).own_bytes())
            .sum();
        assert_eq!(bytes as u64, counted, "bytes of arrays");
    }

    /// A segment's blocks, who holds which, and whether some may be elsewhere too: for audits.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn content(&self, segment: SegmentId, pin: &Pin) -> (Vec<BlockHash>, holders::Holders<W>, bool) {
        let writing = self.lock(segment, pin);
        let hashes = (0..writing.holders.len() as usize).map(|at| writing.hash(at)).collect();
        (hashes, writing.holders.clone(), writing.is_doubled())
    }

    /// Keeps other writers of a segment waiting until the guard is dropped.
    fn lock<'p>(&'p self, id: SegmentId, pin: &'p Pin) -> Writing<'p, W> {
        self.segment(id, pin).lock(&self.array_bytes, pin)
    }

    /// A segment, or one without blocks if that is gone.
    #[inline]
    fn segment<'p>(&'p self, id: SegmentId, pin: &'p Pin) -> &'p Segment<W> {
        self.store.get(id.raw(), pin).unwrap_or(&self.nobody)
    }

    fn claim(&self) -> SegmentId {
        // Relaxed: a number that no other has.
        SegmentId::from_low_bits(u64::from(
            self.store.claim(|| Segment::new(self.births.fetch_add(1, Ordering::Relaxed))),
        ))
    }

    fn give_back(&self, id: SegmentId, pin: &Pin) {
        let leave = |segment: &Segment<W>| {
            // Relaxed: a sum that publishes nothing.
            self.array_bytes.fetch_sub(segment.kept_bytes(), Ordering::Relaxed);
        };
        self.store.give_back(id.raw(), leave, pin);
    }
}

/// Most blocks of a segment: an offset takes sixteen bits.
pub(crate) const LONGEST: usize = if cfg!(routing_loom) { 3 } else { u16::MAX as usize };

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod tests;
