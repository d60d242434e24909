//! Why a message is not taken, and what that is in HTTP.

use http::StatusCode;
use kv_index::PodRetired;

use crate::wire::{Hashing, Malformed};

/// Why a message was not taken. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Out of bounds. The worker's author can act.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// No pod of this name is in the fleet. An operator adds it, or corrects the worker's configuration.
    #[error("no pod named `{0}` in the fleet")]
    UnknownPod(String),
    /// The pod's events come in another way, and two would undo each other's work. An operator stops the worker's reporter, or
    /// configures the pod's events as `pushed`.
    #[error("pod `{0}` is not configured to be reported on: its `events` are not `pushed`")]
    NotReported(String),
    /// The worker cuts prompts into other blocks. An operator makes both the same.
    #[error("blocks of {found} tokens, this gateway's have {expected}")]
    BlockSize {
        /// The worker's.
        found: u32,
        /// The gateway's.
        expected: u32,
    },
    /// The worker hashes blocks otherwise. An operator gives both the same model name.
    #[error(
        "blocks are hashed otherwise than here: the probe is {}, this gateway's is {}; model names, seeds or releases differ",
        found.probe, expected.probe
    )]
    Hashing {
        /// The worker's.
        found: Hashing,
        /// The gateway's.
        expected: Hashing,
    },
    /// The pod left the fleet at this very moment. If it is to come back, the worker tries again.
    #[error("the pod left the fleet: {0}")]
    PodRetired(#[from] PodRetired),
}

impl Refusal {
    /// The status of an HTTP answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(Malformed::Changes { .. } | Malformed::Blocks { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::UnknownPod(_) => StatusCode::NOT_FOUND,
            Self::NotReported(_) | Self::BlockSize { .. } | Self::Hashing { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::PodRetired(_) => StatusCode::CONFLICT,
        }
    }
}
