//! What an engine tells of its cache, before it is written in anybody's language.

use kv_index::BlockHash;

/// A block as both sides call it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made and read in this crate only")]
pub struct Block {
    /// By the router's own chain hash.
    pub hash: BlockHash,
    /// By the engine: the last eight bytes of its digest.
    pub name: u64,
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

/// Where an engine's events go, step by step. Told from the engine's own task: must not block.
pub trait EventSink: Send + 'static {
    /// The changes of one step, in order; never empty.
    fn step(&mut self, events: &[CacheEvent]);

    /// The engine starts anew with an empty cache: a new life of the stream, numbered from the beginning.
    fn restarted(&mut self);
}
