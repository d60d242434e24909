//! Wire types of the cache event protocol, serde form. The specification is `PROTOCOL.md`, below.
#![doc = include_str!("../PROTOCOL.md")]

pub mod bounds;
mod hex;
#[cfg(feature = "grpc")]
pub mod proto;

use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed, Digest, EventSemantics, Parent, Tier};
use serde::{Deserialize, Serialize};

pub use bounds::{DecodeError, Malformed, decode};

/// Cache events of one pod under one sequence number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "made by workers; a further field is a new protocol")]
pub struct EventBatch {
    /// The pod's name, as the gateway's fleet has it.
    pub pod: String,
    /// The incarnation of the worker's reporter; a later one is higher.
    pub incarnation: u64,
    /// The batch's sequence number.
    pub sequence: u64,
    /// How the blocks were hashed.
    pub hashing: HashScheme,
    /// What the events count: copies or membership.
    #[serde(with = "hex")]
    pub source: EventSemantics,
    /// In order of occurrence.
    pub changes: Vec<Change>,
}

/// How prompts become block hashes. Two ends with different schemes have no block in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "made by workers; a further field is a new protocol")]
pub struct HashScheme {
    /// Tokens in a block.
    pub block_size: u32,
    /// The first block hash of the prompt of tokens 0, 1, 2, …: another model name, seed or rule gives another probe.
    #[serde(with = "hex")]
    pub probe: BlockHash,
}

impl HashScheme {
    /// The router's own scheme for a model name.
    ///
    /// # Examples
    ///
    /// ```
    /// use kv_index::BlockSize;
    /// use pointsman_reporter::wire::HashScheme;
    ///
    /// let size = BlockSize::new(16).expect("not zero");
    /// assert_ne!(HashScheme::native("llama", size), HashScheme::native("qwen", size));
    /// ```
    #[must_use]
    pub fn native(model: &str, size: BlockSize) -> Self {
        let tokens = size.tokens() as u32;
        let prompt: Vec<u32> = (0..tokens).collect();
        let probe = ChainHasher::new(ChainSeed::new(model), size).hash(&prompt)[0];
        Self { block_size: tokens, probe }
    }
}

/// One cache event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(clippy::exhaustive_enums, reason = "the vocabulary of every source; a fourth kind is a new protocol")]
pub enum Change {
    /// Consecutive blocks were stored.
    Stored {
        /// The block before the first one.
        #[serde(with = "hex")]
        parent: Parent,
        /// In chain order.
        #[serde(with = "hex::list")]
        blocks: Vec<BlockHash>,
        /// The tier that holds them now.
        #[serde(with = "hex")]
        tier: Tier,
    },
    /// Blocks were evicted, in any order.
    Removed {
        /// The blocks.
        #[serde(with = "hex::list")]
        blocks: Vec<BlockHash>,
        /// The tier that held them.
        #[serde(with = "hex")]
        tier: Tier,
    },
    /// All blocks were evicted.
    Cleared,
}

impl Change {
    /// The blocks of the event.
    #[must_use]
    pub fn blocks(&self) -> &[BlockHash] {
        match self {
            Self::Stored { blocks, .. } | Self::Removed { blocks, .. } => blocks,
            Self::Cleared => &[],
        }
    }
}

/// The digest of a pod's cache after all messages below `sequence`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "made by workers; a further field is a new protocol")]
pub struct DigestMessage {
    /// The pod's name.
    pub pod: String,
    /// The incarnation of the worker's reporter.
    pub incarnation: u64,
    /// The sequence number of the next batch or inventory.
    pub sequence: u64,
    /// The cache's digest.
    #[serde(with = "hex")]
    pub digest: Digest,
}

/// One part of a pod's whole cache content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "made by workers; a further field is a new protocol")]
pub struct Inventory {
    /// The pod's name.
    pub pod: String,
    /// The incarnation of the worker's reporter.
    pub incarnation: u64,
    /// The inventory's sequence number, the same in all its parts.
    pub sequence: u64,
    /// How the blocks were hashed.
    pub hashing: HashScheme,
    /// Index of this part, from 0.
    pub part: u32,
    /// Count of parts, at least one.
    pub parts: u32,
    /// Parents before children where possible, so that the index learns every position at once.
    pub blocks: Vec<InventoryEntry>,
}

/// A block in one tier of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "made by workers; a further field is a new protocol")]
pub struct InventoryEntry {
    /// The block.
    #[serde(with = "hex")]
    pub hash: BlockHash,
    /// The block before it.
    #[serde(with = "hex")]
    pub parent: Parent,
    /// The tier that holds it.
    #[serde(with = "hex")]
    pub tier: Tier,
    /// Physical copies, at least one; always 1 for a membership source.
    pub copies: u32,
}

