//! A figure a second, for as long as a page is wide.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

/// The last seconds, and the one under way.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    past: VecDeque<Second>,
    requests: u64,
    prompt_tokens: u64,
    matched_tokens: u64,
    first_bytes: Vec<Duration>,
}

/// What happened in a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Second {
    /// Whole seconds since the gateway started.
    pub t: u64,
    /// Requests decided.
    pub requests: u64,
    /// The share of their prompts' tokens that their pods held; none if there were no tokens.
    pub hit_rate: Option<f64>,
    /// The median wait for a first byte; none if none came.
    pub ttft_p50_ms: Option<f64>,
    /// What one in a hundred waited longer than.
    pub ttft_p99_ms: Option<f64>,
}

impl Seconds {
    pub(super) fn decided(&mut self, prompt_tokens: u64, matched_tokens: u64) {
        self.requests += 1;
        self.prompt_tokens += prompt_tokens;
        self.matched_tokens += matched_tokens;
    }

    pub(super) fn first_byte(&mut self, took: Duration) {
        self.first_bytes.push(took);
    }

    pub(super) fn tick(&mut self, t: u64) {
        let mut waits = std::mem::take(&mut self.first_bytes);
        waits.sort_unstable();
        let at = |share: f64| {
            let last = waits.len().checked_sub(1)?;
            waits.get((last as f64 * share).round() as usize).map(|wait| wait.as_secs_f64() * 1000.0)
        };
        let hit_rate = (self.prompt_tokens > 0).then(|| self.matched_tokens as f64 / self.prompt_tokens as f64);
        let second = Second { t, requests: self.requests, hit_rate, ttft_p50_ms: at(0.5), ttft_p99_ms: at(0.99) };
        if self.past.len() == MOST_SECONDS {
            self.past.pop_front();
        }
        self.past.push_back(second);
        (self.requests, self.prompt_tokens, self.matched_tokens) = (0, 0, 0);
    }

    pub(super) fn series(&self) -> Vec<Second> {
        self.past.iter().cloned().collect()
    }
}

const MOST_SECONDS: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_sums_up_and_the_next_begins_with_nothing() {
        let mut seconds = Seconds::default();
        seconds.decided(100, 40);
        seconds.decided(100, 60);
        (1..=100).for_each(|ms| seconds.first_byte(Duration::from_millis(ms)));
        seconds.tick(7);
        seconds.tick(8);
        let series = seconds.series();
        assert_eq!((series[0].t, series[0].requests, series[0].hit_rate), (7, 2, Some(0.5)));
        assert_eq!((series[0].ttft_p50_ms, series[0].ttft_p99_ms), (Some(51.0), Some(99.0)));
        assert_eq!((series[1].requests, series[1].hit_rate, series[1].ttft_p50_ms), (0, None, None));
    }

    #[test]
    fn old_seconds_are_forgotten() {
        let mut seconds = Seconds::default();
        (0..400).for_each(|t| seconds.tick(t));
        let series = seconds.series();
        assert_eq!((series.len(), series[0].t), (300, 100));
    }
}
