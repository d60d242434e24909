//! Time series: one sample a second, for the last five minutes.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

/// The last samples, and the current second.
#[derive(Debug, Default)]
pub(super) struct TimeSeries {
    past: VecDeque<Sample>,
    requests: u64,
    prompt_tokens: u64,
    expected_tokens: u64,
    first_bytes: Vec<Duration>,
}

/// One second.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Sample {
    /// Whole seconds since the gateway started.
    pub t: u64,
    /// Requests decided.
    pub requests: u64,
    /// Cached share of the prompt tokens; none without tokens.
    pub hit_rate: Option<f64>,
    /// Median time to first token; none without one.
    pub ttft_p50_ms: Option<f64>,
    /// 99th percentile of it.
    pub ttft_p99_ms: Option<f64>,
}

impl TimeSeries {
    pub(super) fn record_decision(&mut self, prompt_tokens: u64, expected_tokens: u64) {
        self.requests += 1;
        self.prompt_tokens += prompt_tokens;
        self.expected_tokens += expected_tokens;
    }

    pub(super) fn record_first_byte(&mut self, took: Duration) {
        self.first_bytes.push(took);
    }

    pub(super) fn tick(&mut self, t: u64) {
        let mut ttfts = std::mem::take(&mut self.first_bytes);
        ttfts.sort_unstable();
        let at = |share: f64| {
            let last = ttfts.len().checked_sub(1)?;
            ttfts.get((last as f64 * share).round() as usize).map(|ttft| ttft.as_secs_f64() * 1000.0)
        };
        let hit_rate = (self.prompt_tokens > 0).then(|| self.expected_tokens as f64 / self.prompt_tokens as f64);
        let second = Sample { t, requests: self.requests, hit_rate, ttft_p50_ms: at(0.5), ttft_p99_ms: at(0.99) };
        if self.past.len() == MAX_SAMPLES {
            self.past.pop_front();
        }
        self.past.push_back(second);
        (self.requests, self.prompt_tokens, self.expected_tokens) = (0, 0, 0);
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        self.past.iter().cloned().collect()
    }
}

const MAX_SAMPLES: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_sums_up_and_the_next_begins_with_nothing() {
        let mut series = TimeSeries::default();
        series.record_decision(100, 40);
        series.record_decision(100, 60);
        (1..=100).for_each(|ms| series.record_first_byte(Duration::from_millis(ms)));
        series.tick(7);
        series.tick(8);
        let samples = series.samples();
        assert_eq!((samples[0].t, samples[0].requests, samples[0].hit_rate), (7, 2, Some(0.5)));
        assert_eq!((samples[0].ttft_p50_ms, samples[0].ttft_p99_ms), (Some(51.0), Some(99.0)));
        assert_eq!((samples[1].requests, samples[1].hit_rate, samples[1].ttft_p50_ms), (0, None, None));
    }

    #[test]
    fn old_seconds_are_forgotten() {
        let mut series = TimeSeries::default();
        (0..400).for_each(|t| series.tick(t));
        let samples = series.samples();
        assert_eq!((samples.len(), samples[0].t), (300, 100));
    }
}
