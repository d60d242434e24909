//! Delivery paths: live, replayed or polled, and what each says of sequence and recovery.

use crate::engine::incarnations::{BatchIncarnation, BatchStamp, Incarnations};

use super::EngineFeedConfig;

/// How a batch came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Via {
    Live,
    Replay,
    /// From a queue that is emptied by reading it: nothing comes twice, and nothing can be asked for.
    #[cfg(feature = "trtllm")]
    Pulled,
}

impl Via {
    /// Which incarnation a batch that came like this is from, where `newest` is the highest number seen so far.
    pub(super) fn judge(self, incarnations: &Incarnations, batch: BatchStamp, newest: Option<u64>) -> BatchIncarnation {
        match self {
            // Numbered before a batch that is known and published after it: whoever published that one is gone.
            Self::Live | Self::Replay if newest > Some(batch.sequence) && incarnations.is_later(batch) => {
                BatchIncarnation::New
            }
            Self::Live => incarnations.judge(batch),
            // Who replays is there now, whatever its clock did since its first batch.
            Self::Replay => incarnations.judge_replayed(batch),
            #[cfg(feature = "trtllm")]
            Self::Pulled if incarnations.last().is_some_and(|last| batch.sequence <= last.sequence) => {
                BatchIncarnation::New
            }
            #[cfg(feature = "trtllm")]
            Self::Pulled => BatchIncarnation::Current,
        }
    }

    /// Whether what is missing before such a batch can be asked for.
    pub(super) fn can_ask(self, config: &EngineFeedConfig) -> bool {
        match self {
            Self::Live | Self::Replay => config.replay,
            #[cfg(feature = "trtllm")]
            Self::Pulled => false,
        }
    }
}
