//! Bounded queue of live messages that wait for the end of a replay.
//!
//! The rule: neither their count nor their bytes pass the bounds. What finds no room is found missing later, and replayed.

use std::collections::VecDeque;

/// Live messages in order, oldest first.
#[derive(Debug)]
pub(super) struct Waiting {
    messages: VecDeque<WaitingMessage>,
    bytes: usize,
    max_messages: usize,
    max_bytes: usize,
    /// One found no room, so all after it would leave a gap.
    is_full: bool,
}

/// A message, copied out of the caller's frames. Its topic is not needed any more.
#[derive(Debug)]
pub(super) struct WaitingMessage {
    pub(super) sequence: u64,
    pub(super) payload: Box<[u8]>,
}

impl Waiting {
    pub(super) fn new(max_messages: usize, max_bytes: usize) -> Self {
        Self { messages: VecDeque::new(), bytes: 0, max_messages, max_bytes, is_full: false }
    }

    pub(super) fn push(&mut self, sequence: u64, payload: &[u8]) {
        self.is_full |= self.messages.len() >= self.max_messages || payload.len() > self.max_bytes - self.bytes;
        if !self.is_full {
            self.bytes += payload.len();
            self.messages.push_back(WaitingMessage { sequence, payload: payload.into() });
        }
    }

    pub(super) fn clear(&mut self) {
        drop(self.take());
    }

    /// All of them; none wait any more.
    pub(super) fn take(&mut self) -> VecDeque<WaitingMessage> {
        (self.bytes, self.is_full) = (0, false);
        std::mem::take(&mut self.messages)
    }

    /// Whether a message may not go past those that wait, or past one that found no room.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && !self.is_full
    }

    /// Messages and the bytes of their payloads.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.messages.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_and_bytes_are_bounded_and_order_is_kept() {
        let mut waiting = Waiting::new(3, 10);
        waiting.push(1, &[0; 4]);
        waiting.push(2, &[0; 7]);
        assert_eq!(waiting.size(), (1, 4), "eleven bytes are too many");
        waiting.push(3, &[0; 1]);
        assert_eq!(waiting.size(), (1, 4), "what comes behind one that is missing is not kept");
        assert_eq!(waiting.take().iter().map(|message| message.sequence).collect::<Vec<_>>(), [1]);
        (0..5).for_each(|sequence| waiting.push(sequence, &[]));
        assert_eq!(waiting.size(), (3, 0));
        waiting.clear();
        assert!(waiting.is_empty());
    }

    #[test]
    fn one_without_room_is_not_passed_by_the_next() {
        let mut waiting = Waiting::new(3, 10);
        waiting.push(1, &[0; 11]);
        assert_eq!(waiting.size(), (0, 0));
        assert!(!waiting.is_empty());
    }
}
