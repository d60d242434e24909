//! KV-cache events: blocks stored, blocks removed, all cleared.

use std::fmt;

use crate::blocks::{BlockHash, Location, Parent, Tier};

/// One change of one pod's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the vocabulary of every source; a fourth kind is a new contract")]
pub enum Event<'a> {
    /// Consecutive blocks came.
    Stored(Stored<'a>),
    /// Blocks left.
    Removed(Removed<'a>),
    /// Everything left.
    Cleared,
}

/// Consecutive blocks of one chain that came to a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// What the first block is stored under; each further block follows the one before.
    pub parent: Parent,
    /// The blocks, in the chain's order.
    pub blocks: &'a [BlockHash],
    /// Where they are now.
    pub tier: Tier,
    /// Where in the tier each block lies; empty if the source does not say.
    pub locations: &'a [Location],
}

impl<'a> Stored<'a> {
    /// Blocks in GPU memory, without locations.
    #[must_use]
    pub const fn new(parent: Parent, blocks: &'a [BlockHash]) -> Self {
        Self { parent, blocks, tier: Tier::Gpu, locations: &[] }
    }

    /// A whole prompt's blocks in GPU memory.
    #[must_use]
    pub const fn prompt(blocks: &'a [BlockHash]) -> Self {
        Self::new(Parent::Root, blocks)
    }

    /// The same blocks in another tier.
    #[must_use]
    pub const fn in_tier(self, tier: Tier) -> Self {
        Self { tier, ..self }
    }
}

/// Blocks that left a tier, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed<'a> {
    /// The blocks.
    pub blocks: &'a [BlockHash],
    /// Where they were.
    pub tier: Tier,
}

impl<'a> Removed<'a> {
    /// Blocks that left GPU memory.
    #[must_use]
    pub const fn new(blocks: &'a [BlockHash]) -> Self {
        Self { blocks, tier: Tier::Gpu }
    }
}

/// Watches what becomes of a pod's blocks, in the index's terms, under the pod's lock: it should be quick.
pub trait ChangeObserver: fmt::Debug + Send + Sync {
    /// An event was applied. Where all that was known is forgotten, by a restart or a gap, it is [`Event::Cleared`].
    fn changed(&self, event: &Event<'_>);

    /// Events were lost for good, those before the first one that could be had included: the engine may hold what is not
    /// known here.
    fn forgot(&self) {}

    /// Blocks of the stream will not be found by requests, and why.
    fn problem(&self, _problem: FeedProblem<'_>) {}

    /// Batches of the stream are missing, and those behind them wait; or none is missing any more.
    fn gap(&self, _is_open: bool) {}

    /// Whoever follows the stream is out of step with its engine, and how; or in step again. Not under the pod's lock.
    fn out_of_step(&self, _how: Option<OutOfStep>) {}
}

/// How a follower of a stream is out of step with its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutOfStep {
    /// There is no subscription.
    Disconnected,
    /// What is missing is being replayed, or asked for in vain.
    Replaying,
    /// The engine does not replay: what was missing is given up, and so will be what goes missing next.
    Lost,
}

/// What keeps an engine's blocks from being found.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum FeedProblem<'a> {
    /// The engine's blocks have another size than the index's.
    BlockSize {
        /// Tokens in a block of the engine's.
        engine: u32,
        /// Tokens in one of the index's.
        index: u32,
    },
    /// The engine hashes otherwise than requests are hashed for it: what differs, in words.
    Hashes(&'a dyn fmt::Display),
}

impl fmt::Debug for FeedProblem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockSize { engine, index } => write!(f, "BlockSize({engine}, not {index})"),
            Self::Hashes(why) => write!(f, "Hashes({why})"),
        }
    }
}

/// What a source's `Stored` and `Removed` count: presence of a block, or each physical copy (reference counting).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "presence or copies: complete by nature")]
pub enum EventSemantics {
    /// Whether a block is there: storing what is there and removing what is not change nothing.
    ///
    /// Idempotent per block.
    Membership,
    /// Each physical copy: a block leaves a tier when as many copies were removed as were stored.
    ///
    /// Idempotent per batch, by its sequence number (see [`Feed`](crate::Feed)).
    Copies,
}

/// What an event, a batch or an inventory changed on its pod, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplyStats {
    /// The pod did not hold them before.
    pub stored: usize,
    /// The pod held them already: another copy or tier, a repetition, or a speculation come true.
    pub already_held: usize,
    /// They did not fit ([`Config::max_blocks`](crate::Config::max_blocks) and its like), and everything after
    /// them in their event was left out with them.
    pub refused: usize,
    /// The pod holds them no longer.
    pub removed: usize,
    /// The pod still holds them, in another copy or tier.
    pub still_held: usize,
    /// There was nothing to remove.
    pub not_held: usize,
}

impl std::ops::AddAssign for ApplyStats {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.already_held += other.already_held;
        self.refused += other.refused;
        self.removed += other.removed;
        self.still_held += other.still_held;
        self.not_held += other.not_held;
    }
}
