//! Reassembly of an inventory from its parts.
//!
//! The rule: only complete inventories leave here, each part in it once, all of one incarnation and sequence number.

use crate::wire::{Inventory, InventoryEntry};

/// The incomplete inventory of one pod, if there is one.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    incarnation: u64,
    sequence: u64,
    parts: u32,
    /// Parts received: the first so many.
    received: u32,
    blocks: Vec<InventoryEntry>,
}

/// The result of a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PartOutcome {
    /// The next one is awaited.
    Incomplete,
    /// It was the last: all blocks in order.
    Complete(Vec<InventoryEntry>),
    /// Parts before it are missing, and it was not buffered.
    OutOfOrder,
}

impl Reassembly {
    pub(super) fn push(&mut self, part: &Inventory) -> PartOutcome {
        let this = (part.incarnation, part.sequence, part.parts);
        let same = this == (self.incarnation, self.sequence, self.parts);
        if same && part.part < self.received {
            return PartOutcome::Incomplete;
        }
        if part.part == 0 {
            // An older inventory that comes late, over another transport, would only tear this one.
            if self.received > 0 && (part.incarnation, part.sequence) < (self.incarnation, self.sequence) {
                return PartOutcome::OutOfOrder;
            }
            *self = Self { received: 0, blocks: Vec::new(), incarnation: this.0, sequence: this.1, parts: this.2 };
        } else if !same || part.part > self.received {
            return PartOutcome::OutOfOrder;
        }
        self.blocks.extend_from_slice(&part.blocks);
        self.received += 1;
        if self.received < self.parts {
            return PartOutcome::Incomplete;
        }
        PartOutcome::Complete(std::mem::take(self).blocks)
    }
}

#[cfg(test)]
mod tests {
    use kv_index::{BlockHash, Parent};

    use super::*;
    use crate::wire::HashScheme;

    fn hashing() -> HashScheme {
        HashScheme { block_size: 16, probe: BlockHash::new(1) }
    }

    fn part(sequence: u64, part: u32, parts: u32) -> Inventory {
        let hash = BlockHash::new(1 + sequence * 100 + u64::from(part));
        let blocks = vec![InventoryEntry::new(hash, Parent::Root)];
        Inventory { pod: "a".into(), incarnation: 1, sequence, hashing: hashing(), part, parts, blocks }
    }

    #[test]
    fn parts_come_together_in_order_and_repeats_count_once() {
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.push(&part(4, 0, 3)), PartOutcome::Incomplete);
        assert_eq!(reassembly.push(&part(4, 0, 3)), PartOutcome::Incomplete);
        assert_eq!(reassembly.push(&part(4, 2, 3)), PartOutcome::OutOfOrder);
        assert_eq!(reassembly.push(&part(4, 1, 3)), PartOutcome::Incomplete);
        assert_eq!(reassembly.push(&part(4, 0, 3)), PartOutcome::Incomplete);
        let PartOutcome::Complete(blocks) = reassembly.push(&part(4, 2, 3)) else { panic!("all are here") };
        assert_eq!(blocks.len(), 3);
    }

    #[test]
    fn parts_of_two_inventories_never_mix() {
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.push(&part(4, 1, 2)), PartOutcome::OutOfOrder, "its first part is not here");
        assert_eq!(reassembly.push(&part(4, 0, 2)), PartOutcome::Incomplete);
        assert_eq!(reassembly.push(&part(5, 1, 2)), PartOutcome::OutOfOrder);
        assert_eq!(reassembly.push(&part(5, 0, 2)), PartOutcome::Incomplete, "a later one takes its place");
        assert_eq!(reassembly.push(&part(4, 0, 2)), PartOutcome::OutOfOrder);
        let PartOutcome::Complete(blocks) = reassembly.push(&part(5, 1, 2)) else { panic!("all are here") };
        assert_eq!(blocks.iter().map(|b| b.hash.get()).collect::<Vec<_>>(), [501, 502]);
    }
}
