//! Requests that wait, and that run.

use super::EngineRequest;
use crate::block_pool::BlockId;

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) request: EngineRequest,
    /// Tokens of its answer that it had when it was preempted.
    pub(super) generated: u32,
    pub(super) is_preempted: bool,
}

/// A request that was admitted.
#[derive(Clone, Debug, Default)]
pub(super) struct Running {
    pub(super) request: EngineRequest,
    /// Tokens of its answer when it was admitted, which are computed like its prompt.
    pub(super) generated: u32,
    /// Which admission it was.
    pub(super) admission: u64,
    /// All that it has tokens for.
    pub(super) blocks: Vec<BlockId>,
    /// Leading blocks that are cached under their hash.
    pub(super) sealed: usize,
    /// Tokens of the prompt that are computed.
    pub(super) computed: usize,
    /// The step that gave the first token since it was admitted.
    pub(super) first: u64,
}

impl Running {
    /// Tokens that are computed before it decodes.
    pub(super) fn length(&self) -> usize {
        self.request.prompt as usize + self.generated as usize
    }

    /// Tokens in the cache after so many steps, while it decodes.
    pub(super) fn written(&self, step: u64) -> u64 {
        self.length() as u64 + step - self.first
    }

    /// The step in which it has its last token.
    pub(super) fn last(&self) -> u64 {
        self.first + u64::from(self.request.output.saturating_sub(self.generated)) - 1
    }
}
