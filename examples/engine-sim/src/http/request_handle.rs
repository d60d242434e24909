//! Handle of a request in the engine: progress, and cancellation by dropping it.

use std::sync::Arc;

use tokio::sync::watch;

use super::engine::Engine;

/// A request in the engine. Dropped before the answer is complete, the request is given up and its blocks are free at once.
#[derive(Debug)]
pub(super) struct RequestHandle {
    pub(super) engine: Arc<Engine>,
    pub(super) incarnation: u64,
    pub(super) id: u32,
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
    pub(super) kept: Option<KeptBlocks>,
}

/// Blocks that wait for another pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptBlocks {
    pub(super) engine: String,
    pub(super) name: String,
    pub(super) blocks: Vec<usize>,
    pub(super) tokens: usize,
}

impl RequestHandle {
    /// Waits until more than `tokens` tokens are there. `None` if the pod died.
    pub(super) async fn beyond(&mut self, tokens: usize) -> Option<Progress> {
        self.progress.wait_for(|progress| progress.tokens > tokens).await.ok().map(|progress| progress.clone())
    }

    /// Waits for the whole answer. `None` if the pod died.
    pub(super) async fn whole(&mut self) -> Option<Progress> {
        self.progress.wait_for(|progress| progress.done).await.ok().map(|progress| progress.clone())
    }
}

impl Drop for RequestHandle {
    fn drop(&mut self) {
        self.engine.abort(self.incarnation, self.id);
    }
}
