//! Chain source: a prompt's block hashes, computed on demand by a search.
//!
//! The rule that must never break: what was hashed once stays as it is, and hashing deeper only adds to it.

use crate::blocks::BlockHash;

/// A prompt as block hashes, computed front to back and only as deep as a search needs.
///
/// Implemented for the native hash ([`LazyChain`](crate::LazyChain)) and, with any of the engines' features, for
/// the engines' own. A host with hashes of another kind can implement it too.
pub trait ChainSource {
    /// Whole blocks in the prompt.
    fn len(&self) -> usize;

    /// What has been hashed so far.
    fn hashes(&self) -> &[BlockHash];

    /// The hashes of the first `blocks` blocks, or of all if there are fewer.
    fn hash_up_to(&mut self, blocks: usize) -> &[BlockHash];

    /// Whether the prompt is shorter than a block.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A prompt that was hashed before.
impl ChainSource for &[BlockHash] {
    fn len(&self) -> usize {
        <[BlockHash]>::len(self)
    }

    fn hashes(&self) -> &[BlockHash] {
        self
    }

    fn hash_up_to(&mut self, blocks: usize) -> &[BlockHash] {
        &self[..blocks.min(<[BlockHash]>::len(self))]
    }
}
