//! What came of a message: batch outcome, replay request, hash mismatch, or the error.

use crate::engine::decode::DecodeError;
use crate::engine::frames::FrameError;
#[cfg(feature = "trtllm")]
use crate::engine::json::JsonError;
use crate::engine::verify::HashMismatch;
use crate::feeds::BatchOutcome;
use crate::pods::PodRetired;

/// What became of a batch, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// What became of it.
    pub outcome: BatchOutcome,
    /// Ask the engine's replay socket for everything from this sequence on
    /// ([`replay_request`](crate::engine::replay_request)). If that fails, say so by [`EngineFeed::replay_failed`](super::EngineFeed::replay_failed).
    pub replay_from: Option<u64>,
    /// The engine announced a hash that its dialect does not give: the first time it did so, or for a new cause.
    pub mismatch: Option<Box<HashMismatch>>,
}

/// What a reply of the replay socket came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replayed {
    /// One batch of the past.
    Batch(Received),
    /// The replay is over.
    End {
        /// Something is still missing: ask again from here.
        replay_from: Option<u64>,
    },
}

/// Why a message came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The frames are not those of an engine's message. The host connected to something else.
    #[error("frames that are no engine's message")]
    Frames(#[from] FrameError),
    /// The payload is damaged, or of a release this build does not know. A live batch is left out, and asked for
    /// again by the gap it leaves; a replayed one cannot come again, so the pod's state was forgotten.
    #[error("batch {sequence} cannot be decoded")]
    Decode {
        /// The batch's number.
        sequence: u64,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The body is no list of TensorRT-LLM's events. The host asked something else.
    #[cfg(feature = "trtllm")]
    #[error("a body that is no list of events")]
    Json(#[from] JsonError),
    /// The engine's blocks are not the index's. An operator makes the two equal, or lets smaller pages accumulate.
    /// Nothing was changed, except that what an engine held before it started anew is forgotten.
    #[error("pod `{pod}` has blocks of {engine} tokens, the index of {index}")]
    BlockSize {
        /// The pod's name.
        pod: Box<str>,
        /// Tokens in a block of the engine.
        engine: u32,
        /// Tokens in a block of the index.
        index: u32,
    },
    /// The pod is retired. The host can stop listening.
    #[error(transparent)]
    PodRetired(#[from] PodRetired),
}

impl Received {
    pub(super) fn of(outcome: BatchOutcome) -> Self {
        Self { outcome, replay_from: None, mismatch: None }
    }
}
