//! What a simulated model answers: words that depend on nothing but the prompt's tokens and the limits.
//!
//! The rule that must never break: every pod gives the same answer, and a tighter limit gives the beginning of it.

use pointsman_example_common::words;
use pointsman_lab::SplitMix64;

/// How long an answer may be, as the client says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// No longer than that.
    pub(super) most: Option<usize>,
    /// No shorter than that, if the model has its way.
    pub(super) least: usize,
    /// Goes on until the limit.
    pub(super) ignore_end: bool,
}

/// An answer, whole from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Tokens as text, each with the blank before it.
    pub(super) words: Vec<&'static str>,
    /// Whether the model came to an end, or the limit did.
    pub(super) finish: Finish,
}

impl Answer {
    /// The answer to a prompt. `room` is how many tokens the context has left for it; at least one is given.
    pub(super) fn to(prompt: &[u32], limits: Limits, room: usize) -> Self {
        let mut rng = SplitMix64::new(seed(prompt));
        let natural = rng.between(SHORTEST, LONGEST).max(limits.least);
        let most = limits.most.unwrap_or(usize::MAX).min(room);
        let (tokens, finish) = match limits.ignore_end {
            true if limits.most.is_some() => (most, Finish::Length),
            _ if most <= natural => (most, Finish::Length),
            _ => (natural, Finish::Stop),
        };
        Self { words: (0..tokens.max(1)).map(|_| words::word(rng.next_u64())).collect(), finish }
    }

    /// Its tokens.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.words.iter().map(|word| words::id(word)).collect()
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    Length,
}

impl Finish {
    /// As the API writes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

fn seed(prompt: &[u32]) -> u64 {
    prompt.iter().fold(0, |seed, &token| SplitMix64::new(seed ^ u64::from(token)).next_u64())
}

const SHORTEST: usize = 16;
const LONGEST: usize = 256;

#[cfg(test)]
mod tests {
    use routing_plugins::tokenize::Tokenizer;

    use super::*;

    const ROOM: usize = 10_000;

    #[test]
    fn a_limit_gives_the_beginning_of_the_answer() {
        let whole = Answer::to(&[1, 2, 3], Limits::default(), ROOM);
        assert!((SHORTEST..=LONGEST).contains(&whole.words.len()));
        assert_eq!(whole.finish, Finish::Stop);
        let cut = Answer::to(&[1, 2, 3], Limits { most: Some(5), ..Limits::default() }, ROOM);
        assert_eq!((cut.words.as_slice(), cut.finish), (&whole.words[..5], Finish::Length));
        assert_eq!(Answer::to(&[1, 2, 3], Limits::default(), 5), cut, "as does a context that is full");
        assert_ne!(Answer::to(&[1, 2, 4], Limits::default(), ROOM).words, whole.words);
    }

    #[test]
    fn an_ignored_end_and_a_least_length_make_it_longer() {
        let tokens = |limits| Answer::to(&[9], limits, ROOM).words.len();
        assert_eq!(tokens(Limits { most: Some(900), ignore_end: true, ..Limits::default() }), 900);
        assert_eq!(tokens(Limits { least: 700, ..Limits::default() }), 700);
        assert_eq!(tokens(Limits { least: 700, most: Some(300), ..Limits::default() }), 300);
    }

    #[test]
    fn an_answer_read_back_is_its_tokens() {
        let answer = Answer::to(&[5], Limits::default(), ROOM);
        let mut read = Vec::new();
        words::Words.encode(&answer.words.concat(), &mut read).unwrap();
        assert_eq!(read, answer.ids());
    }
}
