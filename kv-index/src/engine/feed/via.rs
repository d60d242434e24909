//! By which way a batch came: what its number and time can say, and whether what is missing can be asked for.

use crate::engine::lives::{Life, Lives, Mark};

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
    /// Which life a batch that came like this is from.
    pub(super) fn judge(self, lives: &Lives, batch: Mark) -> Life {
        match self {
            Self::Live | Self::Replay => lives.judge(batch),
            #[cfg(feature = "trtllm")]
            Self::Pulled if lives.last().is_some_and(|last| batch.sequence <= last.sequence) => Life::Next,
            #[cfg(feature = "trtllm")]
            Self::Pulled => Life::This,
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
