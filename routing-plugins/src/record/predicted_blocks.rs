//! Predicted cache contents of pods that report no cache events.

use std::num::NonZeroUsize;

use kv_index::{BlockHash, Index, Pod, Predictor};
use parking_lot::Mutex;

/// What was routed to each pod, the least recently used of it forgotten where its cache would be full; owned by the host.
///
/// Shared by all recorders over one index, also those of workflows that replace each other: what nobody remembers could
/// never be evicted. One lock: guessing is one at a time.
#[derive(Debug)]
pub struct PredictedBlocks(Mutex<Predictor>);

impl PredictedBlocks {
    /// Nothing was routed yet, to pods whose caches hold so many blocks each.
    #[must_use]
    pub fn new(blocks_per_pod: NonZeroUsize) -> Self {
        Self(Mutex::new(Predictor::new(blocks_per_pod.get())))
    }

    /// Blocks that a pod is guessed to hold.
    #[must_use]
    pub fn blocks(&self, pod: Pod) -> usize {
        self.0.lock().blocks(pod)
    }

    /// A prompt goes to a pod.
    pub(super) fn routed<const W: usize>(&self, index: &Index<W>, pod: Pod, chain: &[BlockHash]) {
        // A pod that left meanwhile holds nothing; whoever sends the request will find out.
        let _ = self.0.lock().routed(index, pod, chain);
    }
}

impl Default for PredictedBlocks {
    fn default() -> Self {
        const BLOCKS: NonZeroUsize = NonZeroUsize::new(31_250).expect("not zero");
        Self::new(BLOCKS)
    }
}
