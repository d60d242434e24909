//! Where a hash lives in the directory, and what a slot says.

use crate::blocks::BlockHash;
use crate::directory::sharded::shard;
use crate::directory::spread::Spread;
use crate::directory::{BlockPosition, SegmentId};

/// Where a hash lives: the shard from the top byte of its spread, the line from the tag that follows, so that a resize needs
/// no hashes.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) tag: u32,
    pub(super) shard: u8,
}

impl Key {
    #[inline]
    pub(super) fn of(hash: BlockHash, spread: Spread) -> Self {
        let (shard, rest) = shard(spread.of(hash));
        Self { tag: (rest >> TAG_SHIFT) as u32, shard: shard as u8 }
    }

    /// The line where the key's entries begin.
    #[inline]
    pub(super) fn home(self, lines: usize) -> usize {
        ((u64::from(self.tag) * lines as u64) >> TAG_BITS) as usize
    }

    #[inline]
    pub(super) fn shard(self) -> usize {
        self.shard.into()
    }

    /// Whether the shard counts the entry while it has so many lines.
    #[inline]
    pub(super) fn is_sampled(self, lines: usize) -> bool {
        self.tag & (sample(lines) as u32 - 1) == 0
    }

    #[inline]
    pub(super) fn word(self, at: BlockPosition) -> u64 {
        u64::from(self.tag) << TAG_SHIFT | u64::from(at.offset) << SegmentId::BITS | u64::from(at.segment.raw())
    }
}

/// The position that a word names; not that of an empty slot.
#[inline]
pub(super) fn place(word: u64) -> BlockPosition {
    let segment = SegmentId::from_low_bits(word);
    BlockPosition { segment, offset: u32::from((word >> SegmentId::BITS) as u16) }
}

/// A slot is segment, sixteen bits of offset, tag.
pub(super) const TAG_SHIFT: u32 = SegmentId::BITS + 16;
pub(super) const TAG_BITS: u32 = 64 - TAG_SHIFT;
/// One in how many entries a shard of so many lines counts: a power of two.
#[inline]
pub(super) const fn sample(lines: usize) -> usize {
    // Of few, a sample says little.
    if lines < 32 {
        1
    } else if lines < 512 {
        8
    } else {
        32
    }
}
