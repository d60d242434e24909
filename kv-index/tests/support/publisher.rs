//! An engine's event publisher: numbers batches, keeps the last ones for replay, restarts from 0.

use std::collections::VecDeque;

use kv_index::engine::{Message, ReplayForm, ReplayReply, parse_replay_request};

/// The frames of a message.
pub type Frames = Vec<Vec<u8>>;

/// One incarnation of a publisher.
#[derive(Debug)]
pub struct Publisher {
    next: u64,
    buffer: VecDeque<(u64, Vec<u8>)>,
    /// Batches that can be replayed.
    keeps: usize,
    form: ReplayForm,
}

impl Publisher {
    pub fn new(keeps: usize, form: ReplayForm) -> Self {
        Self { next: 0, buffer: VecDeque::new(), keeps, form }
    }

    /// Publishes a payload: the live message's frames.
    pub fn publish(&mut self, payload: Vec<u8>) -> Frames {
        let frames = Message { topic: b"kv-events", sequence: self.next, payload: &payload }.to_frames().to_vec();
        self.buffer.push_back((self.next, payload));
        if self.buffer.len() > self.keeps {
            self.buffer.pop_front();
        }
        self.next += 1;
        frames
    }

    /// Answers a replay request: every batch that is kept, from the asked for one on, and the end marker.
    pub fn replay(&self, request: &[Vec<u8>]) -> Vec<Frames> {
        let start = parse_replay_request(request).expect("a well-formed request");
        let kept = self.buffer.iter().filter(|(sequence, _)| *sequence >= start);
        let replies = kept.map(|(sequence, payload)| {
            let message = Message { topic: b"kv-events", sequence: *sequence, payload };
            ReplayReply::Batch(message).to_frames(self.form)
        });
        replies.chain([ReplayReply::End.to_frames(self.form)]).collect()
    }
}
