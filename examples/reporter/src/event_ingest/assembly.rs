//! An inventory put together from its parts.
//!
//! The rule: only whole inventories leave here, each part in it once, all of one incarnation and number.

use crate::wire::{HeldBlock, Inventory};

/// The inventory of one pod that is under way, if one is.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    incarnation: u64,
    sequence: u64,
    parts: u32,
    /// Parts that are here: the first so many.
    here: u32,
    blocks: Vec<HeldBlock>,
}

/// What became of a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// The next one is awaited.
    Wanting,
    /// It was the last: all blocks in order.
    Whole(Vec<HeldBlock>),
    /// Parts before it are not here, and it was not taken.
    Torn,
}

impl Assembly {
    pub(super) fn put(&mut self, part: &Inventory) -> Put {
        let this = (part.incarnation, part.sequence, part.parts);
        let same = this == (self.incarnation, self.sequence, self.parts);
        if same && part.part < self.here {
            return Put::Wanting;
        }
        if part.part == 0 {
            // An older inventory that comes late, over another transport, would only tear this one.
            if self.here > 0 && (part.incarnation, part.sequence) < (self.incarnation, self.sequence) {
                return Put::Torn;
            }
            *self = Self { here: 0, blocks: Vec::new(), incarnation: this.0, sequence: this.1, parts: this.2 };
        } else if !same || part.part > self.here {
            return Put::Torn;
        }
        self.blocks.extend_from_slice(&part.blocks);
        self.here += 1;
        if self.here < self.parts {
            return Put::Wanting;
        }
        Put::Whole(std::mem::take(self).blocks)
    }
}

#[cfg(test)]
mod tests {
    use kv_index::{BlockHash, Parent};

    use super::*;
    use crate::wire::Hashing;

    fn hashing() -> Hashing {
        Hashing { block_size: 16, probe: BlockHash::new(1) }
    }

    fn part(sequence: u64, part: u32, parts: u32) -> Inventory {
        let hash = BlockHash::new(1 + sequence * 100 + u64::from(part));
        let blocks = vec![HeldBlock::new(hash, Parent::Root)];
        Inventory { pod: "a".into(), incarnation: 1, sequence, hashing: hashing(), part, parts, blocks }
    }

    #[test]
    fn parts_come_together_in_order_and_repeats_count_once() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.put(&part(4, 0, 3)), Put::Wanting);
        assert_eq!(assembly.put(&part(4, 0, 3)), Put::Wanting);
        assert_eq!(assembly.put(&part(4, 2, 3)), Put::Torn);
        assert_eq!(assembly.put(&part(4, 1, 3)), Put::Wanting);
        assert_eq!(assembly.put(&part(4, 0, 3)), Put::Wanting);
        let Put::Whole(blocks) = assembly.put(&part(4, 2, 3)) else { panic!("all are here") };
        assert_eq!(blocks.len(), 3);
    }

    #[test]
    fn parts_of_two_inventories_never_mix() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.put(&part(4, 1, 2)), Put::Torn, "its first part is not here");
        assert_eq!(assembly.put(&part(4, 0, 2)), Put::Wanting);
        assert_eq!(assembly.put(&part(5, 1, 2)), Put::Torn);
        assert_eq!(assembly.put(&part(5, 0, 2)), Put::Wanting, "a later one takes its place");
        assert_eq!(assembly.put(&part(4, 0, 2)), Put::Torn);
        let Put::Whole(blocks) = assembly.put(&part(5, 1, 2)) else { panic!("all are here") };
        assert_eq!(blocks.iter().map(|b| b.hash.get()).collect::<Vec<_>>(), [501, 502]);
    }
}
