//! Replay buffer: the batches of one incarnation, numbered from 0, the last of them kept.

use std::collections::VecDeque;

use bytes::Bytes;

/// A payload and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) sequence: u64,
    pub(super) payload: Bytes,
}

/// What was published in this incarnation.
#[derive(Debug)]
pub(super) struct ReplayBuffer {
    next: u64,
    kept: VecDeque<Batch>,
    most: usize,
}

impl ReplayBuffer {
    /// A incarnation that keeps its last `most` batches.
    pub(super) fn new(most: usize) -> Self {
        Self { next: 0, kept: VecDeque::new(), most }
    }

    /// Numbers a payload and keeps it.
    pub(super) fn add(&mut self, payload: Bytes) -> Batch {
        let batch = Batch { sequence: self.next, payload };
        self.next += 1;
        self.kept.push_back(batch.clone());
        if self.kept.len() > self.most {
            self.kept.pop_front();
        }
        batch
    }

    /// A new incarnation, with nothing published.
    pub(super) fn begin(&mut self) {
        *self = Self::new(self.most);
    }

    /// The kept batches from a number on; they may begin later.
    pub(super) fn since(&self, start: u64) -> impl Iterator<Item = &Batch> {
        self.kept.iter().filter(move |batch| batch.sequence >= start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(buffer: &ReplayBuffer, start: u64) -> Vec<u64> {
        buffer.since(start).map(|batch| batch.sequence).collect()
    }

    #[test]
    fn the_last_batches_are_kept_and_a_new_life_has_none() {
        let mut buffer = ReplayBuffer::new(3);
        let added: Vec<u64> = (0..5).map(|_| buffer.add(Bytes::new()).sequence).collect();
        assert_eq!(added, [0, 1, 2, 3, 4]);
        assert_eq!(numbers(&buffer, 0), [2, 3, 4]);
        assert_eq!(numbers(&buffer, 4), [4]);
        assert!(numbers(&buffer, 5).is_empty());
        buffer.begin();
        assert!(numbers(&buffer, 0).is_empty());
        assert_eq!(buffer.add(Bytes::new()).sequence, 0);
    }
}
