//! A block's position: its segment, by name, and its offset there.

/// The name of a segment. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentId(u32);

impl SegmentId {
    /// Bits an id takes: a segment has a block, of which `Config` allows 2^24.
    pub(crate) const BITS: u32 = 25;

    pub(crate) const fn from_raw(raw: u32) -> Option<Self> {
        if raw == 0 { None } else { Some(Self(raw)) }
    }

    /// The name in the low bits of a word, which is not that of nothing.
    pub(crate) const fn from_low_bits(word: u64) -> Self {
        Self((word & ((1 << Self::BITS) - 1)) as u32)
    }

    pub(crate) const fn raw(self) -> u32 {
        self.0
    }
}

/// A block's place: its segment and how many blocks of the segment come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPosition {
    pub(crate) segment: SegmentId,
    pub(crate) offset: u32,
}

impl BlockPosition {
    pub(crate) fn plus(self, blocks: usize) -> Self {
        Self { offset: self.offset + blocks as u32, ..self }
    }
}
