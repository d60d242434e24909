//! State byte of a block on a pod: tiers, and what else there is to know.

/// Tiers that hold a block, and what else there is to know about it, in a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State(u8);

impl State {
    /// One copy in GPU memory: most blocks are like that.
    pub(crate) const PLAIN: Self = Self(1);
    /// The block has an entry among the pod's details: several copies, or a location.
    pub(crate) const DETAILED: Self = Self(1 << 4);
    /// No engine has confirmed the block.
    pub(crate) const SPECULATED: Self = Self(1 << 5);

    pub(crate) const fn tiers(self) -> u8 {
        self.0 & 0xF
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

const _: () = assert!(State::PLAIN.tiers() == crate::blocks::Tier::Gpu.bit());
