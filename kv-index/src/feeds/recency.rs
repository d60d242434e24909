//! Recency: blocks in the order of their last use, each step of it in constant time.

use std::collections::hash_map::Entry;

use crate::blocks::BlockHash;
use crate::map::FixedMap;

/// Blocks from the most to the least recently used: a list through a table, with a map to the places in it.
#[derive(Debug)]
pub(super) struct Recency {
    places: FixedMap<BlockHash, u32>,
    /// The first is no block: it closes the list to a ring.
    links: Vec<Link>,
    free: Vec<u32>,
}

/// A block between the one that was used after it and the one that was used before.
#[derive(Clone, Copy, Debug)]
struct Link {
    hash: BlockHash,
    newer: u32,
    older: u32,
}

/// The place of what is no block.
const END: u32 = 0;

impl Recency {
    /// The most blocks that it holds.
    pub(super) const MOST: usize = u32::MAX as usize - 1;

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// A block is used now. There must be room: fewer than [`Self::MOST`], or it is one of them.
    pub(super) fn used(&mut self, hash: BlockHash) {
        let at = match self.places.entry(hash) {
            Entry::Occupied(known) => {
                let at = *known.get();
                self.unlink(at);
                at
            }
            Entry::Vacant(new) => {
                let at = self.free.pop().unwrap_or(self.links.len() as u32);
                if at as usize == self.links.len() {
                    self.links.push(Link { hash, newer: END, older: END });
                }
                *new.insert(at)
            }
        };
        let before = self.links[END as usize].older;
        self.links[at as usize] = Link { hash, newer: END, older: before };
        self.links[before as usize].newer = at;
        self.links[END as usize].older = at;
    }

    /// Takes out the block that was used least recently.
    pub(super) fn pop_oldest(&mut self) -> Option<BlockHash> {
        let at = self.links[END as usize].newer;
        if at == END {
            return None;
        }
        self.unlink(at);
        self.free.push(at);
        let hash = self.links[at as usize].hash;
        self.places.remove(&hash);
        Some(hash)
    }

    fn unlink(&mut self, at: u32) {
        let Link { newer, older, .. } = self.links[at as usize];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
    }
}

impl Default for Recency {
    fn default() -> Self {
        let end = Link { hash: BlockHash::new(0), newer: END, older: END };
        Self { places: FixedMap::default(), links: vec![end], free: Vec::new() }
    }
}

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Steps: a block that is used, or none where the oldest is taken out.
        #[test]
        fn it_is_the_order_of_last_uses(steps in prop::collection::vec(prop::option::weighted(0.8, 0u64..12), 0..200)) {
            let (mut recency, mut literal) = (Recency::default(), Vec::new());
            for step in steps {
                match step {
                    Some(hash) => {
                        recency.used(BlockHash::new(hash));
                        literal.retain(|known| *known != hash);
                        literal.push(hash);
                    }
                    None => {
                        let oldest = (!literal.is_empty()).then(|| BlockHash::new(literal.remove(0)));
                        prop_assert_eq!(recency.pop_oldest(), oldest);
                    }
                }
                prop_assert_eq!(recency.len(), literal.len());
            }
            let left: Vec<BlockHash> = std::iter::from_fn(|| recency.pop_oldest()).collect();
            prop_assert_eq!(left, literal.into_iter().map(BlockHash::new).collect::<Vec<_>>());
            prop_assert!(recency.links.len() <= 13, "places are used again");
        }
    }
}
