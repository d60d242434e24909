//! Circuit breakers and retries: when a pod is left alone, for how long, how much of a fleet may be, and what is tried again.

use std::time::Duration;

use routing_exec::{BreakerConfig, RetryBudget, RetryOn};
use serde::{Deserialize, Serialize};

use super::{Problem, duration};

/// Circuit breakers. The words in brackets are those of Envoy's outlier detection.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Breakers {
    /// Failures in a row that open a breaker (`consecutive_5xx`).
    pub consecutive_failures: u32,
    /// The share of the last requests whose failure opens a breaker; none switches that off (`failure_percentage_threshold`).
    pub failure_rate: Option<f64>,
    /// How many last requests that is the share of.
    pub failure_rate_window: u32,
    /// How many there have to be before it counts (`failure_percentage_request_volume`).
    pub failure_rate_min_requests: u32,
    /// How long a breaker stays open; each time in a row doubles it (`base_ejection_time`).
    #[serde(with = "duration")]
    pub open_duration: Duration,
    /// The longest time that it does (`max_ejection_time`).
    #[serde(with = "duration")]
    pub max_open_duration: Duration,
    /// The share of the fleet that may be out, in percent; one pod may be in any case (`max_ejection_percent`).
    pub max_open_percent: f64,
    /// Requests at a time that try whether a pod is well again.
    pub max_probes: u32,
    /// How many of them in a row have to succeed.
    pub success_threshold: u32,
    /// A first byte later than so many times the fleet's mean is a failure; none switches that off.
    pub slow_factor: Option<f64>,
    /// No first byte earlier than this is late.
    #[serde(with = "duration")]
    pub slow_floor: Duration,
    /// How long a pod that pushes back (429, 503) is left alone, if it does not ask for more; each time in a row doubles it.
    #[serde(with = "duration")]
    pub cool_duration: Duration,
    /// The longest time that it is, whatever it asks for.
    #[serde(with = "duration")]
    pub max_cool_duration: Duration,
    /// Whether a request goes to a pod whose breaker is open where no other is left (`healthy_panic_threshold`).
    pub fail_open: bool,
}

impl Default for Breakers {
    /// As the executor has them.
    fn default() -> Self {
        let config = BreakerConfig::default();
        Self {
            consecutive_failures: config.failure_threshold,
            failure_rate: config.failure_rate,
            failure_rate_window: config.failure_rate_window,
            failure_rate_min_requests: config.failure_rate_min_requests,
            open_duration: config.open_duration,
            max_open_duration: config.max_open_duration,
            max_open_percent: config.max_open_share * 100.0,
            max_probes: config.max_probes,
            success_threshold: config.success_threshold,
            slow_factor: config.slow_factor,
            slow_floor: config.slow_floor,
            cool_duration: config.cool_duration,
            max_cool_duration: config.max_cool_duration,
            fail_open: true,
        }
    }
}

impl Breakers {
    /// The same for a router.
    pub(crate) fn config(&self) -> BreakerConfig {
        BreakerConfig::default()
            .failure_threshold(self.consecutive_failures)
            .failure_rate(self.failure_rate)
            .failure_rate_window(self.failure_rate_window)
            .failure_rate_min_requests(self.failure_rate_min_requests)
            .open_duration(self.open_duration)
            .max_open_duration(self.max_open_duration)
            .max_open_share(self.max_open_percent / 100.0)
            .max_probes(self.max_probes)
            .success_threshold(self.success_threshold)
            .slow_factor(self.slow_factor)
            .slow_floor(self.slow_floor)
            .cool_duration(self.cool_duration)
            .max_cool_duration(self.max_cool_duration)
    }

    /// Finds values that make no sense; durations are checked with all others.
    pub(super) fn check(&self, found: &mut Vec<Problem>) {
        let mut say = |field: &str, reason: String| found.push(Problem::new(format!("breakers.{field}"), reason));
        for (field, value) in [
            ("consecutive_failures", self.consecutive_failures),
            ("failure_rate_window", self.failure_rate_window),
            ("failure_rate_min_requests", self.failure_rate_min_requests),
            ("max_probes", self.max_probes),
            ("success_threshold", self.success_threshold),
        ] {
            if value == 0 {
                say(field, "0 makes no sense; at least 1".to_owned());
            }
        }
        if let Some(rate) = self.failure_rate.filter(|rate| !(*rate > 0.0 && *rate < 1.0)) {
            say("failure_rate", format!("{rate} is not a share between 0 and 1; `null` switches it off"));
        }
        if let Some(factor) = self.slow_factor.filter(|factor| !(*factor > 1.0 && factor.is_finite())) {
            say("slow_factor", format!("{factor} is not above 1; `null` switches it off"));
        }
        let percent = self.max_open_percent;
        if !(0.0..=100.0).contains(&percent) {
            say("max_open_percent", format!("{percent} is not between 0 and 100"));
        }
        for (field, longest, first) in [
            ("max_open_duration", self.max_open_duration, self.open_duration),
            ("max_cool_duration", self.max_cool_duration, self.cool_duration),
        ] {
            if longest < first {
                say(field, format!("it is below `{}`, which it bounds", field.trim_start_matches("max_")));
            }
        }
    }

