//! Predicted cache contents of pods that report no cache events.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use kv_index::{BlockHash, Index, Pod, Predictor};
use parking_lot::Mutex;

/// What was routed to each pod, the least recently used of it forgotten where its cache would be full; owned by the host.
///
/// Shared by all recorders over one index, also those of workflows that replace each other: what nobody remembers could
/// never be evicted. One lock: guessing is one at a time.
pub struct PredictedBlocks {
    predictor: Arc<Mutex<Predictor>>,
    later: Option<Box<Later>>,
}

type Later = dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync;

impl PredictedBlocks {
    /// Nothing was routed yet, to pods whose caches hold so many blocks each.
    #[must_use]
    pub fn new(blocks_per_pod: NonZeroUsize) -> Self {
        Self { predictor: Arc::new(Mutex::new(Predictor::new(blocks_per_pod.get()))), later: None }
    }

    /// The same, with prompts entered once `run` runs the job that it is given: on another thread, or when the answer to this
    /// request is on its way. A decision does not wait for that then, and those that come in between do not see its prompt.
    #[must_use]
    pub fn later(self, run: impl Fn(Box<dyn FnOnce() + Send>) + Send + Sync + 'static) -> Self {
        Self { later: Some(Box::new(run)), ..self }
    }

    /// Blocks that a pod is guessed to hold.
    #[must_use]
    pub fn blocks(&self, pod: Pod) -> usize {
        self.predictor.lock().blocks(pod)
    }

    /// A prompt goes to a pod.
    pub(super) fn routed<const W: usize>(&self, index: &Arc<Index<W>>, pod: Pod, chain: Vec<BlockHash>) {
        let (predictor, index) = (Arc::clone(&self.predictor), Arc::clone(index));
        let enter = move || {
            // A pod that left meanwhile holds nothing; whoever sends the request will find out.
            let _ = predictor.lock().routed(&index, pod, &chain);
        };
        match &self.later {
            Some(run) => run(Box::new(enter)),
            None => enter(),
        }
    }
}

impl fmt::Debug for PredictedBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PredictedBlocks").field("is_later", &self.later.is_some()).finish_non_exhaustive()
    }
}

impl Default for PredictedBlocks {
    fn default() -> Self {
        const BLOCKS: NonZeroUsize = NonZeroUsize::new(31_250).expect("not zero");
        Self::new(BLOCKS)
    }
}
