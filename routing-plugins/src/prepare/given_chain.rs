//! Block hashes that the request brings, as a lazy chain.
//!
//! What was not asked for stays out of the buffer: who looks there for how far the search went must find the same as for
//! a prompt that is hashed here.

use kv_index::{BlockHash, ChainSource};

/// A request's own hashes; those that were asked for are in the buffer.
pub(super) struct GivenChain<'a> {
    all: &'a [BlockHash],
    reached: &'a mut Vec<BlockHash>,
}

impl<'a> GivenChain<'a> {
    pub(super) fn new(all: &'a [BlockHash], reached: &'a mut Vec<BlockHash>) -> Self {
        reached.clear();
        Self { all, reached }
    }
}

impl ChainSource for GivenChain<'_> {
    fn len(&self) -> usize {
        self.all.len()
    }

    fn hashes(&self) -> &[BlockHash] {
        self.reached
    }

    fn hash_up_to(&mut self, blocks: usize) -> &[BlockHash] {
        let blocks = blocks.min(self.all.len());
        if let Some(more) = self.all.get(self.reached.len()..blocks) {
            self.reached.extend_from_slice(more);
        }
        &self.all[..blocks]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is asked for in whatever order: the answer is the beginning, and the buffer has the longest of them.
        #[test]
        fn it_hands_out_beginnings_and_keeps_the_longest(
            length in 0..20usize,
            asked in prop::collection::vec(0..30usize, 0..6),
        ) {
            let all: Vec<_> = (1..=length as u64).map(BlockHash::new).collect();
            let mut buffer = vec![BlockHash::new(99)];
            let mut chain = GivenChain::new(&all, &mut buffer);
            prop_assert_eq!((chain.len(), chain.hashes().len()), (length, 0), "what was there before is gone");
            let mut most = 0;
            for blocks in asked {
                most = most.max(blocks.min(length));
                prop_assert_eq!(chain.hash_up_to(blocks), &all[..blocks.min(length)]);
                prop_assert_eq!(chain.hashes(), &all[..most]);
            }
        }
    }
}
