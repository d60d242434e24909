//! One conversation: a shared system prompt, then turns of a user's tokens and an answer's.
//!
//! A turn's prompt is everything said so far and the user's new tokens. The answer is drawn together with the
//! prompt, since a model of an engine needs to know what it will write.

use kv_index::{BlockHash, ChainHasher};

use crate::replay::engine::Job;
use pointsman_lab::SplitMix64;

/// How long the parts of a conversation are, in tokens. The ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// A system prompt.
    pub system: (usize, usize),
    /// What a user says in a turn.
    pub user: (usize, usize),
    /// An answer.
    pub answer: (usize, usize),
}

impl Lengths {
    /// The most tokens a conversation of so many turns can have.
    #[must_use]
    pub const fn longest(&self, turns: usize) -> usize {
        self.system.1 + turns * (self.user.1 + self.answer.1)
    }
}

impl Default for Lengths {
    fn default() -> Self {
        Self { system: (256, 2_048), user: (16, 384), answer: (16, 320) }
    }
}

/// A conversation between two turns, or in one.
#[derive(Clone, Debug)]
pub struct Conversation {
    tokens: Vec<u32>,
    /// The blocks of `tokens`.
    chain: Vec<BlockHash>,
    /// How many of the tokens are the current turn's prompt; the answer follows.
    prompt: usize,
    turns_left: usize,
}

impl Conversation {
    /// A conversation of `turns` turns under a system prompt, before the first of them.
    #[must_use]
    pub fn new(system: &[u32], turns: usize) -> Self {
        Self { tokens: system.to_vec(), chain: Vec::new(), prompt: system.len(), turns_left: turns }
    }

    /// Begins the next turn: mostly new words, sometimes the last prompt once more for another answer.
    pub fn begin_turn(&mut self, hasher: &ChainHasher, lengths: &Lengths, rng: &mut SplitMix64) {
        if self.prompt < self.tokens.len() && rng.one_in(REGENERATED) {
            self.tokens.truncate(self.prompt);
        } else {
            say(lengths.user, &mut self.tokens, rng);
        }
        self.prompt = self.tokens.len();
        say(lengths.answer, &mut self.tokens, rng);
        self.chain.truncate(hasher.block_size().whole_blocks(self.prompt));
        hasher.extend_into(&self.tokens, &mut self.chain);
        self.turns_left = self.turns_left.saturating_sub(1);
    }

    /// Makes the current turn the last one.
    pub fn stop(&mut self) {
        self.turns_left = 0;
    }

    /// The current turn's prompt.
    #[must_use]
    pub fn prompt(&self) -> &[u32] {
        &self.tokens[..self.prompt]
    }

    /// The current turn as an engine is given it.
    #[must_use]
    pub fn job(&self, client: usize) -> Job {
        Job { client, chain: self.chain.clone(), prompt: self.prompt, total: self.tokens.len() }
    }

    /// Turns that have not begun.
    #[must_use]
    pub fn turns_left(&self) -> usize {
        self.turns_left
    }
}

/// Appends a random number of random tokens.
pub(crate) fn say((least, most): (usize, usize), tokens: &mut Vec<u32>, rng: &mut SplitMix64) {
    let count = rng.between(least, most);
    tokens.extend((0..count).map(|_| rng.below(VOCABULARY) as u32));
}

/// One turn in this many asks for another answer to the same prompt.
const REGENERATED: usize = 16;

const VOCABULARY: usize = 128_000;

#[cfg(test)]
mod tests {
    use kv_index::{BlockSize, ChainSeed};

    use super::*;

    const LENGTHS: Lengths = Lengths { system: (20, 20), user: (5, 9), answer: (3, 30) };

    fn hasher() -> ChainHasher {
        ChainHasher::new(ChainSeed::new("test"), BlockSize::new(4).unwrap())
    }

    #[test]
    fn a_turn_starts_with_all_that_was_said_or_repeats_the_last_prompt() {
        let (hasher, mut rng) = (hasher(), SplitMix64::new(2));
        let mut conversation = Conversation::new(&[1; 20], 200);
        let (mut said, mut asked, mut repeats) = (vec![1; 20], Vec::new(), 0);
        while conversation.turns_left() > 0 {
            conversation.begin_turn(&hasher, &LENGTHS, &mut rng);
            let prompt = conversation.prompt();
            if prompt == asked {
                repeats += 1;
            } else {
                assert!(prompt.starts_with(&said));
                assert!((5..=9).contains(&(prompt.len() - said.len())));
            }
            let job = conversation.job(3);
            assert_eq!((job.client, job.prompt, job.total), (3, prompt.len(), conversation.tokens.len()));
            assert_eq!(job.chain, hasher.hash(&conversation.tokens), "kept up to date turn by turn");
            (asked, said) = (prompt.to_vec(), conversation.tokens.clone());
        }
        assert!(repeats > 0);
        assert!(said.len() <= LENGTHS.longest(200));
    }
}
