//! What clients saw, added up.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::load::client::Answer;
use crate::load::failure::Failure;

/// Answers and failures of a run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Whole answers.
    pub answered: usize,
    /// Failures by kind.
    pub failed: BTreeMap<String, usize>,
    /// The first failures that were not clean, as they were.
    pub unclean: Vec<Failure>,
    /// Tokens of the answered prompts.
    pub prompt_tokens: usize,
    /// Of those, tokens that some pod held already.
    pub cached_tokens: usize,
    /// Tokens of answers.
    pub generated_tokens: usize,
    /// Times to first tokens, in the order of ends.
    pub firsts: Vec<Duration>,
    /// Times between tokens.
    pub gaps: Vec<Duration>,
}

impl Tally {
    /// Counts the end of a request.
    pub fn add(&mut self, end: &Result<Answer, Failure>) {
        match end {
            Ok(answer) => {
                self.answered += 1;
                self.prompt_tokens += answer.usage.prompt;
                self.cached_tokens += answer.usage.cached;
                self.generated_tokens += answer.usage.generated;
                self.firsts.extend(answer.first);
                self.gaps.extend(&answer.gaps);
            }
            Err(failure) => {
                *self.failed.entry(failure.kind()).or_default() += 1;
                if !failure.is_clean() && self.unclean.len() < KEPT {
                    self.unclean.push(failure.clone());
                }
            }
        }
    }

    /// Requests that ended.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.answered + self.failures()
    }

    /// Requests that failed.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.failed.values().sum()
    }

    /// The share of prompt tokens that were held already; 0 if there were none.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        self.cached_tokens as f64 / self.prompt_tokens.max(1) as f64
    }
}

/// The value that so many percent do not exceed, of at least one value; the smallest such.
#[must_use]
pub fn percentile(values: &[Duration], percent: usize) -> Option<Duration> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Failures kept word for word.
const KEPT: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::stream::Usage;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let ms = |n: u64| Duration::from_millis(n);
        let hundred: Vec<Duration> = (1..=100).rev().map(ms).collect();
        assert_eq!([0, 1, 50, 99, 100].map(|p| percentile(&hundred, p).unwrap()), [1, 1, 50, 99, 100].map(ms));
        assert_eq!([1, 50, 99].map(|p| percentile(&[ms(7)], p).unwrap()), [ms(7); 3]);
        assert_eq!(percentile(&[ms(1), ms(9), ms(5)], 50), Some(ms(5)));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn answers_and_failures_add_up() {
        let mut tally = Tally::default();
        let answer = Answer {
            text: String::new(),
            usage: Usage { prompt: 100, cached: 25, generated: 3 },
            first: Some(Duration::from_millis(5)),
            gaps: vec![Duration::from_millis(1); 2],
            total: Duration::from_millis(9),
        };
        tally.add(&Ok(answer.clone()));
        tally.add(&Ok(answer));
        tally.add(&Err(Failure::Status(503)));
        tally.add(&Err(Failure::Cut(4)));
        assert_eq!((tally.requests(), tally.answered, tally.failures()), (4, 2, 2));
        assert_eq!((tally.prompt_tokens, tally.cached_tokens, tally.generated_tokens), (200, 50, 6));
        assert!((tally.hit_rate() - 0.25).abs() < 1e-9);
        assert_eq!(tally.unclean, [Failure::Cut(4)]);
        assert_eq!((tally.firsts.len(), tally.gaps.len()), (2, 4));
    }
}
