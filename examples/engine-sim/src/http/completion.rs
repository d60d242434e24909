//! Deterministic completions: words that depend on nothing but the prompt's tokens and the limits.
//!
//! Invariant: every pod gives the same completion, and a tighter limit gives the beginning of it.

use pointsman_example_common::words;
use pointsman_lab::SplitMix64;

/// Limits of a completion, as the client sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OutputLimits {
    /// No longer than that.
    pub(super) most: Option<usize>,
    /// No shorter than that, if the model has its way.
    pub(super) least: usize,
    /// Goes on until the limit.
    pub(super) ignore_end: bool,
}

/// A completion, whole from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Completion {
    /// Tokens as text, each with the blank before it.
    pub(super) words: Vec<&'static str>,
    /// Whether the model came to an end, or the limit did.
    pub(super) finish: FinishReason,
}

impl Completion {
    /// The completion of a prompt. `room` is how many tokens the context has left for it; at least one is given.
    pub(super) fn to(prompt: &[u32], limits: OutputLimits, room: usize) -> Self {
        let mut rng = SplitMix64::new(seed(prompt));
        let natural = rng.between(SHORTEST, LONGEST).max(limits.least);
        let most = limits.most.unwrap_or(usize::MAX).min(room);
        let (tokens, finish) = match limits.ignore_end {
            true if limits.most.is_some() => (most, FinishReason::Length),
            _ if most <= natural => (most, FinishReason::Length),
            _ => (natural, FinishReason::Stop),
        };
        Self { words: (0..tokens.max(1)).map(|_| words::word(rng.next_u64())).collect(), finish }
    }

    /// Its tokens.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.words.iter().map(|word| words::id(word)).collect()
    }
}

/// Why a completion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FinishReason {
    Stop,
    Length,
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
    fn a_limit_gives_the_beginning_of_the_completion() {
        let whole = Completion::to(&[1, 2, 3], OutputLimits::default(), ROOM);
        assert!((SHORTEST..=LONGEST).contains(&whole.words.len()));
        assert_eq!(whole.finish, FinishReason::Stop);
        let cut = Completion::to(&[1, 2, 3], OutputLimits { most: Some(5), ..OutputLimits::default() }, ROOM);
        assert_eq!((cut.words.as_slice(), cut.finish), (&whole.words[..5], FinishReason::Length));
        assert_eq!(Completion::to(&[1, 2, 3], OutputLimits::default(), 5), cut, "as does a context that is full");
        assert_ne!(Completion::to(&[1, 2, 4], OutputLimits::default(), ROOM).words, whole.words);
    }

    #[test]
    fn an_ignored_end_and_a_least_length_make_it_longer() {
        let tokens = |limits| Completion::to(&[9], limits, ROOM).words.len();
        assert_eq!(tokens(OutputLimits { most: Some(900), ignore_end: true, ..OutputLimits::default() }), 900);
        assert_eq!(tokens(OutputLimits { least: 700, ..OutputLimits::default() }), 700);
        assert_eq!(tokens(OutputLimits { least: 700, most: Some(300), ..OutputLimits::default() }), 300);
    }

    #[test]
    fn a_completion_read_back_is_its_tokens() {
        let completion = Completion::to(&[5], OutputLimits::default(), ROOM);
        let mut read = Vec::new();
        words::Words.encode(&completion.words.concat(), &mut read).unwrap();
        assert_eq!(read, completion.ids());
    }
}
