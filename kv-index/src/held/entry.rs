//! Packed map entry: a block's position and state in one word.

use crate::runs::{Place, RunId};

/// One held block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Where it is; none if the pod holds it apart from what it follows.
    pub(crate) place: Option<Place>,
    pub(crate) state: State,
}

impl Held {
    #[inline]
    pub(super) fn pack(self) -> u64 {
        self.place.map_or(0, pack_place) | u64::from(self.state.0) << STATE_SHIFT
    }

    #[inline]
    pub(super) fn unpack(word: u64) -> Self {
        let run = RunId::from_raw((word & ((1 << RunId::BITS) - 1)) as u32);
        let place = run.map(|run| Place { run, offset: u32::from((word >> RunId::BITS) as u16) });
        Self { place, state: State((word >> STATE_SHIFT) as u8) }
    }
}

/// Tiers that hold a block, and what else there is to know about it, in a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State(pub(super) u8);

impl State {
    /// The block has an entry among the pod's details: several copies, or a location.
    pub(crate) const DETAILED: Self = Self(1 << 4);
    /// No engine has confirmed the block.
    pub(crate) const SPECULATED: Self = Self(1 << 5);
    /// Sources contradicted each other about the parent: whatever is said of it from now on is not believed.
    pub(crate) const CONTRADICTED: Self = Self(1 << 6);

    pub(crate) const fn tiers(self) -> u8 {
        self.0 & 0xF
    }

    /// Whether an engine has the block in these tiers, and whatever else there is to know, it is not speculated.
    pub(crate) const fn is_plainly_in(self, tiers: u8) -> bool {
        self.0 & (tiers | Self::SPECULATED.0) == tiers
    }

    pub(crate) const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub(crate) const fn with(self, flag: Self) -> Self {
        Self(self.0 | flag.0)
    }

    pub(crate) const fn without(self, flag: Self) -> Self {
        Self(self.0 & !flag.0)
    }

    pub(crate) const fn with_tiers(self, tiers: u8) -> Self {
        Self(self.0 & !0xF | tiers)
    }
}

#[inline]
pub(super) fn pack_place(at: Place) -> u64 {
    u64::from(at.run.raw()) | u64::from(at.offset) << RunId::BITS
}

/// The state follows the run and sixteen bits of offset.
const STATE_SHIFT: u32 = RunId::BITS + 16;
/// Bits of an entry.
pub(super) const BITS: u32 = STATE_SHIFT + 8;
