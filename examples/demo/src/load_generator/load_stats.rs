//! Load statistics: answers, failures, token counts, latencies.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::load_generator::client::Answer;
use crate::load_generator::failure::Failure;

/// Statistics of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadStats {
    /// Whole answers.
    pub(crate) answered: usize,
    /// Failures by kind.
    pub(crate) failed: BTreeMap<String, usize>,
    /// The first unreported failures.
    pub(crate) unreported: Vec<Failure>,
    /// Tokens of the answered prompts.
    pub(crate) prompt_tokens: usize,
    /// Of those, tokens that some pod held already.
    pub(crate) cached_tokens: usize,
    /// Tokens of answers.
    pub(crate) generated_tokens: usize,
    /// Times to first tokens, in the order of ends.
    pub(crate) ttft: Vec<Duration>,
    /// Times between tokens.
    pub(crate) inter_token: Vec<Duration>,
}

impl LoadStats {
    /// Counts the end of a request.
    pub(crate) fn add(&mut self, end: &Result<Answer, Failure>) {
        match end {
            Ok(answer) => {
                self.answered += 1;
                self.prompt_tokens += answer.usage.prompt;
                self.cached_tokens += answer.usage.cached;
                self.generated_tokens += answer.usage.generated;
                self.ttft.extend(answer.ttft);
                self.inter_token.extend(&answer.inter_token);
            }
            Err(failure) => {
                *self.failed.entry(failure.kind()).or_default() += 1;
                if !failure.is_reported() && self.unreported.len() < KEPT {
                    self.unreported.push(failure.clone());
                }
            }
        }
    }

    /// Requests that ended.
    pub(crate) fn requests(&self) -> usize {
        self.answered + self.failures()
    }

    /// Requests that failed.
    pub(crate) fn failures(&self) -> usize {
        self.failed.values().sum()
    }

    /// The share of prompt tokens that were held already; 0 if there were none.
    pub(crate) fn hit_rate(&self) -> f64 {
        self.cached_tokens as f64 / self.prompt_tokens.max(1) as f64
    }
}

/// The value that so many percent do not exceed, of at least one value; the smallest such.
pub(crate) fn percentile(values: &[Duration], percent: usize) -> Option<Duration> {
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
    use crate::load_generator::sse_reader::Usage;

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
        let mut stats = LoadStats::default();
        let answer = Answer {
            text: String::new(),
            usage: Usage { prompt: 100, cached: 25, generated: 3 },
            ttft: Some(Duration::from_millis(5)),
            inter_token: vec![Duration::from_millis(1); 2],
            total: Duration::from_millis(9),
        };
        stats.add(&Ok(answer.clone()));
        stats.add(&Ok(answer));
        stats.add(&Err(Failure::Status(503)));
        stats.add(&Err(Failure::Truncated(4)));
        assert_eq!((stats.requests(), stats.answered, stats.failures()), (4, 2, 2));
        assert_eq!((stats.prompt_tokens, stats.cached_tokens, stats.generated_tokens), (200, 50, 6));
        assert!((stats.hit_rate() - 0.25).abs() < 1e-9);
        assert_eq!(stats.unreported, [Failure::Truncated(4)]);
        assert_eq!((stats.ttft.len(), stats.inter_token.len()), (2, 4));
    }
}
