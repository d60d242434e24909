//! A reader's view of a segment (run), valid while its version is current.

use super::{Record, Run, Shape};
use crate::block::BlockHash;
use crate::pod::PodId;
use crate::podset::PodSet;
use crate::reclaim::Pin;
use crate::runs::holders::{Cut, INLINE};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// A run as a reader sees it. What is read through it counts only if the view is current afterwards.
#[derive(Clone, Copy)]
pub(crate) struct View<'p, const W: usize> {
    pub(super) run: &'p Run<W>,
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
        self.run.version.load(Ordering::Relaxed) == self.version
    }

    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Whether the run begins with this block; a run that is not in use begins with none.
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

    /// Whether a block of the run may be in another one too.
    #[inline]
    pub(crate) fn is_doubled(&self) -> bool {
        self.run.is_doubled()
    }

    /// Whether some pod holds blocks behind one that it lacks: of those nothing is said here.
    #[inline]
    pub(crate) fn has_islands(&self) -> bool {
        self.shape.islands
    }

    /// Leading blocks of the run that a pod holds.
    pub(crate) fn reach(&self, pod: PodId) -> u32 {
        if !self.base().contains(pod) {
            return 0;
        }
        self.cuts().find(|cut| cut.pod() == pod).map_or(self.shape.len, |cut| cut.offset())
    }

    /// Who holds all blocks of the run up to this one.
    pub(crate) fn pods_at(&self, offset: u32) -> PodSet<W> {
        let mut pods = self.base();
        for cut in self.cuts().take_while(|cut| cut.offset() <= offset) {
            pods.remove(cut.pod());
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
        assert!(offset < self.len(), "no block beyond the run's end");
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

    /// Who holds the first block.
    #[inline]
    pub(crate) fn base(&self) -> PodSet<W> {
        PodSet::from_words(std::array::from_fn(|word| self.record.base[word].load(Ordering::Relaxed)))
    }

    /// The cuts, ascending.
    #[inline]
    pub(crate) fn cuts(&self) -> impl Iterator<Item = Cut> + use<'_, 'p, W> {
        (0..self.shape.cuts).map(|at| self.cut(at))
    }

    #[inline]
    pub(super) fn cut(&self, at: u32) -> Cut {
        let raw = match self.record.cuts.get(at as usize) {
            Some(cut) => cut.load(Ordering::Relaxed),
            // SAFETY: as for `hash`: `spill` has room for all cuts of its state beyond the first `INLINE`, and both
            // callers stay below that state's `cuts`.
            None => unsafe { (*self.spill.add(at as usize - INLINE)).load(Ordering::Relaxed) },
        };
        Cut::from_raw(raw)
    }
}
