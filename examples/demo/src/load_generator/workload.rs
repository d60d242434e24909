//! Synthetic workload: conversations that share system prompts by a Zipf distribution, and long unique documents.
//!
//! A workload is a function of its seed and shape: conversation *n* is always the same. Texts are made of words of one token each,
//! so that lengths are exact.

use std::sync::Arc;
use std::time::Duration;

use crate::load_generator::conversation::{Conversation, Turn};
use pointsman_example_common::words::word;
use pointsman_lab::SplitMix64;

/// Lower and upper bound, both included.
pub(crate) type Bounds = (usize, usize);

/// What a workload is like. Lengths are in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkloadShape {
    /// System prompts that conversations share.
    pub(crate) system_prompts: usize,
    /// A system prompt.
    pub(crate) system_tokens: Bounds,
    /// Turns of a conversation.
    pub(crate) turns: Bounds,
    /// What a user says in a turn.
    pub(crate) user_tokens: Bounds,
    /// An answer at most.
    pub(crate) answer_tokens: Bounds,
    /// How long a user thinks, in milliseconds.
    pub(crate) think_ms: Bounds,
    /// One conversation in this many is a single question about a unique document.
    pub(crate) document_every: usize,
    /// A document.
    pub(crate) document_tokens: Bounds,
    /// One turn in this many is not streamed.
    pub(crate) unstreamed_every: usize,
}

/// Scripts by number.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    shape: WorkloadShape,
    seed: u64,
    systems: Vec<Arc<str>>,
}

impl Workload {
    /// The workload of a seed.
    pub(crate) fn new(shape: WorkloadShape, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let systems = (0..shape.system_prompts.max(1)).map(|_| words(shape.system_tokens, &mut rng).into()).collect();
        Self { shape, seed, systems }
    }

    /// Conversation number `nth`.
    pub(crate) fn conversation(&self, nth: usize) -> Conversation {
        // Far apart even where seeds are neighbours.
        let mut rng =
            SplitMix64::new(SplitMix64::new(self.seed).fork().next_u64() ^ SplitMix64::new(nth as u64).next_u64());
        let shape = &self.shape;
        if shape.document_every > 0 && nth % shape.document_every == shape.document_every - 1 {
            let turn = self.turn(shape.document_tokens, &mut rng);
            return Conversation { system: None, turns: vec![turn] };
        }
        let system = zipf(self.systems.len(), &mut rng);
        let turns = (0..span(shape.turns, &mut rng)).map(|_| self.turn(shape.user_tokens, &mut rng)).collect();
        Conversation { system: Some(Arc::clone(&self.systems[system])), turns }
    }

    fn turn(&self, length: Bounds, rng: &mut SplitMix64) -> Turn {
        Turn {
            says: words(length, rng),
            max_tokens: span(self.shape.answer_tokens, rng),
            stream: self.shape.unstreamed_every == 0 || !rng.one_in(self.shape.unstreamed_every),
            think: Duration::from_millis(span(self.shape.think_ms, rng) as u64),
        }
    }
}

/// A number below `end`: the second half as often as the first, the third a third as often, as Zipf found words to be.
fn zipf(end: usize, rng: &mut SplitMix64) -> usize {
    let weight = |nth: usize| ZIPF / (nth + 1);
    let mut drawn = rng.below((0..end).map(weight).sum());
    let passes = |nth: &usize| match drawn.checked_sub(weight(*nth)) {
        Some(rest) => {
            drawn = rest;
            true
        }
        None => false,
    };
    (0..end).take_while(passes).count()
}

fn span((least, most): Bounds, rng: &mut SplitMix64) -> usize {
    rng.between(least, most)
}

fn words(length: Bounds, rng: &mut SplitMix64) -> String {
    (0..span(length, rng)).map(|_| word(rng.next_u64())).collect()
}

/// Large enough that thirds and sevenths of it are still exact enough.
const ZIPF: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use routing_plugins::tokenize::Tokenizer;

    use super::*;
    use pointsman_example_common::words::Words;

    const SHAPE: WorkloadShape = WorkloadShape {
        system_prompts: 3,
        system_tokens: (40, 60),
        turns: (2, 5),
        user_tokens: (4, 9),
        answer_tokens: (3, 6),
        think_ms: (1, 5),
        document_every: 5,
        document_tokens: (100, 120),
        unstreamed_every: 4,
    };

    fn tokens(text: &str) -> usize {
        let mut tokens = Vec::new();
        Words.encode(text, &mut tokens).unwrap();
        tokens.len()
    }

    #[test]
    fn a_script_is_a_function_of_seed_and_number() {
        let (one, same, other) = (Workload::new(SHAPE, 1), Workload::new(SHAPE, 1), Workload::new(SHAPE, 2));
        let backwards: Vec<Conversation> = (0..50).rev().map(|n| same.conversation(n)).collect();
        for (nth, conversation) in backwards.into_iter().rev().enumerate() {
            assert_eq!(conversation, one.conversation(nth));
            assert_ne!(conversation, other.conversation(nth));
        }
    }

    #[test]
    fn lengths_in_tokens_keep_to_the_shape() {
        let workload = Workload::new(SHAPE, 3);
        for nth in 0..100 {
            let conversation = workload.conversation(nth);
            let (turns, says) = match conversation.system {
                Some(system) => {
                    assert!((40..=60).contains(&tokens(&system)));
                    (SHAPE.turns, SHAPE.user_tokens)
                }
                None => ((1, 1), SHAPE.document_tokens),
            };
            assert!((turns.0..=turns.1).contains(&conversation.turns.len()));
            assert!(conversation.turns.iter().all(|turn| (says.0..=says.1).contains(&tokens(&turn.says))));
        }
    }

    #[test]
    fn popularity_falls_with_the_rank() {
        let (mut rng, mut drawn) = (SplitMix64::new(5), [0_usize; 4]);
        (0..25_000).for_each(|_| drawn[zipf(4, &mut rng)] += 1);
        // Of 25 parts, 12 go to the first, then 6, 4 and 3.
        for (count, parts) in drawn.into_iter().zip([12, 6, 4, 3]) {
            assert!(count.abs_diff(parts * 1_000) < 300, "{drawn:?}");
        }
        assert_eq!(zipf(1, &mut rng), 0);
    }

    #[test]
    fn system_prompts_are_shared_and_words_of_users_are_not() {
        let workload = Workload::new(SHAPE, 4);
        let conversations: Vec<Conversation> = (0..200).map(|n| workload.conversation(n)).collect();
        let systems: HashSet<_> = conversations.iter().filter_map(|conversation| conversation.system.clone()).collect();
        let said: HashSet<_> = conversations.iter().map(|conversation| conversation.turns[0].says.clone()).collect();
        assert_eq!((systems.len(), said.len()), (3, 200));
        assert_eq!(conversations.iter().filter(|conversation| conversation.system.is_none()).count(), 40);
        assert!(conversations.iter().any(|conversation| conversation.turns.iter().any(|turn| !turn.stream)));
    }
}
