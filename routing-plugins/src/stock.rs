//! What stock plugins share with their host: the index, the load, the open circuits.

use std::sync::Arc;

use kv_index::{BlockSize, Index};
use routing_core::Circuits;

#[cfg(any(feature = "vllm", feature = "sglang", feature = "trtllm"))]
use crate::engine_hashing::EngineHashing;
use crate::load::LoadTracker;

/// What a host owns and stock plugins read.
///
/// The index and how prompts are hashed belong together: hashes of another kind match nothing, silently.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stock<const W: usize = 4> {
    /// Which pods hold which blocks.
    pub index: Arc<Index<W>>,
    /// How prompts become the hashes that are in the index.
    pub hashing: Hashing,
    /// What was sent to each pod and is not done.
    pub load: Arc<LoadTracker<W>>,
    /// The pods that are given nothing for now.
    pub circuits: Arc<Circuits<W>>,
}

impl<const W: usize> Stock<W> {
    /// What plugins share, around an index.
    #[must_use]
    pub fn new(index: Arc<Index<W>>, hashing: Hashing) -> Self {
        Self { index, hashing, load: Arc::default(), circuits: Arc::default() }
    }
}

/// How prompts become the hashes that are in the index.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Hashing {
    /// By the native chain hash, in blocks of this size: the index is fed tokens, or by prediction.
    Native(BlockSize),
    /// By an engine's own rules: the index is fed its hashes.
    #[cfg(any(feature = "vllm", feature = "sglang", feature = "trtllm"))]
    Engine(Arc<EngineHashing>),
}
