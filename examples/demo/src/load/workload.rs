//! What is asked of a fleet: many conversations under a few shared system prompts, and long documents now and then.
//!
//! A workload is a function of its seed and shape: conversation number *n* says the same whoever holds it and whenever.
//! What is said is made of words that are a token each, so that lengths are exact.

use std::sync::Arc;
use std::time::Duration;

use crate::load::script::{Script, Turn};
use pointsman_example_common::words::word;
use pointsman_lab::SplitMix64;

/// From the first to the second, both included.
pub type Span = (usize, usize);

/// What a workload is like. Lengths are in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "figures that a caller chooses by name")]
pub struct Shape {
    /// System prompts that conversations share.
    pub systems: usize,
    /// A system prompt.
    pub system: Span,
    /// Turns of a conversation.
    pub turns: Span,
    /// What a user says in a turn.
    pub user: Span,
    /// An answer at most.
    pub answer: Span,
    /// How long a user thinks, in milliseconds.
    pub think_ms: Span,
    /// One script in this many is a document that nobody else has, asked about once.
    pub one_document_in: usize,
    /// A document.
    pub document: Span,
    /// One turn in this many wants its answer in one piece.
    pub one_whole_in: usize,
}

/// Scripts by number.
#[derive(Clone, Debug)]
pub struct Workload {
    shape: Shape,
    seed: u64,
    systems: Vec<Arc<str>>,
}

impl Workload {
    /// The workload of a seed.
    #[must_use]
    pub fn new(shape: Shape, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let systems = (0..shape.systems.max(1)).map(|_| words(shape.system, &mut rng).into()).collect();
        Self { shape, seed, systems }
    }

    /// Script number `nth`.
    #[must_use]
    pub fn script(&self, nth: usize) -> Script {
        // Far apart even where seeds are neighbours.
        let mut rng =
            SplitMix64::new(SplitMix64::new(self.seed).fork().next_u64() ^ SplitMix64::new(nth as u64).next_u64());
        let shape = &self.shape;
        if shape.one_document_in > 0 && nth % shape.one_document_in == shape.one_document_in - 1 {
            let turn = self.turn(shape.document, &mut rng);
            return Script { system: None, turns: vec![turn] };
        }
        let system = popular(self.systems.len(), &mut rng);
        let turns = (0..span(shape.turns, &mut rng)).map(|_| self.turn(shape.user, &mut rng)).collect();
        Script { system: Some(Arc::clone(&self.systems[system])), turns }
    }

    fn turn(&self, length: Span, rng: &mut SplitMix64) -> Turn {
        Turn {
            says: words(length, rng),
            max_tokens: span(self.shape.answer, rng),
            stream: self.shape.one_whole_in == 0 || !rng.one_in(self.shape.one_whole_in),
            think: Duration::from_millis(span(self.shape.think_ms, rng) as u64),
        }
    }
}

/// A number below `end`: the second half as often as the first, the third a third as often, as Zipf found words to be.
fn popular(end: usize, rng: &mut SplitMix64) -> usize {
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

fn span((least, most): Span, rng: &mut SplitMix64) -> usize {
    rng.between(least, most)
}

fn words(length: Span, rng: &mut SplitMix64) -> String {
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

    const SHAPE: Shape = Shape {
        systems: 3,
        system: (40, 60),
        turns: (2, 5),
        user: (4, 9),
        answer: (3, 6),
        think_ms: (1, 5),
        one_document_in: 5,
        document: (100, 120),
        one_whole_in: 4,
    };

    fn tokens(text: &str) -> usize {
        let mut tokens = Vec::new();
        Words.encode(text, &mut tokens).unwrap();
        tokens.len()
    }

    #[test]
    fn a_script_is_a_function_of_seed_and_number() {
        let (one, same, other) = (Workload::new(SHAPE, 1), Workload::new(SHAPE, 1), Workload::new(SHAPE, 2));
        let backwards: Vec<Script> = (0..50).rev().map(|n| same.script(n)).collect();
        for (nth, script) in backwards.into_iter().rev().enumerate() {
            assert_eq!(script, one.script(nth));
            assert_ne!(script, other.script(nth));
        }
    }

    #[test]
    fn lengths_in_tokens_keep_to_the_shape() {
        let workload = Workload::new(SHAPE, 3);
        for nth in 0..100 {
            let script = workload.script(nth);
            let (turns, says) = match script.system {
                Some(system) => {
                    assert!((40..=60).contains(&tokens(&system)));
                    (SHAPE.turns, SHAPE.user)
                }
                None => ((1, 1), SHAPE.document),
            };
            assert!((turns.0..=turns.1).contains(&script.turns.len()));
            assert!(script.turns.iter().all(|turn| (says.0..=says.1).contains(&tokens(&turn.says))));
        }
    }

    #[test]
    fn popularity_falls_with_the_rank() {
        let (mut rng, mut drawn) = (SplitMix64::new(5), [0_usize; 4]);
        (0..25_000).for_each(|_| drawn[popular(4, &mut rng)] += 1);
        // Of 25 parts, 12 go to the first, then 6, 4 and 3.
        for (count, parts) in drawn.into_iter().zip([12, 6, 4, 3]) {
            assert!(count.abs_diff(parts * 1_000) < 300, "{drawn:?}");
        }
        assert_eq!(popular(1, &mut rng), 0);
    }

    #[test]
    fn system_prompts_are_shared_and_words_of_users_are_not() {
        let workload = Workload::new(SHAPE, 4);
        let scripts: Vec<Script> = (0..200).map(|n| workload.script(n)).collect();
        let systems: HashSet<_> = scripts.iter().filter_map(|script| script.system.clone()).collect();
        let said: HashSet<_> = scripts.iter().map(|script| script.turns[0].says.clone()).collect();
        assert_eq!((systems.len(), said.len()), (3, 200));
        assert_eq!(scripts.iter().filter(|script| script.system.is_none()).count(), 40);
        assert!(scripts.iter().any(|script| script.turns.iter().any(|turn| !turn.stream)));
    }
}
