//! What a search asks of a chain: its hashes, as deep as it needs them.

use crate::block::BlockHash;
use crate::chain::LazyChain;

/// A chain that can be searched, hashed or not.
pub(super) trait Prompt {
    fn len(&self) -> usize;
    /// Hashes up to there, if that is not out of proportion.
    fn within_reach(&self, blocks: usize) -> bool;
    fn reach(&mut self, blocks: usize) -> &[BlockHash];
    fn hashes(&self) -> &[BlockHash];
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

    #[inline]
    fn hashes(&self) -> &[BlockHash] {
        self
    }
}

impl Prompt for &mut LazyChain<'_> {
    fn len(&self) -> usize {
        LazyChain::len(self)
    }

    fn within_reach(&self, blocks: usize) -> bool {
        blocks <= 2 * self.hashed() + GALLOP
    }

    fn reach(&mut self, blocks: usize) -> &[BlockHash] {
        LazyChain::reach(self, blocks);
        LazyChain::hashes(self)
    }

    fn hashes(&self) -> &[BlockHash] {
        LazyChain::hashes(self)
    }
}

/// Least stride of a lazy search along a run, in blocks.
pub(super) const GALLOP: usize = 32;
