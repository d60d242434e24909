//! Engine events, decoded: vLLM's `BlockStored`, `BlockRemoved`, `AllBlocksCleared` and their like, every field that
//! any listed release sends.
//!
//! Strings borrow from the payload where they can. Which events mean something for the index is the
//! normalizer's business, not the decoder's.

use std::borrow::Cow;
use std::fmt;

use super::named::named;
use crate::blocks::BlockHash;

/// Events that an engine published together.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EngineBatch<'a> {
    /// When it was published, in the engine's own seconds. A replayed batch has the one it had first.
    pub timestamp: f64,
    /// The data-parallel rank that published it, if it says.
    pub rank: Option<u32>,
    /// The events that were understood, in order.
    pub events: Vec<EngineEvent<'a>>,
    /// Events of a type that no listed release has.
    pub unknown: u32,
    /// Events of a known type that do not have its form.
    pub malformed: u32,
    /// The first of those, and where it is.
    pub fault: Option<EventFault>,
}

/// What is wrong with a malformed event, and where in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event at byte {at}: {field} is {problem}")]
pub struct EventFault {
    /// Offset of the event in the payload.
    pub at: usize,
    /// The field, by the engines' name for it.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: FieldProblem,
}

named! {
    /// What is wrong with a field.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum FieldProblem {
        /// It has to be there.
        Missing => "missing",
        /// It is of another type than it should be.
        WrongType => "of the wrong type",
        /// It is a number outside the range that makes sense.
        OutOfRange => "out of range",
    }
}

/// One thing an engine announced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineEvent<'a> {
    /// Blocks were cached.
    Stored(EngineStored<'a>),
    /// Blocks were evicted.
    Removed(EngineRemoved<'a>),
    /// The whole cache was emptied.
    Cleared,
    /// A block went from one medium to another (TensorRT-LLM).
    Moved(EngineMoved<'a>),
    /// A pool was set up (TensorRT-LLM).
    Created(EngineCreated),
}

/// Blocks that were cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host may build one from a source we do not decode")]
pub struct EngineStored<'a> {
    /// The blocks, in the chain's order; for sparse groups only those that were kept.
    pub hashes: Vec<EngineHash>,
    /// The block before the first.
    pub parent: Option<EngineHash>,
    /// The token ids of the whole stretch, or none.
    pub tokens: TokenIds,
    /// Tokens of a block; 0 in placeholders.
    pub block_size: u32,
    /// Where the blocks are, in the engine's word.
    pub medium: Option<Cow<'a, str>>,
    /// The adapter's number, if the engine has one.
    pub lora_id: Option<i64>,
    /// The adapter's name.
    pub lora_name: Option<Cow<'a, str>>,
    /// The cache salt, where the engine names it in a field of its own.
    pub salt: Option<Cow<'a, str>>,
    /// What went into each hash besides the tokens: one list a block, or empty if none was sent.
    pub extra_keys: Vec<Vec<ExtraKey<'a>>>,
    /// The cache group, in models that have several.
    pub group: Option<u32>,
    /// The group's kind of attention.
    pub kind: Option<Cow<'a, str>>,
    /// The group's window in tokens, if it is sliding.
    pub window: Option<u32>,
    /// `LOCAL` or `REMOTE`, if the engine says.
    pub locality: Option<Cow<'a, str>>,
    /// Who owns the blocks, if the engine says.
    pub ownership: Option<Cow<'a, str>>,
    /// The session the blocks belong to, if the engine says.
    pub session: Option<Cow<'a, str>>,
}

/// Blocks that were evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host may build one from a source we do not decode")]
pub struct EngineRemoved<'a> {
    /// The blocks, in no particular order.
    pub hashes: Vec<EngineHash>,
    /// Where they were, in the engine's word.
    pub medium: Option<Cow<'a, str>>,
    /// The cache group, in models that have several.
    pub group: Option<u32>,
    /// The group's window in tokens (TensorRT-LLM).
    pub window: Option<u32>,
    /// `LOCAL` or `REMOTE`, if the engine says.
    pub locality: Option<Cow<'a, str>>,
    /// Who owned the blocks, if the engine says.
    pub ownership: Option<Cow<'a, str>>,
    /// Physical copies that are left of each block, or empty if the engine does not say.
    pub remaining: Vec<u32>,
}

/// A block that went from one medium to another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host may build one from a source we do not decode")]
pub struct EngineMoved<'a> {
    /// The block.
    pub hash: EngineHash,
    /// Where it was.
    pub from: Cow<'a, str>,
    /// Where it is.
    pub to: Cow<'a, str>,
    /// The group's window in tokens.
    pub window: Option<u32>,
}

/// A pool that was set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host may build one from a source we do not decode")]
pub struct EngineCreated {
    /// Blocks in each level of the cache.
    pub blocks_per_level: Vec<u64>,
    /// The window in tokens of the layers it serves.
    pub window: Option<u32>,
}

/// A block's name as its engine announces it, in 64 bits.
///
/// Signed numbers keep their bits. Of bytes, the last eight count, big endian, as in vLLM's own short form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EngineHash(u64);

impl EngineHash {
    /// From an unsigned number.
    #[must_use]
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// From a signed number: the same 64 bits.
    #[must_use]
    pub const fn from_signed(raw: i64) -> Self {
        Self(raw as u64)
    }

    /// From a digest's bytes; none if there are fewer than eight.
    #[must_use]
    pub fn from_bytes(digest: &[u8]) -> Option<Self> {
        digest.last_chunk::<8>().map(|last| Self(u64::from_be_bytes(*last)))
    }

    /// The name as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<EngineHash> for BlockHash {
    fn from(hash: EngineHash) -> Self {
        Self::new(hash.0)
    }
}

impl fmt::Debug for EngineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{:x}", self.0)
    }
}

/// The token ids of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenIds {
    /// One id a token.
    Plain(Vec<u32>),
    /// Each token with the one after it, as SGLang sends under EAGLE.
    Pairs(Vec<[u32; 2]>),
    /// Ids that do not fit in 32 bits; that many.
    Wide(usize),
}

impl TokenIds {
    /// Tokens, or pairs of them.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(ids) => ids.len(),
            Self::Pairs(pairs) => pairs.len(),
            Self::Wide(count) => *count,
        }
    }

    /// Whether none were sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps only the first `len`.
    pub fn truncate(&mut self, len: usize) {
        match self {
            Self::Plain(ids) => ids.truncate(len),
            Self::Pairs(pairs) => pairs.truncate(len),
            Self::Wide(count) => *count = len.min(*count),
        }
    }
}

impl Default for TokenIds {
    fn default() -> Self {
        Self::Plain(Vec::new())
    }
}

/// Something besides the tokens that went into a block's hash, as events carry it: without a tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExtraKey<'a> {
    /// An adapter's name, a cache salt, or in old releases a media item.
    Text(Cow<'a, str>),
    /// A media item and where it begins, counted from the block's start.
    Media {
        /// What the engine calls the item: a hash of its content.
        identifier: Cow<'a, str>,
        /// Negative if it began before the block.
        offset: i64,
    },
    /// A digest of prompt embeddings.
    Digest(Cow<'a, [u8]>),
    /// An adapter's number, as old releases have it.
    Number(i64),
    /// Something no listed release sends.
    Other,
}
