//! Service rate: tokens a second that left the queue lately, by an exponentially weighted mean.
//!
//! The rule: silence while something waits is part of the rate, which falls; silence while nothing does says nothing.

use std::time::{Duration, Instant};

/// Tokens that leave a band.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServiceRate {
    first: Option<Instant>,
    last: Option<Instant>,
    /// Since when something waits; none while nothing does.
    waits: Option<Instant>,
    /// Tokens, of which those of long ago count less.
    tokens: f64,
}

impl ServiceRate {
    /// Something waits, where nothing did.
    pub(super) fn begins(&mut self, now: Instant) {
        if self.is_forgotten(now) {
            *self = Self::default();
        }
        self.waits = Some(now);
    }

    /// Nothing waits any more.
    pub(super) fn ends(&mut self) {
        self.waits = None;
    }

    pub(super) fn left(&mut self, tokens: u64, now: Instant) {
        self.first.get_or_insert(now);
        let since = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.tokens = self.tokens * (-since.as_secs_f64() / MEMORY_SECONDS).exp() + tokens as f64;
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
    }

    /// Tokens a second; none before anything left.
    pub(super) fn per_second(&self, now: Instant) -> Option<f64> {
        let (first, last) = self.first.zip(self.last)?;
        if self.is_forgotten(now) {
            return None;
        }
        let since = now.saturating_duration_since(last).as_secs_f64();
        let counted = self.tokens * (-since / MEMORY_SECONDS).exp();
        // What the memory of so short a time is worth: all of it, once it is long.
        let age = now.saturating_duration_since(first).as_secs_f64().max(LEAST_SECONDS);
        let span = MEMORY_SECONDS * (1.0 - (-age / MEMORY_SECONDS).exp());
        Some(counted / span)
    }

    /// How long something has waited without anything leaving.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        let since = self.waits.map(|waits| self.last.map_or(waits, |last| last.max(waits)));
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Nothing waited for so long that what left before says nothing.
    fn is_forgotten(&self, now: Instant) -> bool {
        let is_old = |last: Instant| now.saturating_duration_since(last) > FORGOTTEN;
        self.waits.is_none() && self.last.is_some_and(is_old)
    }
}

/// What left longer ago than this hardly counts.
const MEMORY_SECONDS: f64 = 10.0;
/// How long a rate is known for while nothing waits.
const FORGOTTEN: Duration = Duration::from_secs(15);
/// A rate is not told from less.
const LEAST_SECONDS: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::queue::tests::start;

    /// 1,000 tokens a second for half a minute.
    fn steady(start: Instant) -> ServiceRate {
        let mut rate = ServiceRate::default();
        rate.begins(start);
        (0..300).for_each(|at| rate.left(100, start + Duration::from_millis(100 * at)));
        rate
    }

    #[test]
    fn a_steady_rate_is_found_soon_and_falls_while_what_waits_does_not_leave() {
        let start = start();
        let second = |at: u64| start + Duration::from_secs(at);
        assert_eq!(ServiceRate::default().per_second(start), None);
        let rate = steady(start);
        let at = |at: u64| rate.per_second(second(at)).unwrap();
        assert!((at(30) - 1_000.0).abs() < 50.0, "{}", at(30));
        assert!(at(40) < 400.0, "nothing left for ten seconds");
        assert!((0.1..3.0).contains(&at(90)), "nor for a minute, and it is not forgotten: {}", at(90));
        assert_eq!(rate.silence(second(90)).as_secs(), 60);
    }

    #[test]
    fn silence_says_nothing_while_nothing_waits() {
        let start = start();
        let mut rate = steady(start);
        rate.ends();
        let later = start + Duration::from_secs(60);
        assert_eq!((rate.per_second(later), rate.silence(later)), (None, Duration::ZERO));
        rate.begins(later);
        assert_eq!(rate.per_second(later + Duration::from_secs(5)), None);
        assert_eq!(rate.silence(later + Duration::from_secs(5)).as_secs(), 5);
    }
}
