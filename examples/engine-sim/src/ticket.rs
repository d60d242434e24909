//! A client's hold on its request: how far it has come, and giving it up by letting go.

use std::sync::Arc;

use tokio::sync::watch;

use crate::core::Core;
use crate::engine::RequestId;

/// A request in the engine. Dropped before the answer is complete, the request is given up and its blocks are free at once.
#[derive(Debug)]
pub(super) struct Ticket {
    core: Arc<Core>,
    life: u64,
    id: RequestId,
    pub(super) progress: watch::Receiver<Progress>,
}

/// How far a request has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Tokens of the prompt that were not computed.
    pub(super) cached: usize,
    /// Tokens of the answer that are there.
    pub(super) tokens: usize,
    pub(super) done: bool,
    pub(super) kept: Option<Kept>,
}

/// Blocks that wait for another pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) engine: String,
    pub(super) name: String,
    pub(super) blocks: Vec<usize>,
    pub(super) tokens: usize,
}

impl Ticket {
    pub(super) fn new(core: Arc<Core>, life: u64, id: RequestId, progress: watch::Receiver<Progress>) -> Self {
        Self { core, life, id, progress }
    }

    /// Waits until more than `tokens` tokens are there. `None` if the pod died.
    pub(super) async fn beyond(&mut self, tokens: usize) -> Option<Progress> {
        self.progress.wait_for(|progress| progress.tokens > tokens).await.ok().map(|progress| progress.clone())
    }

    /// Waits for the whole answer. `None` if the pod died.
    pub(super) async fn whole(&mut self) -> Option<Progress> {
        self.progress.wait_for(|progress| progress.done).await.ok().map(|progress| progress.clone())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.core.abort(self.life, self.id);
    }
}