impl InventoryEntry {
    /// One copy in GPU memory.
    #[must_use]
    pub const fn new(hash: BlockHash, parent: Parent) -> Self {
        Self { hash, parent, tier: Tier::Gpu, copies: 1 }
    }
}

/// Any message of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(clippy::exhaustive_enums, reason = "the messages of the protocol: a further one is a new protocol")]
pub enum Message {
    /// Cache events.
    #[serde(rename = "report")]
    Batch(EventBatch),
    /// A digest.
    Digest(DigestMessage),
    /// A part of an inventory.
    Inventory(Inventory),
}

impl Message {
    /// The pod it is about.
    #[must_use]
    pub fn pod(&self) -> &str {
        match self {
            Self::Batch(batch) => &batch.pod,
            Self::Digest(digest) => &digest.pod,
            Self::Inventory(inventory) => &inventory.pod,
        }
    }

    /// Its incarnation and sequence number; a digest's is that of the next message.
    #[must_use]
    pub fn position(&self) -> (u64, u64) {
        match self {
            Self::Batch(batch) => (batch.incarnation, batch.sequence),
            Self::Digest(digest) => (digest.incarnation, digest.sequence),
            Self::Inventory(inventory) => (inventory.incarnation, inventory.sequence),
        }
    }
}

/// The acknowledgement of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "read by workers; a further field is a new protocol")]
pub struct Ack {
    /// The result, which also says what to send next.
    #[serde(rename = "verdict")]
    pub status: AckStatus,
    /// Blocks rejected because the gateway's index is full. Its digest differs as long as that is so.
    #[serde(default)]
    pub refused: u64,
}

impl Ack {
    /// An acknowledgement with no rejected blocks.
    #[must_use]
    pub const fn new(status: AckStatus) -> Self {
        Self { status, refused: 0 }
    }
}

/// The result of a message at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the answers of the protocol: a further one is a new protocol")]
pub enum AckStatus {
    /// It was next in sequence, and was applied.
    Applied,
    /// Its sequence number is below the expected one; nothing changed.
    Duplicate,
    /// A part of an inventory was buffered; the next part is awaited.
    Partial,
    /// A stream stores it for gateways that will read it.
    Taken,
    /// The digest equals the gateway's.
    InSync,
    /// The digest is of an earlier state than the gateway's; nothing was compared.
    Passed,
    /// Messages before it are missing; nothing was applied. Send an inventory.
    Gap,
    /// The digest differs from the gateway's. Send an inventory.
    Mismatch,
    /// A later incarnation is known; nothing changed. Take a higher incarnation and send an inventory.
    Stale,
}

impl AckStatus {
    /// Every status, in the order of their numbers in Protocol Buffers, from 1.
    #[cfg(any(test, feature = "grpc"))]
    pub(crate) const ALL: [Self; 9] = [
        Self::Applied,
        Self::Duplicate,
        Self::Partial,
        Self::Taken,
        Self::InSync,
        Self::Passed,
        Self::Gap,
        Self::Mismatch,
        Self::Stale,
    ];

    /// Whether the worker has to send an inventory.
    #[must_use]
    pub const fn needs_inventory(self) -> bool {
        matches!(self, Self::Gap | Self::Mismatch | Self::Stale)
    }
}

/// A stream consumer's request for an inventory.
///
/// Several gateways may send it for the same reason; one inventory with sequence number `from` or above serves them all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "read by workers; a further field is a new protocol")]
pub struct ResyncRequest {
    /// The pod's name.
    pub pod: String,
    /// The incarnation of the message that showed the need.
    pub incarnation: u64,
    /// The lowest sequence number of an inventory that serves it.
    pub from: u64,
    /// The reason.
    #[serde(rename = "verdict")]
    pub status: AckStatus,
}

impl ResyncRequest {
    /// The request that follows from the status of a message, if one does.
    #[must_use]
    pub fn after(message: &Message, status: AckStatus) -> Option<Self> {
        let (incarnation, sequence) = message.position();
        // A digest's sequence number is still free; a batch or an inventory has used its own.
        let from = if let Message::Digest(_) = message { sequence } else { sequence + 1 };
        status.needs_inventory().then(|| Self { pod: message.pod().to_owned(), incarnation, from, status })
    }
}

#[cfg(test)]
mod protocol_md;
#[cfg(test)]
pub(crate) mod tests;
