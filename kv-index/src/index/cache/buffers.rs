//! What an update of a pod gathers, kept with the pod from one to the next.

use crate::blocks::BlockHash;
use crate::segments::Span;

/// What a change gathers, kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// What leaves, in the order in which it was named.
    pub(in crate::index) hashes: Vec<BlockHash>,
    /// Where that is.
    pub(in crate::index) spans: Vec<Span>,
    /// Blocks in a row that were not beside the one before: they come in no order, and it is not worth looking.
    pub(in crate::index) astray: usize,
}

impl Buffers {
    /// Empties it; a burst's buffer is not kept for good.
    pub(in crate::index) fn clear(&mut self) {
        self.hashes.clear();
        self.spans.clear();
        self.astray = 0;
        if self.hashes.capacity() + self.spans.capacity() > 1024 {
            *self = Self::default();
        }
    }
}
