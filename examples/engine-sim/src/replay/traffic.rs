//! The stream of requests: many conversations at once, under a few shared system prompts.

use kv_index::{ChainHasher, ChainSeed};

use crate::replay::conversation::{Conversation, Lengths, say};
use crate::replay::engine::Job;
use pointsman_lab::SplitMix64;

/// What the traffic is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Conversations in all.
    pub conversations: usize,
    /// Turns of each.
    pub turns: usize,
    /// Conversations that may be open at once.
    pub open: usize,
    /// System prompts they share.
    pub systems: usize,
    /// How long their parts are.
    pub lengths: Lengths,
}

/// Every conversation that is open, and those to come.
#[derive(Debug)]
pub struct Traffic {
    shape: Shape,
    hasher: ChainHasher,
    rng: SplitMix64,
    systems: Vec<Vec<u32>>,
    /// By client; a client whose conversation is over gets the next one.
    open: Vec<Conversation>,
    /// Clients between two turns.
    resting: Vec<usize>,
    /// Clients without a conversation.
    vacant: Vec<usize>,
    unopened: usize,
}

impl Traffic {
    /// Traffic that depends on nothing but its arguments.
    #[must_use]
    pub fn new(shape: Shape, hasher: ChainHasher, mut rng: SplitMix64) -> Self {
        let mut system = || {
            let mut tokens = Vec::new();
            say(shape.lengths.system, &mut tokens, &mut rng);
            tokens
        };
        let systems = (0..shape.systems).map(|_| system()).collect();
        let unopened = shape.conversations;
        Self { shape, hasher, rng, systems, open: Vec::new(), resting: Vec::new(), vacant: Vec::new(), unopened }
    }

    /// Begins a turn of some conversation; its client. `None` if every client is waiting for an answer, or
    /// there is nothing left to ask.
    pub fn next_turn(&mut self) -> Option<usize> {
        let full = self.open.len() == self.shape.open && self.vacant.is_empty();
        let may_open = self.unopened > 0 && !full;
        // New conversations come at the rate at which old ones end.
        let client = if may_open && (self.resting.is_empty() || self.rng.one_in(self.shape.turns)) {
            self.open_one()
        } else if self.resting.is_empty() {
            return None;
        } else {
            let at = self.rng.below(self.resting.len());
            self.resting.swap_remove(at)
        };
        self.open[client].begin_turn(&self.hasher, &self.shape.lengths, &mut self.rng);
        Some(client)
    }

    /// The client has its answer.
    pub fn end_turn(&mut self, client: usize) {
        if self.open[client].turns_left() > 0 {
            self.resting.push(client);
        } else {
            self.vacant.push(client);
        }
    }

    /// Begins no further turns.
    pub fn stop(&mut self) {
        self.unopened = 0;
        self.vacant.append(&mut self.resting);
        self.open.iter_mut().for_each(Conversation::stop);
    }

    /// What the client asks in its current turn.
    #[must_use]
    pub fn prompt(&self, client: usize) -> &[u32] {
        self.open[client].prompt()
    }

    /// The client's current turn as an engine is given it.
    #[must_use]
    pub fn job(&self, client: usize) -> Job {
        self.open[client].job(client)
    }

    fn open_one(&mut self) -> usize {
        // The lower of two draws: some system prompts are more popular than others.
        let system = self.rng.below(self.systems.len()).min(self.rng.below(self.systems.len()));
        let conversation = Conversation::new(&self.systems[system], self.shape.turns);
        self.unopened -= 1;
        match self.vacant.pop() {
            Some(client) => {
                self.open[client] = conversation;
                client
            }
            None => {
                self.open.push(conversation);
                self.open.len() - 1
            }
        }
    }
}

/// The cache namespace that all requests share.
#[must_use]
pub fn namespace() -> ChainSeed {
    ChainSeed::new("example-8b")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use kv_index::BlockSize;

    use super::*;

    const SHAPE: Shape = Shape {
        conversations: 50,
        turns: 4,
        open: 6,
        systems: 3,
        lengths: Lengths { system: (40, 60), user: (4, 8), answer: (4, 8) },
    };

    fn traffic(seed: u64) -> Traffic {
        let hasher = ChainHasher::new(namespace(), BlockSize::new(4).unwrap());
        Traffic::new(SHAPE, hasher, SplitMix64::new(seed))
    }

    /// Answers at once, or keeps some clients waiting.
    fn prompts(seed: u64, waiting: usize) -> Vec<Vec<u32>> {
        let mut traffic = traffic(seed);
        let mut prompts = Vec::new();
        let mut unanswered = Vec::new();
        loop {
            let asked = traffic.next_turn();
            if asked.is_none() && unanswered.is_empty() {
                return prompts;
            }
            prompts.extend(asked.map(|client| traffic.prompt(client).to_vec()));
            unanswered.extend(asked);
            if asked.is_none() || unanswered.len() > waiting {
                unanswered.drain(..).for_each(|client| traffic.end_turn(client));
            }
        }
    }

    #[test]
    fn every_turn_of_every_conversation_comes_once() {
        assert_eq!(prompts(1, 0).len(), 200);
        assert_eq!(prompts(1, 4).len(), 200);
    }

    #[test]
    fn one_seed_gives_one_stream() {
        assert_eq!(prompts(1, 3), prompts(1, 3));
        assert_ne!(prompts(1, 3), prompts(2, 3));
    }

    #[test]
    fn conversations_share_system_prompts() {
        let starts: HashSet<Vec<u32>> = prompts(1, 2).iter().map(|prompt| prompt[..40].to_vec()).collect();
        assert_eq!(starts.len(), 3);
    }

    #[test]
    fn no_more_conversations_are_open_than_may_be() {
        let mut traffic = traffic(4);
        let asked: Vec<usize> = std::iter::from_fn(|| traffic.next_turn()).collect();
        assert_eq!(asked.len(), 6, "all clients wait for an answer");
        traffic.end_turn(2);
        assert_eq!(traffic.next_turn(), Some(2));
    }

    #[test]
    fn after_a_stop_nothing_begins() {
        let mut traffic = traffic(4);
        let client = traffic.next_turn().unwrap();
        traffic.stop();
        traffic.end_turn(client);
        assert_eq!(traffic.next_turn(), None);
    }
}
