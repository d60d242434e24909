//! Entries of blocks that are about to be placed: where the directory says that a block has a place already, and where it is told twice.

use crate::blocks::BlockHash;
use crate::directory::{Candidates, HomesAhead};
use crate::segments::segment::Writing;
use crate::segments::{BlockPosition, LONGEST, SegmentId, Segments, WAITING};
use crate::writers::WritePin;

impl<const W: usize> Segments<W> {
    /// Enters blocks in the directory that are about to come behind the last one of a segment, up to the first that has a place; how
    /// many, and whether a segment waits for the last of them. `own` tells the blocks that the segment has already.
    #[inline]
    pub(super) fn enter(
        &self,
        first: BlockPosition,
        blocks: &[BlockHash],
        own: &dyn Fn(u32) -> Option<BlockHash>,
        awaited: &mut bool,
        pin: &WritePin<'_>,
    ) -> usize {
        let blocks = &blocks[..blocks.len().min(LONGEST - (first.offset as usize).min(LONGEST))];
        let waited = |entered: Result<(), Candidates>, count: usize| match entered {
            Ok(()) => Some(false),
            Err(found) => self.enter_beside(found, first, blocks, count, own, pin),
        };
        if let [hash] = *blocks {
            // Answers grow by one block after the other: there is nothing to ask for ahead.
            let waited = waited(self.directory.insert(hash, first, &[], pin), 0);
            *awaited = waited.unwrap_or(*awaited);
            return usize::from(waited.is_some());
        }
        let homes = HomesAhead::new(&self.directory, blocks.iter().copied(), pin);
        for (count, (&hash, home)) in blocks.iter().zip(homes).enumerate() {
            match waited(self.directory.insert_at(home, hash, first.plus(count), pin), count) {
                Some(waited) => *awaited = waited,
                None => return count,
            }
        }
        blocks.len()
    }

    /// The same for one block whose tag others bear; none if it has a place, or may be about to.
    #[cold]
    fn enter_beside(
        &self,
        mut known: Candidates,
        first: BlockPosition,
        blocks: &[BlockHash],
        count: usize,
        own: &dyn Fn(u32) -> Option<BlockHash>,
        pin: &WritePin<'_>,
    ) -> Option<bool> {
        let hash = blocks[count];
        let is_free = |other: &BlockPosition| {
            if other.offset == WAITING || other.segment != first.segment {
                return self.is_other(*other, hash, pin);
            }
            let ours = own(other.offset)
                .or_else(|| blocks.get((other.offset as usize).checked_sub(first.offset as usize)?).copied());
            ours.is_some_and(|ours| ours != hash)
        };
        while known.iter().all(is_free) {
            match self.directory.insert(hash, first.plus(count), &known, pin) {
                Ok(()) => return Some(known.iter().any(|at| at.offset == WAITING)),
                Err(found) => known = found,
            }
        }
        None
    }

    /// Enters the first block of a segment that is about to be. Whether it has a place in the middle of another one, or may be
    /// about to: then both are doubled. Or the segment that somebody else is making to begin with it.
    pub(super) fn enter_head(
        &self,
        segment: &Writing<'_, W>,
        at: BlockPosition,
        hash: BlockHash,
        awaited: &mut bool,
        pin: &WritePin<'_>,
    ) -> Result<bool, SegmentId> {
        let mut known = Candidates::new();
        let mut contradicted = false;
        let same = |other: &&BlockPosition| !self.is_other(**other, hash, pin);
        while let Err(found) = self.directory.insert(hash, at, &known, pin) {
            if let Some(head) = found.iter().filter(same).find(|other| other.offset == 0) {
                return Err(head.segment);
            }
            for other in found.iter().filter(same) {
                contradicted = true;
                segment.set_doubled();
                self.segment(other.segment, pin).set_doubled();
            }
            known = found;
        }
        // Once more: a segment may have begun anew since, with the same block in the same place.
        known.iter().filter(same).for_each(|other| self.segment(other.segment, pin).set_doubled());
        *awaited = known.iter().any(|at| at.offset == WAITING);
        Ok(contradicted)
    }

    /// Whether a place that bears a block's tag is surely another block's.
    fn is_other(&self, at: BlockPosition, hash: BlockHash, pin: &WritePin<'_>) -> bool {
        loop {
            let view = self.view(at.segment, pin);
            // A place beyond the end is one that comes or goes: whose it is nobody can tell.
            let other = at.offset == WAITING || (at.offset as usize) < view.len() && !view.is_at(at.offset, hash);
            if view.is_current() {
                return other;
            }
        }
    }
}
