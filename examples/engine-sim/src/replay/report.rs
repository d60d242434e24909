//! An engine's events as it owns them, and the numbered packets in which they travel.

use kv_index::{BlockHash, Event, Parent, Removed, Stored};

/// One change of an engine's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// Consecutive blocks came, one new copy of each.
    Stored {
        /// What the first of them follows.
        parent: Parent,
        /// The blocks, in the chain's order.
        blocks: Vec<BlockHash>,
    },
    /// One copy of a block left.
    Removed(BlockHash),
    /// The engine has nothing.
    Cleared,
}

impl Report {
    /// The same, borrowed, as the index takes it.
    #[must_use]
    pub fn event(&self) -> Event<'_> {
        match self {
            Self::Stored { parent, blocks } => Event::Stored(Stored::new(*parent, blocks)),
            Self::Removed(hash) => Event::Removed(Removed::new(std::slice::from_ref(hash))),
            Self::Cleared => Event::Cleared,
        }
    }
}

/// Reports that travel together under one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Which life of the engine.
    pub incarnation: u64,
    /// The packet's number in that life, from 0.
    pub sequence: u64,
    /// What happened, in order.
    pub reports: Vec<Report>,
}
