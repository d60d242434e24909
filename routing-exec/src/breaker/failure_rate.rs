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

    /// The samples that the share is of.
    fn weighed(&self, config: &BreakerConfig) -> f64 {
        f64::from(self.samples.clamp(1, config.failure_rate_window.max(1)))
    }
}
