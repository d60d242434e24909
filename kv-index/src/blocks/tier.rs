//! Storage tiers and locations of blocks.

/// A kind of memory that holds cached blocks, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "four bits of every held block's state; a fifth tier is a new layout")]
pub enum Tier {
    /// The GPU's own memory.
    Gpu,
    /// Host memory, pinned or not.
    Host,
    /// A local disk.
    Disk,
    /// A store shared with other hosts.
    Remote,
}

impl Tier {
    /// Every tier, fastest first.
    pub const ALL: [Self; 4] = [Self::Gpu, Self::Host, Self::Disk, Self::Remote];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Where in its tier a block lies, if the source says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// The device within the tier.
    pub device: u32,
    /// Bytes from the start of the device's cache.
    pub offset: u64,
    /// Bytes the block takes.
    pub length: u64,
}
