//! What reporters and gateways say to each other: a pod's cache, change by change, by the router's own block hashes.
//!
//! Blocks go by their chain hash ([`kv_index::ChainHasher`]), so a gateway need not see tokens, and what it has applied
//! is all in the index's snapshot. The rule everything rests on: **a number is used once**. Within an incarnation
//! (one life of a worker's reporter) reports and inventories share one numbering from 0, and a message sent again under its
//! number is the same message. So a gateway that has passed a number may ignore it, and one that has not must not.
//!
//! # The protocol
//!
//! | message | number | meaning |
//! |---|---|---|
//! | [`Report`] | its own | these changes happened after message `sequence - 1`, and before `sequence + 1` |
//! | [`Inventory`] | its own | whatever happened before `sequence`: now the cache is exactly this |
//! | [`DigestReport`] | none | after all messages below `sequence`, the cache has this digest |
//!
//! 1. A gateway applies a report only if its number is the next one. A lower one is a `duplicate`; a higher one is a
//!    `gap`, and nothing of it is applied.
//! 2. It compares a digest only if `sequence` is the number it expects next: then it has applied exactly what the
//!    digest is of. If messages are missing that is a `gap`; if it is further already, the digest is old and `passed`.
//! 3. On `gap` and on `mismatch` the worker sends an inventory, under its next number. A gateway takes one whose number
//!    it has not passed, whatever is missing before it, and goes on after it.
//! 4. An inventory travels in parts that share its number, in order, with nothing between them; each but the last
//!    is answered `partial`. The gateway applies it when it has the last part. If it does not have the parts before
//!    (it was restarted), that is a `gap`, and the worker takes a new inventory.
//! 5. A report of a higher incarnation means that the worker started anew: the gateway forgets the pod's blocks. An
//!    inventory of one takes their place; a digest of one changes nothing and is a `gap`. A lower one is `stale`. A worker
//!    whose clock went back sees that, takes a higher incarnation and sends an inventory; two workers of one
//!    name do so in turns, more and more seldom, until an operator ends one.
//! 6. Both ends must cut and hash prompts alike. Reports and inventories say how theirs were ([`Hashing`]); if the gateway does it
//!    otherwise, they are refused.
//! 7. A message without an answer is sent again, under its number. A digest is not numbered and is made anew.
//!
//! A stream that keeps messages for many gateways (NATS JetStream) answers `taken`; those gateways speak up by
//! themselves when they are missing something ([`Resync`]).
//!
//! # JSON
//!
//! Hashes are 16 lower-case hex digits and digests 32, since numbers lose bits elsewhere; sequences and incarnations
//! are numbers below 2^53. Unknown fields are refused. Every count has a bound ([`bounds`]).
//!
//! ```
//! use crate::wire::Report;
//!
//! let json = r#"{"pod":"a","incarnation":1,"sequence":0,"source":"copies","hashing":{"block_size":16,"probe":"00000000000000a0"},"changes":[
//!     {"stored":{"parent":"root","blocks":["00000000000000a1","00000000000000a2"],"tier":"gpu"}},
//!     {"removed":{"blocks":["00000000000000a2"],"tier":"gpu"}},
//!     "cleared"]}"#;
//! let report: Report = crate::wire::decode(json.as_bytes())?;
//! assert_eq!(report.changes.len(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bounds;
mod hex;
#[cfg(feature = "grpc")]
pub mod proto;

use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed, Digest, EventSemantics, Parent, Tier};
use serde::{Deserialize, Serialize};

pub use bounds::{DecodeError, Malformed, decode};

/// Changes of one pod's cache that travel under one number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "made by workers; a further field is a new protocol")]
pub struct Report {
    /// The pod's name, as the gateway's fleet has it.
    pub pod: String,
    /// Which life of the worker's reporter; a later one has a higher number.
    pub incarnation: u64,
    /// The report's own number.
    pub sequence: u64,
    /// How its blocks came to be.
    pub hashing: Hashing,
    /// What the changes count.
    #[serde(with = "hex::source")]
    pub source: EventSemantics,
    /// In the order they happened.
    pub changes: Vec<Change>,
}

/// How prompts become blocks. Where two ends differ, they have no block in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "made by workers; a further field is a new protocol")]
pub struct Hashing {
    /// Tokens in a block.
    pub block_size: u32,
    /// What the prompt of the tokens 0, 1, 2 and so on has as its first block: another model's name, seed or rule
    /// makes another one.
    #[serde(with = "hex::hash")]
    pub probe: BlockHash,
}

impl Hashing {
    /// The router's own, for a model of this name.
    ///
    /// # Examples
    ///
    /// ```
    /// use kv_index::BlockSize;
    /// use crate::wire::Hashing;
    ///
    /// let size = BlockSize::new(16).expect("not zero");
    /// assert_ne!(Hashing::native("llama", size), Hashing::native("qwen", size));
    /// ```
    #[must_use]
    pub fn native(model: &str, size: BlockSize) -> Self {
        let tokens = size.tokens() as u32;
        let prompt: Vec<u32> = (0..tokens).collect();
        let probe = ChainHasher::new(ChainSeed::new(model), size).hash(&prompt)[0];
        Self { block_size: tokens, probe }
    }
}

/// One change of a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(clippy::exhaustive_enums, reason = "the vocabulary of every source; a fourth kind is a new protocol")]
pub enum Change {
    /// Blocks that follow each other came.
    Stored {
        /// What the first of them follows.
        #[serde(with = "hex::parent")]
        parent: Parent,
        /// In the chain's order.
        #[serde(with = "hex::hashes")]
        blocks: Vec<BlockHash>,
        /// Where they are now.
        #[serde(with = "hex::tier")]
        tier: Tier,
    },
    /// Blocks left, in any order.
    Removed {
        /// The blocks.
        #[serde(with = "hex::hashes")]
        blocks: Vec<BlockHash>,
        /// Where they were.
        #[serde(with = "hex::tier")]
        tier: Tier,
    },
    /// Everything left.
    Cleared,
}

