//! Why a message is not taken, and what that is in HTTP.

use http::StatusCode;
use kv_index::Gone;

use crate::wire::Malformed;

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
    /// The worker cuts prompts into other blocks. An operator makes both the same.
    #[error("blocks of {found} tokens, this gateway's have {expected}")]
    BlockSize {
        /// The worker's.
        found: u32,
        /// The gateway's.
        expected: u32,
    },
    /// The pod left the fleet at this very moment. If it is to come back, the worker tries again.
    #[error("the pod left the fleet: {0}")]
    Gone(#[from] Gone),
}

impl Refusal {
    /// The status of an HTTP answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(Malformed::Changes { .. } | Malformed::Blocks { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::UnknownPod(_) => StatusCode::NOT_FOUND,
            Self::BlockSize { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Gone(_) => StatusCode::CONFLICT,
        }
    }
}
