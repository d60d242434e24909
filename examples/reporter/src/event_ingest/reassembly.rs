//! Reassembly of an inventory from its parts.
//!
//! The rule: only complete inventories leave here, each part in it once, all of one incarnation and sequence number.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::unfinished::{Room, Unfinished};
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
    /// What its blocks take, and when the last of them came; none before the first part.
    room: Option<(Room, Instant)>,
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
    /// Other inventories have the room, and it was not buffered.
    NoRoom,
}

impl Reassembly {
    pub(super) fn push(&mut self, part: &Inventory, unfinished: &Arc<Unfinished>, now: Instant) -> PartOutcome {
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
            if part.parts == 1 {
                *self = Self::default();
                return PartOutcome::Complete(part.blocks.clone());
            }
            *self = Self { incarnation: this.0, sequence: this.1, parts: this.2, ..Self::default() };
            let whole = part.blocks.len().saturating_mul(part.parts as usize);
            let Some(room) = unfinished.take(whole) else { return PartOutcome::NoRoom };
            self.room = Some((room, now));
        } else if !same || part.part > self.received {
            return PartOutcome::OutOfOrder;
        }
        let blocks = self.blocks.len() + part.blocks.len();
        // Later parts may be larger than the first.
        let Some(last) = self.room.as_mut().and_then(|(room, last)| room.grow_to(blocks).then_some(last)) else {
            return PartOutcome::NoRoom;
        };
        *last = now;
        self.blocks.extend_from_slice(&part.blocks);
        self.received += 1;
        if self.received < self.parts {
            return PartOutcome::Incomplete;
        }
        PartOutcome::Complete(std::mem::take(self).blocks)
    }

    /// Whether its worker has left it: the next part has not come for long.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.room.as_ref().is_some_and(|(_, last)| now.saturating_duration_since(*last) >= STALE)
    }
}

/// How long the next part may take while others need the room: several tries of a worker.
const STALE: Duration = Duration::from_secs(60);

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

    fn push(reassembly: &mut Reassembly, part: &Inventory) -> PartOutcome {
        reassembly.push(part, &Unfinished::new(100), Instant::now())
    }

    #[test]
    fn parts_come_together_in_order_and_repeats_count_once() {
        let mut reassembly = Reassembly::default();
        assert_eq!(push(&mut reassembly, &part(4, 0, 3)), PartOutcome::Incomplete);
        assert_eq!(push(&mut reassembly, &part(4, 0, 3)), PartOutcome::Incomplete);
        assert_eq!(push(&mut reassembly, &part(4, 2, 3)), PartOutcome::OutOfOrder);
        assert_eq!(push(&mut reassembly, &part(4, 1, 3)), PartOutcome::Incomplete);
        assert_eq!(push(&mut reassembly, &part(4, 0, 3)), PartOutcome::Incomplete);
        let PartOutcome::Complete(blocks) = push(&mut reassembly, &part(4, 2, 3)) else { panic!("all are here") };
        assert_eq!(blocks.len(), 3);
    }

    #[test]
    fn parts_of_two_inventories_never_mix() {
        let mut reassembly = Reassembly::default();
        assert_eq!(push(&mut reassembly, &part(4, 1, 2)), PartOutcome::OutOfOrder, "its first part is not here");
        assert_eq!(push(&mut reassembly, &part(4, 0, 2)), PartOutcome::Incomplete);
        assert_eq!(push(&mut reassembly, &part(5, 1, 2)), PartOutcome::OutOfOrder);
        assert_eq!(push(&mut reassembly, &part(5, 0, 2)), PartOutcome::Incomplete, "a later one takes its place");
        assert_eq!(push(&mut reassembly, &part(4, 0, 2)), PartOutcome::OutOfOrder);
        let PartOutcome::Complete(blocks) = push(&mut reassembly, &part(5, 1, 2)) else { panic!("all are here") };
        assert_eq!(blocks.iter().map(|b| b.hash.get()).collect::<Vec<_>>(), [501, 502]);
    }

    #[test]
    fn an_inventory_takes_its_room_at_once_and_gives_it_back_whatever_happens() {
        let (unfinished, now) = (Unfinished::new(5), Instant::now());
        let (mut first, mut second) = (Reassembly::default(), Reassembly::default());
        assert_eq!(first.push(&part(4, 0, 3), &unfinished, now), PartOutcome::Incomplete);
        assert_eq!(second.push(&part(4, 0, 3), &unfinished, now), PartOutcome::NoRoom, "three of five are taken");
        assert_eq!(second.push(&part(4, 1, 3), &unfinished, now), PartOutcome::OutOfOrder);
        assert_eq!(second.push(&part(4, 0, 1), &unfinished, now), PartOutcome::Complete(part(4, 0, 1).blocks));
        assert_eq!(first.push(&part(5, 0, 4), &unfinished, now), PartOutcome::Incomplete, "instead of the other");
        // One that is larger than it said has to find room as all others do.
        let mut large = part(5, 1, 4);
        large.blocks = vec![large.blocks[0]; 5];
        assert_eq!(first.push(&large, &unfinished, now), PartOutcome::NoRoom);
        assert_eq!(first.push(&part(5, 1, 4), &unfinished, now), PartOutcome::Incomplete, "it lost nothing by it");
        drop(first);
        assert_eq!(second.push(&part(4, 0, 5), &unfinished, now), PartOutcome::Incomplete);
        assert!(!second.is_stale(now + STALE / 2) && second.is_stale(now + STALE));
    }
}
