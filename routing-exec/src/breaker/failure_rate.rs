//! Failure rate: the share of a pod's last requests that failed, by an exponentially weighted moving average.

use super::BreakerConfig;

/// The share of a pod's last samples that were failures, exponentially smoothed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FailureRate {
    share: f64,
    samples: u32,
}

impl FailureRate {
    pub(super) fn add(&mut self, is_failure: bool, config: &BreakerConfig) {
        self.samples = self.samples.saturating_add(1);
        self.share += (f64::from(u8::from(is_failure)) - self.share) / self.weighed(config);
    }

    pub(super) fn take_back(&mut self, config: &BreakerConfig) {
        self.share = (self.share - 1.0 / self.weighed(config)).max(0.0);
    }

    pub(super) fn exceeds(&self, config: &BreakerConfig) -> bool {
        self.samples >= config.failure_rate_min_requests && config.failure_rate.is_some_and(|limit| self.share > limit)
    }

    /// How many of 256 requests go to other pods, where there are better ones: none while few failed, and nearly all before the breaker opens.
    pub(super) fn withheld(&self, config: &BreakerConfig) -> u8 {
        let Some(limit) = config.failure_rate.filter(|limit| *limit > 0.0) else { return 0 };
        // A share of few requests says little: as if others had succeeded.
        let least = config.failure_rate_min_requests.max(1);
        let share = self.share * f64::from(self.samples.min(least)) / f64::from(least);
        let part = (share / limit - TOLERATED) / (1.0 - TOLERATED);
        (256.0 * part.clamp(0.0, MOST)) as u8
    }

    /// The samples that the share is of.
    fn weighed(&self, config: &BreakerConfig) -> f64 {
        f64::from(self.samples.clamp(1, config.failure_rate_window.max(1)))
    }
}

/// The part of the failures that open a breaker that nothing is withheld for: all pods fail now and then.
const TOLERATED: f64 = 0.2;

/// The most that is withheld: without requests a pod could not show that it is well again.
const MOST: f64 = 0.9;
