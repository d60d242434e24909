//! Look-ups by hash: where a block is, who holds it there, and how far a pod goes on from there.

use crate::blocks::BlockHash;
use crate::directory::Candidates;
use crate::pods::{PodId, PodSet};
use crate::reclamation::Pin;
use crate::segments::detached_spans::DetachedSpans;
use crate::segments::{BlockPosition, Segments, View};

/// A segment that is looked at: as it was published, and under its lock where that does not say all.
struct Look<'v, 'p, const W: usize> {
    view: &'v View<'p, W>,
    detached: Option<&'v DetachedSpans>,
}

impl<const W: usize> Look<'_, '_, W> {
    /// Who holds the block at `offset`.
    fn pods_at(&self, offset: u32) -> PodSet<W> {
        let mut pods = self.view.pods_at(offset);
        for pod in self.detached.into_iter().flat_map(|detached| detached.pods_at(offset)) {
            pods.insert(pod);
        }
        pods
    }

    /// How many blocks a pod holds from `offset` on that are those of `chain`.
    fn stride(&self, pod: PodId, offset: u32, chain: &[BlockHash]) -> usize {
        let reach = self.view.reach(pod);
        let apart = if offset < reach { None } else { self.detached.and_then(|detached| detached.end(pod, offset)) };
        let held = apart.unwrap_or(reach).saturating_sub(offset) as usize;
        let on = chain.iter().take(held).enumerate();
        on.take_while(|(at, hash)| self.view.has(offset as usize + at, **hash)).count()
    }
}

impl<const W: usize> Segments<W> {
    /// Places that a block has: one, unless pods contradict each other. Takes no lock.
    pub(crate) fn places(&self, hash: BlockHash, pin: &Pin) -> Candidates {
        let mut candidates = self.directory.candidates(hash, pin);
        if candidates.is_empty() {
            return candidates;
        }
        loop {
            let mut places = candidates.clone();
            places.retain(|at| self.is_there(*at, hash, pin));
            if places == candidates {
                return places;
            }
            let again = self.directory.candidates(hash, pin);
            if again == candidates {
                return places;
            }
            // One may have moved between our finding it and looking there.
            candidates = again;
        }
    }

    /// A block's place and that segment's life, if it has one place and that is found at once.
    #[inline]
    pub(crate) fn place(&self, hash: BlockHash, pin: &Pin) -> Option<(BlockPosition, u32)> {
        let at = self.directory.sole(hash, pin)?;
        let view = self.view(at.segment, pin);
        let there = view.is_at(at.offset, hash);
        (view.is_current() && there).then_some((at, view.life()))
    }

    /// Where a pod holds a block.
    pub(crate) fn find(&self, pod: PodId, hash: BlockHash, pin: &Pin) -> Option<BlockPosition> {
        self.look_at(hash, None, pin, |segment, at| (segment.stride(pod, at.offset, &[hash]) > 0).then_some(at))
    }

    /// Who of `pods` holds a block at another place than `besides`.
    pub(crate) fn elsewhere(
        &self,
        pods: PodSet<W>,
        hash: BlockHash,
        besides: Option<BlockPosition>,
        pin: &Pin,
    ) -> PodSet<W> {
        let mut found = PodSet::EMPTY;
        self.look_at(hash, besides, pin, |segment, at| {
            found = found | segment.pods_at(at.offset);
            None::<()>
        });
        found & pods
    }

    /// How many of `chain`'s blocks a pod holds, as far as they lie in one segment.
    pub(crate) fn stride(&self, pod: PodId, chain: &[BlockHash], pin: &Pin) -> usize {
        let Some(&first) = chain.first() else { return 0 };
        let on = |segment: Look<'_, '_, W>, at: BlockPosition| {
            Some(segment.stride(pod, at.offset, chain)).filter(|on| *on > 0)
        };
        self.look_at(first, None, pin, on).unwrap_or(0)
    }

    /// Looks at a block's places but `besides`, until `look` finds what it is after. It may be asked about one place several times.
    fn look_at<R>(
        &self,
        hash: BlockHash,
        besides: Option<BlockPosition>,
        pin: &Pin,
        mut look: impl FnMut(Look<'_, '_, W>, BlockPosition) -> Option<R>,
    ) -> Option<R> {
        let mut candidates = self.directory.candidates(hash, pin);
        loop {
            for &at in candidates.iter().filter(|at| besides != Some(**at)) {
                let found = self.look_in(at, hash, pin, &mut look);
                if found.is_some() {
                    return found;
                }
            }
            // One may have moved between our finding it and looking there.
            let again = self.directory.candidates(hash, pin);
            if again == candidates {
                return None;
            }
            candidates = again;
        }
    }

    /// Looks at one place, if the block is there.
    fn look_in<R>(
        &self,
        at: BlockPosition,
        hash: BlockHash,
        pin: &Pin,
        look: &mut impl FnMut(Look<'_, '_, W>, BlockPosition) -> Option<R>,
    ) -> Option<R> {
        loop {
            let view = self.view(at.segment, pin);
            if view.has_detached() {
                return self.segment(at.segment, pin).peek(pin, |view, detached| {
                    if view.is_at(at.offset, hash) { look(Look { view, detached }, at) } else { None }
                });
            }
            let detached = None;
            let found = if view.is_at(at.offset, hash) { look(Look { view: &view, detached }, at) } else { None };
            if view.is_current() {
                return found;
            }
        }
    }
}