    /// Its durations, by their paths.
    pub(super) fn durations(&self) -> [(&'static str, Duration); 5] {
        [
            ("breakers.open_duration", self.open_duration),
            ("breakers.max_open_duration", self.max_open_duration),
            ("breakers.slow_floor", self.slow_floor),
            ("breakers.cool_duration", self.cool_duration),
            ("breakers.max_cool_duration", self.max_cool_duration),
        ]
    }
}

/// Retry policy.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Retry {
    /// Pods tried for a step, the first included.
    pub max_attempts: u32,
    /// Retries that each request pays for (`retry_budget.budget_percent`).
    pub budget_ratio: f64,
    /// Retries a second beside them (`retry_budget.min_retry_concurrency`).
    pub budget_per_second: f64,
    /// Retries that are saved up at most, and that there are from the start.
    pub budget_reserve: f64,
    /// What is tried again on another pod.
    pub retry_on: RetryConditions,
    /// Whether a stream of completions that ends without `data: [DONE]` is a failure.
    pub require_done: bool,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            budget_ratio: 0.2,
            budget_per_second: 10.0,
            budget_reserve: 100.0,
            retry_on: RetryConditions::default(),
            require_done: true,
        }
    }
}

impl Retry {
    /// Its budget, full.
    pub(crate) fn budget(&self) -> RetryBudget {
        RetryBudget::new(self.budget_ratio, self.budget_per_second, self.budget_reserve).reserve(self.budget_reserve)
    }

    /// Whether the budgets of both are alike; one that is kept keeps what was spent.
    pub(crate) fn has_budget_of(&self, other: &Self) -> bool {
        let of = |retry: &Self| (retry.budget_ratio, retry.budget_per_second, retry.budget_reserve);
        of(self) == of(other)
    }

    pub(super) fn check(&self, found: &mut Vec<Problem>) {
        for (field, value) in [
            ("budget_ratio", self.budget_ratio),
            ("budget_per_second", self.budget_per_second),
            ("budget_reserve", self.budget_reserve),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                found.push(Problem::new(format!("retry.{field}"), format!("{value} is not a number from 0 on")));
            }
        }
    }
}

/// Failures that are tried again on another pod.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RetryConditions {
    /// No connection.
    pub connect_failure: bool,
    /// First-byte timeouts.
    pub first_byte_timeout: bool,
    /// Streams that stalled or broke before the client got anything.
    pub reset: bool,
    /// 5xx but for 503.
    pub server_error: bool,
    /// 429 and 503.
    pub overloaded: bool,
    /// 401, 403 and 404: once, on one other pod.
    pub refused: bool,
    /// Any other 4xx but for 429: likewise.
    pub rejected: bool,
}

impl Default for RetryConditions {
    fn default() -> Self {
        let [connect_failure, first_byte_timeout, reset, server_error, overloaded, refused, rejected] = [true; 7];
        Self { connect_failure, first_byte_timeout, reset, server_error, overloaded, refused, rejected }
    }
}

impl RetryConditions {
    /// The same for an executor.
    pub(crate) fn conditions(&self) -> RetryOn {
        RetryOn::default()
            .connect_failure(self.connect_failure)
            .first_byte_timeout(self.first_byte_timeout)
            .reset(self.reset)
            .server_error(self.server_error)
            .overloaded(self.overloaded)
            .refused(self.refused)
            .rejected(self.rejected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_executor() {
        let breakers = Breakers::default();
        assert_eq!(breakers.config(), BreakerConfig::default());
        let policy = routing_exec::DispatchPolicy::default();
        assert_eq!((breakers.fail_open, Retry::default().require_done), (policy.fail_open, policy.require_done));
        assert_eq!(
            (Retry::default().max_attempts, RetryConditions::default().conditions()),
            (policy.max_attempts, policy.retry_on)
        );
        assert_eq!(format!("{:?}", Retry::default().budget()), format!("{:?}", RetryBudget::default()));
    }

    #[test]
    fn every_setting_reaches_the_executor() {
        let text = "{ consecutive_failures: 1, failure_rate: 0.9, failure_rate_window: 2, failure_rate_min_requests: 3, \
                    open_duration: 4s, max_open_duration: 5s, max_open_percent: 60, max_probes: 7, success_threshold: 8, \
                    slow_factor: null, slow_floor: 9s, cool_duration: 10s, max_cool_duration: 11s, fail_open: false }";
        let breakers: Breakers = serde_yaml_ng::from_str(text).unwrap();
        let s = Duration::from_secs;
        let expected = BreakerConfig::default().failure_threshold(1).failure_rate(Some(0.9)).failure_rate_window(2);
        let expected = expected.failure_rate_min_requests(3).open_duration(s(4)).max_open_duration(s(5));
        let expected = expected.max_open_share(0.6).max_probes(7).success_threshold(8).slow_factor(None);
        assert_eq!(breakers.config(), expected.slow_floor(s(9)).cool_duration(s(10)).max_cool_duration(s(11)));
        // And is shown as it is written.
        let shown = serde_json::to_value(&breakers).unwrap();
        assert_eq!((shown["open_duration"].as_str(), shown["max_open_percent"].as_f64()), (Some("4s"), Some(60.0)));
        let again: Breakers = serde_json::from_value(shown).unwrap();
        assert_eq!(again, breakers);
    }
}
