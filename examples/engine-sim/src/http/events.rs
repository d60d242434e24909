//! Cache events of an engine, before they are encoded.

use kv_index::BlockHash;

/// A block under both hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made and read in this crate only")]
pub struct Block {
    /// The router's chain hash.
    pub hash: BlockHash,
    /// The engine's: the last eight bytes of its digest.
    pub engine_hash: u64,
}

/// A change of an engine's cache. One physical copy each time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "made and read in this crate only")]
pub enum CacheEvent {
    /// Blocks that follow each other were written.
    Stored {
        /// The block before the first one; none at the start of a prompt.
        parent: Option<Block>,
        /// In order.
        blocks: Vec<Block>,
        /// Their tokens, block by block without gaps.
        tokens: Vec<u32>,
        /// Tokens in a block.
        block_size: u32,
        /// What the prompt is kept apart by, if its first block is among these.
        salt: Option<String>,
    },
    /// A copy of a block was overwritten.
    Removed(Block),
    /// Everything was forgotten.
    Cleared,
}

/// Where an engine's events go, step by step. Called from the engine loop: must not block.
pub trait EventSink: Send + 'static {
    /// The changes of one step, in order; never empty.
    fn step(&mut self, events: &[CacheEvent]);

    /// The engine starts anew with an empty cache: a new incarnation of the stream, numbered from the beginning.
    fn restarted(&mut self);
}
