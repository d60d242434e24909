//! Configuration of an engine's event feed.

use std::sync::Arc;

use crate::blocks::chain::ChainSeed;
use crate::blocks::{BlockSize, ChangeObserver, EventSemantics};
use crate::engine::translate::HashMode;
use crate::engine::verify::VerifyConfig;
use crate::index::streams::StreamId;

/// How an engine's stream is to be read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineFeedConfig {
    /// Which stream of the pod.
    pub stream: StreamId,
    /// The number of an incarnation's first batch: 0 in the engines.
    pub first_sequence: u64,
    /// What the index calls the blocks.
    pub mode: HashMode,
    /// Tokens in a block of the index.
    pub block_size: BlockSize,
    /// Whether smaller pages of the engine may make up a block of the index. Prompt embeddings then match nothing.
    pub accumulate: bool,
    /// What the engine's events count: [`Copies`](EventSemantics::Copies) where it announces the eviction of every copy of a
    /// block, as vLLM does up to 0.32, [`Membership`](EventSemantics::Membership) where only that of the last one
    /// (vllm#55092). Evictions that say how many copies are left (`remaining_copy_counts`, vllm#48933) are believed
    /// whatever this is.
    pub semantics: EventSemantics,
    /// The data-parallel rank the pod stands for; batches of other ranks are left out. None takes any.
    pub rank: Option<u32>,
    /// Whether the engine has a replay socket to ask, and keeps its last batch at least. Without one a gap costs the pod's
    /// state.
    pub replay: bool,
    /// Pages that may be in the map of names at once. What does not fit is left out and counted.
    pub max_pages: usize,
    /// Whether and how the engine's hashes are checked.
    pub verify: Option<VerifyConfig>,
    /// Is told of every change that is applied.
    pub observer: Option<Arc<dyn ChangeObserver>>,
}

impl EngineFeedConfig {
    /// Token mode: blocks are called by our own hash of their tokens.
    #[must_use]
    pub fn tokens(model: ChainSeed, block_size: BlockSize) -> Self {
        Self::new(HashMode::Tokens(model), block_size)
    }

    /// Engine mode: blocks are called as the engine does, and requests are hashed in its dialect.
    #[must_use]
    pub fn engine_hashes(block_size: BlockSize) -> Self {
        Self::new(HashMode::EngineHashes, block_size)
    }

    pub(in crate::engine) fn new(mode: HashMode, block_size: BlockSize) -> Self {
        Self {
            stream: StreamId::default(),
            first_sequence: 0,
            mode,
            block_size,
            accumulate: false,
            semantics: EventSemantics::Copies,
            rank: None,
            replay: true,
            max_pages: 8 << 20,
            verify: None,
            observer: None,
        }
    }
}
