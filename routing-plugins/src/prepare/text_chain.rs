//! Lazy hashing of text in blocks of bytes.
//!
//! Each block's hash is seeded with the one before it, so that it covers everything before its block, as a chain must. The block itself is
//! hashed without: of more than 240 bytes, a seed costs as much as the bytes.

use std::num::NonZeroUsize;
use std::ops::Range;

use kv_index::{BlockHash, ChainSource};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Which bytes of a body are hashed, and how.
#[derive(Clone, Debug)]
pub(crate) struct TextHasher {
    /// What makes caches incompatible.
    pub(crate) seed: u64,
    /// Bytes in a block.
    pub(crate) size: NonZeroUsize,
    /// The prompt's place in the body.
    pub(crate) bytes: Range<usize>,
}

/// A text's block hashes, made as far as they are asked for. A last block that is not full is dropped, as engines do.
pub(crate) struct TextChain<'a> {
    hasher: &'a TextHasher,
    text: &'a [u8],
    hashes: &'a mut Vec<BlockHash>,
}

impl<'a> TextChain<'a> {
    pub(crate) fn new(hasher: &'a TextHasher, body: &'a [u8], hashes: &'a mut Vec<BlockHash>) -> Self {
        hashes.clear();
        Self { hasher, text: body.get(hasher.bytes.clone()).unwrap_or_default(), hashes }
    }
}

impl ChainSource for TextChain<'_> {
    fn len(&self) -> usize {
        self.text.len() / self.hasher.size
    }

    fn hashes(&self) -> &[BlockHash] {
        self.hashes
    }

    fn hash_up_to(&mut self, blocks: usize) -> &[BlockHash] {
        let blocks = blocks.min(self.len());
        let size = self.hasher.size.get();
        let mut before = self.hashes.last().map_or(self.hasher.seed, |last| last.get());
        for at in self.hashes.len()..blocks {
            let block = xxh3_64(&self.text[at * size..(at + 1) * size]);
            before = xxh3_64_with_seed(&block.to_le_bytes(), before);
            let hash = BlockHash::new(before);
            before = hash.get();
            self.hashes.push(hash);
        }
        &self.hashes[..blocks]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hasher(size: usize, bytes: Range<usize>) -> TextHasher {
        TextHasher { seed: 7, size: NonZeroUsize::new(size).expect("not zero"), bytes }
    }

    fn all(hasher: &TextHasher, body: &[u8]) -> Vec<BlockHash> {
        let mut hashes = Vec::new();
        let mut chain = TextChain::new(hasher, body, &mut hashes);
        chain.hash_up_to(usize::MAX).to_vec()
    }

    proptest! {
        #[test]
        fn reaching_in_pieces_gives_what_reaching_at_once_gives(
            body in prop::collection::vec(any::<u8>(), 0..200), size in 1usize..9, steps in prop::collection::vec(0usize..30, 0..6),
        ) {
            let hasher = hasher(size, 0..body.len());
            let mut hashes = Vec::new();
            let mut chain = TextChain::new(&hasher, &body, &mut hashes);
            for step in steps {
                chain.hash_up_to(step);
            }
            prop_assert_eq!(chain.hash_up_to(usize::MAX).to_vec(), all(&hasher, &body));
            prop_assert_eq!(all(&hasher, &body).len(), body.len() / size);
        }

        #[test]
        fn texts_share_the_blocks_before_their_first_difference_and_none_after(
            body in prop::collection::vec(any::<u8>(), 1..120), at in any::<prop::sample::Index>(), size in 1usize..9,
        ) {
            let at = at.index(body.len());
            let mut other = body.clone();
            other[at] ^= 1;
            let hasher = hasher(size, 0..body.len());
            let (a, b) = (all(&hasher, &body), all(&hasher, &other));
            let shared = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(shared, (at / size).min(a.len()));
            prop_assert!(a[shared..].iter().all(|hash| !b.contains(hash)));
        }
    }

    #[test]
    fn a_place_outside_the_body_has_no_blocks() {
        assert!(all(&hasher(4, 2..400), b"0123456789").is_empty());
    }
}
