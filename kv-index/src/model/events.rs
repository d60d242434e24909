//! Events, streams and names of a trace.

use super::ops::PodUpdate;
use crate::{
    BlockHash, Event, EventSemantics, FeedConfig, InventoryBlock, Location, Parent, Removed, Stored, StreamId,
};

pub(super) fn raise<'a>(
    blocks: &'a [BlockHash],
    (change, parent): &(PodUpdate, Parent),
    locations: &'a [Location],
) -> Event<'a> {
    match change {
        PodUpdate::Stored(.., tier, _) => Event::Stored(Stored { parent: *parent, blocks, tier: *tier, locations }),
        PodUpdate::Removed(.., tier, _) => Event::Removed(Removed { blocks, tier: *tier }),
        PodUpdate::Cleared => Event::Cleared,
    }
}

/// Two streams, one of odd numbers and one of even ones: every other number of each is missing.
pub(super) fn stream(incarnation: u64, sequence: u64) -> FeedConfig {
    let source = if incarnation % 2 == 0 { EventSemantics::Copies } else { EventSemantics::Membership };
    FeedConfig { stream: StreamId((sequence % 2) as u32), semantics: source, first_sequence: 1 }
}

pub(super) fn digest(inventory: &[InventoryBlock]) -> crate::Digest {
    crate::Digest::of(inventory.iter().flat_map(|b| (0..b.copies).map(|_| (b.hash, b.tier))))
}

pub(super) fn slot(pod: u8) -> (usize, String) {
    let slot = usize::from(pod) % NAMES;
    (slot, name(slot))
}

pub(super) fn name(slot: usize) -> String {
    format!("pod-{slot}")
}

/// Names that pods join under.
pub(super) const NAMES: usize = 4;
