//! What a search asks of a chain: its hashes, as deep as it needs them.

use crate::block::BlockHash;
use crate::reach::Chain;

/// A chain that can be searched, hashed or not.
pub(super) trait Prompt {
    fn len(&self) -> usize;
    /// Hashes up to there, if that is not out of proportion.
    fn within_reach(&self, blocks: usize) -> bool;
    fn reach(&mut self, blocks: usize) -> &[BlockHash];
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
    fn reach(&mut self, _blocks: usize) -> &[BlockHash] {
        self
    }
}

impl<C: Chain + ?Sized> Prompt for &mut C {
    fn len(&self) -> usize {
        C::len(self)
    }

    fn within_reach(&self, blocks: usize) -> bool {
        blocks <= 2 * C::hashes(self).len() + GALLOP
    }

    fn reach(&mut self, blocks: usize) -> &[BlockHash] {
        C::reach(self, blocks);
        C::hashes(self)
    }
}

/// Least stride of a lazy search along a run, in blocks.
pub(super) const GALLOP: usize = 32;
