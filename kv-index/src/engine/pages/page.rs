//! A page: its parent link and the hash of the index block that pages make up.

use smallvec::SmallVec;

use crate::blocks::chain::ChainHasher;
use crate::blocks::{BlockHash, EventSemantics, Parent, Tier};
use crate::engine::event::EngineHash;

/// A page of which the engine has a copy, or had one that others still hang under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// The chain up to and with this page, as far as it is whole blocks.
    pub(super) chain: Chain,
    /// Physical copies, tier by tier.
    pub(super) copies: [u16; 4],
    /// Which page of its block it is.
    pub(super) place: u16,
    /// The tiers in which the block it completes was told to be.
    pub(super) told: u8,
}

/// A chain's last whole block.
///
/// Pages before the first whole block remember what their chain begins with: the event that completes the block
/// need not say which namespace it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chain {
    Seed(BlockHash),
    Block(BlockHash),
}

impl Chain {
    pub(super) fn state(self) -> BlockHash {
        let (Self::Seed(state) | Self::Block(state)) = self;
        state
    }

    pub(super) fn parent(self) -> Parent {
        match self {
            Self::Seed(_) => Parent::Root,
            Self::Block(hash) => Parent::Block(hash),
        }
    }
}

impl Page {
    pub(super) fn as_before(self, id: EngineHash) -> Before {
        Before::Page { id, chain: self.chain, place: self.place }
    }
}

/// What a page's block needs to be put together.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) before: Option<EngineHash>,
    pub(super) tokens: SmallVec<[u32; 4]>,
    pub(super) keys: Vec<Vec<u8>>,
    /// Pages of the same block that come after this one.
    pub(super) after: SmallVec<[EngineHash; 1]>,
}

/// Pages that came, as one event tells them.
pub(in crate::engine) struct NewPages<'a> {
    pub(in crate::engine) names: &'a [EngineHash],
    pub(in crate::engine) before: Option<EngineHash>,
    /// All their tokens; none if the event brought none.
    pub(in crate::engine) tokens: Option<&'a [u32]>,
    pub(in crate::engine) tier: Tier,
    pub(in crate::engine) source: EventSemantics,
    /// The keys of each page, given how many tokens of its block come before it.
    pub(in crate::engine) keys: &'a dyn Fn(usize, usize) -> Vec<Vec<u8>>,
    pub(in crate::engine) naming: Naming<'a>,
}

/// What an eviction says of a page's copies in a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum CopiesLeft {
    /// One of them left.
    OneLess,
    /// So many are left.
    Known(u32),
    /// None are left, in no tier.
    NoneAnywhere,
}

/// How a block that its pages complete is called.
#[derive(Clone, Copy)]
pub(in crate::engine) enum Naming<'a> {
    /// By our own chain hash over the tokens.
    Native(&'a ChainHasher),
    /// As the engine calls its last page.
    Engine,
}

impl Naming<'_> {
    /// What stands before a chain's first block.
    pub(super) fn seed(self) -> BlockHash {
        match self {
            Self::Native(hasher) => hasher.start(),
            Self::Engine => BlockHash::new(0),
        }
    }
}

/// What a page follows.
#[derive(Clone, Copy)]
pub(super) enum Before {
    Root,
    Page { id: EngineHash, chain: Chain, place: u16 },
    Unknown,
}