impl Change {
    /// Blocks it names.
    #[must_use]
    pub fn blocks(&self) -> &[BlockHash] {
        match self {
            Self::Stored { blocks, .. } | Self::Removed { blocks, .. } => blocks,
            Self::Cleared => &[],
        }
    }
}

/// What a pod's cache comes to after all messages below `sequence`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "made by workers; a further field is a new protocol")]
pub struct DigestReport {
    /// The pod's name.
    pub pod: String,
    /// Which life of the worker's reporter.
    pub incarnation: u64,
    /// The number of the next message to be sent.
    pub sequence: u64,
    /// The cache's digest.
    #[serde(with = "hex::digest")]
    pub digest: Digest,
}

/// One part of everything a pod's cache has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "made by workers; a further field is a new protocol")]
pub struct Inventory {
    /// The pod's name.
    pub pod: String,
    /// Which life of the worker's reporter.
    pub incarnation: u64,
    /// The inventory's own number, the same in all its parts.
    pub sequence: u64,
    /// How its blocks came to be.
    pub hashing: Hashing,
    /// Which part this is, from 0.
    pub part: u32,
    /// How many parts there are; at least one.
    pub parts: u32,
    /// Parents before children, where possible: the index then learns every position at once.
    pub blocks: Vec<HeldBlock>,
}

/// A block in one tier of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "made by workers; a further field is a new protocol")]
pub struct HeldBlock {
    /// The block.
    #[serde(with = "hex::hash")]
    pub hash: BlockHash,
    /// What it follows.
    #[serde(with = "hex::parent")]
    pub parent: Parent,
    /// Where it is.
    #[serde(with = "hex::tier")]
    pub tier: Tier,
    /// How many physical copies there are, at least one; a membership source says 1.
    pub copies: u32,
}

impl HeldBlock {
    /// One copy in GPU memory.
    #[must_use]
    pub const fn new(hash: BlockHash, parent: Parent) -> Self {
        Self { hash, parent, tier: Tier::Gpu, copies: 1 }
    }
}

/// Anything a worker sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(clippy::exhaustive_enums, reason = "the messages of the protocol: a further one is a new protocol")]
pub enum Message {
    /// Changes.
    Report(Report),
    /// A digest of it all.
    Digest(DigestReport),
    /// A part of it all.
    Inventory(Inventory),
}

impl Message {
    /// The pod it is about.
    #[must_use]
    pub fn pod(&self) -> &str {
        match self {
            Self::Report(report) => &report.pod,
            Self::Digest(digest) => &digest.pod,
            Self::Inventory(inventory) => &inventory.pod,
        }
    }

    /// Its incarnation and number; a digest's number is that of the message after it.
    #[must_use]
    pub fn number(&self) -> (u64, u64) {
        match self {
            Self::Report(report) => (report.incarnation, report.sequence),
            Self::Digest(digest) => (digest.incarnation, digest.sequence),
            Self::Inventory(inventory) => (inventory.incarnation, inventory.sequence),
        }
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "read by workers; a further field is a new protocol")]
pub struct Answer {
    /// The verdict, which also says what to do next.
    pub verdict: Verdict,
    /// Blocks that did not fit the gateway's index. Its digest will differ as long as that is so.
    #[serde(default)]
    pub refused: u64,
}

impl Answer {
    /// An answer with nothing refused.
    #[must_use]
    pub const fn new(verdict: Verdict) -> Self {
        Self { verdict, refused: 0 }
    }
}

/// What a gateway says to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the answers of the protocol: a further one is a new protocol")]
pub enum Verdict {
    /// It was the next one, and was applied.
    Applied,
    /// Its number was passed before; nothing was changed.
    Duplicate,
    /// A part of an inventory was put aside; the next part is awaited.
    Partial,
    /// A stream keeps it for gateways that will read it.
    Taken,
    /// The digest is what the gateway has.
    InSync,
    /// The digest is of an earlier state than the gateway's; nothing was compared.
    Passed,
    /// Messages before it are missing; nothing was applied. Send an inventory.
    Gap,
    /// The digest is not what the gateway has. Send an inventory.
    Mismatch,
    /// A later life of the worker is known; nothing was changed. Take a higher incarnation, send an inventory.
    Stale,
}

impl Verdict {
    /// Whether the worker is asked for an inventory.
    #[must_use]
    pub const fn wants_inventory(self) -> bool {
        matches!(self, Self::Gap | Self::Mismatch | Self::Stale)
    }
}

/// A gateway that reads a stream asks a worker for an inventory.
///
/// Several gateways may ask for the same reason; an inventory of the number they name, or a later one, answers them all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "read by workers; a further field is a new protocol")]
pub struct Resync {
    /// The pod's name.
    pub pod: String,
    /// The incarnation of the message that showed the need.
    pub incarnation: u64,
    /// The first number under which an inventory will do.
    pub from: u64,
    /// Why.
    pub verdict: Verdict,
}

impl Resync {
    /// What to ask a worker for after this verdict on its message; nothing if nothing is missing.
    #[must_use]
    pub fn after(message: &Message, verdict: Verdict) -> Option<Self> {
        let (incarnation, number) = message.number();
        // A digest's number is still free; a report or an inventory has used its own.
        let from = if let Message::Digest(_) = message { number } else { number + 1 };
        verdict.wants_inventory().then(|| Self { pod: message.pod().to_owned(), incarnation, from, verdict })
    }
}

#[cfg(test)]
pub(crate) mod tests;
