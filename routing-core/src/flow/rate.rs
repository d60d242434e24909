//! Service rate: tokens a second that left the queue lately, by an exponentially weighted mean.

use std::time::{Duration, Instant};

/// Tokens that leave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServiceRate {
    first: Option<Instant>,
    last: Option<Instant>,
    /// Tokens, of which those of long ago count less.
    tokens: f64,
}

impl ServiceRate {
    pub(super) fn left(&mut self, tokens: u64, now: Instant) {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) > FORGOTTEN) {
            // What left before a quiet spell says nothing.
            *self = Self::default();
        }
        self.first.get_or_insert(now);
        let since = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.tokens = self.tokens * (-since.as_secs_f64() / MEMORY_SECONDS).exp() + tokens as f64;
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
    }

    /// How long so many tokens take to leave; none before anything left.
    pub(super) fn time_for(&self, tokens: u64, now: Instant) -> Option<Duration> {
        let (first, last) = self.first.zip(self.last)?;
        let since = now.saturating_duration_since(last);
        if since > FORGOTTEN {
            return None;
        }
        let since = since.as_secs_f64();
        let counted = self.tokens * (-since / MEMORY_SECONDS).exp();
        // What the memory of so short a time is worth: all of it, once it is long.
        let age = now.saturating_duration_since(first).as_secs_f64().max(LEAST_SECONDS);
        let span = MEMORY_SECONDS * (1.0 - (-age / MEMORY_SECONDS).exp());
        Duration::try_from_secs_f64(tokens as f64 * span / counted.max(f64::MIN_POSITIVE)).ok()
    }
}

/// What left longer ago than this hardly counts.
const MEMORY_SECONDS: f64 = 10.0;
/// Nothing is known of the rate if nothing left for so long: nothing had to wait.
const FORGOTTEN: Duration = Duration::from_secs(15);
/// A rate is not told from less.
const LEAST_SECONDS: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::queue::tests::start;

    #[test]
    fn a_steady_rate_is_found_soon_and_a_pause_makes_it_longer() {
        let (start, mut rate) = (start(), ServiceRate::default());
        let second = |at: f64| start + Duration::from_secs_f64(at);
        assert_eq!(rate.time_for(1, start), None);
        for at in 0..300 {
            rate.left(100, second(f64::from(at) / 10.0));
        }
        let takes = |at: f64| rate.time_for(10_000, second(at)).unwrap().as_secs_f64();
        assert!((takes(30.0) - 10.0).abs() < 0.5, "{}", takes(30.0));
        assert!(takes(40.0) > 25.0, "nothing left for ten seconds");
        assert_eq!(rate.time_for(1, second(60.0)), None, "nor for half a minute: nothing waited");
    }
}
