//! A reader's view of a segment, valid while its version is current.

use super::{Record, Segment, Shape};
use crate::blocks::BlockHash;
use crate::pods::{PodId, PodSet};
use crate::reclamation::Pin;
use crate::segments::holders::{DropOff, INLINE};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// A segment as a reader sees it. What is read through it counts only if the view is current afterwards.
#[derive(Clone, Copy)]
pub(crate) struct View<'p, const W: usize> {
    pub(super) segment: &'p Segment<W>,
    pub(super) record: &'p Record<W>,
    pub(super) version: u64,
    pub(super) head: u64,
    pub(super) last: u64,
    pub(super) hashes: *mut AtomicU64,
    pub(super) spill: *mut AtomicU32,
    pub(super) shape: Shape,
    pub(super) _pin: &'p Pin,
}

impl<'p, const W: usize> View<'p, W> {
    /// Whether nothing was published since.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        // Acquire: if a load before saw a store of a later writer, the load below sees the version that was
        // published before that store; pairs with the fence in `publish`.
        fence(Ordering::Acquire);
        self.segment.version.load(Ordering::Relaxed) == self.version
    }

    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Whether the segment begins with this block; a segment that is not in use begins with none.
    #[inline]
    pub(crate) fn begins_with(&self, hash: BlockHash) -> bool {
        self.head == hash.get()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.shape.len as usize
    }

    #[inline]
    pub(crate) fn life(&self) -> u32 {
        self.shape.life
    }

    /// Whether a block of the segment may be in another one too.
    #[inline]
    pub(crate) fn is_doubled(&self) -> bool {
        self.segment.is_doubled()
    }

    /// Whether some pod did not say that a block follows what lies before it here.
    #[inline]
    pub(crate) fn is_unsaid(&self) -> bool {
        self.segment.is_unsaid()
    }

    /// Whether a search found all blocks on its chain: each follows what lies before it, whatever was said, since hashes of chains tell all of
    /// what comes before.
    #[inline]
    pub(crate) fn is_on_chain(&self) -> bool {
        // Relaxed: it says something of blocks that are seen already, those of this version.
        self.record.on_chain.load(Ordering::Relaxed) == self.version
    }

    /// All blocks of the segment were compared with a chain's, and are the same.
    pub(crate) fn set_on_chain(&self) {
        // Relaxed, and perhaps too late: then it is of a version that has passed, and nobody goes by it.
        self.record.on_chain.store(self.version, Ordering::Relaxed);
    }

    /// Whether some pod holds blocks behind one that it lacks: of those nothing is said here.
    #[inline]
    pub(crate) fn has_detached(&self) -> bool {
        self.shape.detached
    }

    /// Leading blocks of the segment that a pod holds.
    pub(crate) fn reach(&self, pod: PodId) -> u32 {
        if !self.base().contains(pod) {
            return 0;
        }
        let stops = self.drop_offs().find(|drop_off| drop_off.pod() == pod);
        // Of a record that is being written anew it may be beyond the end that was read before.
        stops.map_or(self.shape.len, |drop_off| drop_off.offset().min(self.shape.len))
    }

    /// Who holds all blocks of the segment up to this one.
    pub(crate) fn pods_at(&self, offset: u32) -> PodSet<W> {
        let mut pods = self.base();
        for drop_off in self.drop_offs().take_while(|drop_off| drop_off.offset() <= offset) {
            pods.remove(drop_off.pod());
        }
        pods
    }

    /// Whether the block at `offset` is this one, if there is one.
    #[inline]
    pub(crate) fn is_at(&self, offset: u32, hash: BlockHash) -> bool {
        offset < self.shape.len && self.has(offset as usize, hash)
    }

    pub(crate) fn last_block(&self) -> Option<BlockHash> {
        (self.shape.len > 0).then(|| BlockHash::new(self.last))
    }

    #[inline]
    pub(crate) fn ends_with(&self, hash: BlockHash) -> bool {
        self.last == hash.get()
    }

    /// Whether the block at `offset`, which is below `len`, is this one.
    #[inline]
    pub(crate) fn has(&self, offset: usize, hash: BlockHash) -> bool {
        self.hash(offset) == hash.get()
    }

    #[inline]
    pub(crate) fn hash(&self, offset: usize) -> u64 {
        assert!(offset < self.len(), "no block beyond the segment's end");
        // SAFETY: `hashes` and `len` are of one published state, since `view` found the version unchanged after
        // reading both, and in every such state the array has room for `len`. The array lives while we are pinned:
        // a writer gives it to `Pin::later` after publishing another, and we were pinned when this one was current.
        unsafe { (*self.hashes.add(offset)).load(Ordering::Relaxed) }
    }

    /// Asks for the line of a block's hash ahead of its use.
    #[inline]
    pub(crate) fn prefetch_hashes(&self, offset: usize) {
        crate::prefetch::prefetch(self.hashes.wrapping_add(offset));
    }

    /// Asks for the hashes where the first and the last pod stop.
    #[inline]
    pub(crate) fn prefetch_stops(&self) {
        if let Some(last) = self.shape.drop_offs.checked_sub(1) {
            self.prefetch_hashes(self.drop_off(0).offset() as usize);
            self.prefetch_hashes(self.drop_off(last).offset() as usize);
        }
    }

    /// Who holds the first block.
    #[inline]
    pub(crate) fn base(&self) -> PodSet<W> {
        PodSet::from_words(std::array::from_fn(|word| self.record.base[word].load(Ordering::Relaxed)))
    }

    /// The drop-offs, ascending.
    #[inline]
    pub(crate) fn drop_offs(&self) -> impl Iterator<Item = DropOff> + use<'_, 'p, W> {
        (0..self.shape.drop_offs).map(|at| self.drop_off(at))
    }

    #[inline]
    pub(super) fn drop_off(&self, at: u32) -> DropOff {
        let raw = match self.record.drop_offs.get(at as usize) {
            Some(drop_off) => drop_off.load(Ordering::Relaxed),
            // SAFETY: as for `hash`: `spill` has room for all drop-offs of its state beyond the first `INLINE`, and both
            // callers stay below that state's `drop_offs`.
            None => unsafe { (*self.spill.add(at as usize - INLINE)).load(Ordering::Relaxed) },
        };
        DropOff::from_raw(raw)
    }
}
