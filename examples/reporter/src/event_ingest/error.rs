//! Ingestion errors, with their HTTP status.

use http::StatusCode;
use kv_index::PodRetired;

use crate::wire::{HashScheme, Malformed};

/// Why a message was rejected. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// Out of bounds. The worker's author can act.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// No pod of this name is in the fleet. An operator adds it, or corrects the worker's configuration.
    #[error("no pod named `{0}` in the fleet")]
    UnknownPod(String),
    /// The pod has another event source, and two would undo each other's work. An operator stops the worker's reporter, or
    /// configures the pod's events as `pushed`.
    #[error("pod `{0}` takes no pushed events: its `events` are not `pushed`")]
    NotPushed(String),
    /// The worker cuts prompts into other blocks. An operator makes both the same.
    #[error("blocks of {found} tokens, this gateway's have {expected}")]
    BlockSize {
        /// The worker's.
        found: u32,
        /// The gateway's.
        expected: u32,
    },
    /// The worker hashes blocks differently. An operator gives both the same model name.
    #[error(
        "blocks are hashed differently: the probe is {}, this gateway's is {}; model names, seeds or releases differ",
        found.probe, expected.probe
    )]
    HashScheme {
        /// The worker's.
        found: HashScheme,
        /// The gateway's.
        expected: HashScheme,
    },
    /// Unfinished inventories of other pods have the room. The worker tries again: they come in, or are dropped.
    #[error("unfinished inventories have as many blocks as they may, {limit} together")]
    NoRoom {
        /// The bound in blocks.
        limit: usize,
    },
    /// The pod left the fleet at this very moment. If it is to come back, the worker tries again.
    #[error("the pod left the fleet: {0}")]
    PodRetired(#[from] PodRetired),
}

impl IngestError {
    /// The status of an HTTP answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(Malformed::Changes { .. } | Malformed::Blocks { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::UnknownPod(_) => StatusCode::NOT_FOUND,
            Self::NotPushed(_) | Self::BlockSize { .. } | Self::HashScheme { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NoRoom { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::PodRetired(_) => StatusCode::CONFLICT,
        }
    }
}
