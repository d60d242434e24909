//! Galloping over a chain: the hashes that a search needs, eager or lazy.

use crate::blocks::{BlockHash, ChainSource};

/// A chain that can be searched, hashed or not.
pub(super) trait Prompt {
    fn len(&self) -> usize;
    /// Hashes up to there, if that is not out of proportion.
    fn within_reach(&self, blocks: usize) -> bool;
    fn hash_up_to(&mut self, blocks: usize) -> &[BlockHash];
}

impl Prompt for &[BlockHash] {
    #[inline]
    fn len(&self) -> usize {
        <[BlockHash]>::len(self)
    }

    #[inline]
    fn within_reach(&self, _blocks: usize) -> bool {
        true
    }

    #[inline]
    fn hash_up_to(&mut self, _blocks: usize) -> &[BlockHash] {
        self
    }
}

impl<C: ChainSource + ?Sized> Prompt for &mut C {
    fn len(&self) -> usize {
        C::len(self)
    }

    fn within_reach(&self, blocks: usize) -> bool {
        blocks <= 2 * C::hashes(self).len() + GALLOP
    }

    fn hash_up_to(&mut self, blocks: usize) -> &[BlockHash] {
        C::hash_up_to(self, blocks);
        C::hashes(self)
    }
}

/// Least stride of a lazy search along a segment, in blocks.
pub(super) const GALLOP: usize = 32;
