//! Circuit breaker states: closed, open and half-open.

use std::time::{Duration, Instant};

use super::BreakerConfig;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// All requests are admitted.
    Closed { failures: u32 },
    /// None is admitted until then; `times` counts openings in a row.
    Open { until: Instant, times: u32 },
    /// None is admitted until then, since the pod pushes back; then all are. The failures before it were failures all the same.
    Cooling { until: Instant, failures: u32 },
    /// Probes are admitted.
    HalfOpen { probes: u32, successes: u32, times: u32 },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl State {
    /// Admits a request or not; counts a probe.
    pub(super) fn admit(&mut self, config: &BreakerConfig, now: Instant) -> bool {
        self.tick(now);
        match self {
            Self::Closed { .. } => true,
            Self::Open { .. } | Self::Cooling { .. } => false,
            Self::HalfOpen { probes, .. } => {
                let free = *probes < config.max_probes.max(1);
                *probes += u32::from(free);
                free
            }
        }
    }

    /// The state after a sample.
    pub(super) fn sampled(self, is_success: bool, config: &BreakerConfig, now: Instant) -> Self {
        match self {
            Self::Closed { .. } if is_success => Self::default(),
            // What was sent before it cooled is not sampled; this went past it, for want of another pod.
            Self::Cooling { .. } if is_success => Self::default(),
            Self::Closed { failures } | Self::Cooling { failures, .. } => match failures.saturating_add(1) {
                failures if failures < config.failure_threshold.max(1) => self.with_failures(failures),
                _ => Self::opened(0, config, now),
            },
            // So did this: its time is not up, but the pod is well again.
            Self::Open { times, .. } if is_success => {
                Self::HalfOpen { probes: 0, successes: 0, times }.sampled(true, config, now)
            }
            Self::Open { .. } => self,
            Self::HalfOpen { times, .. } if !is_success => Self::opened(times, config, now),
            Self::HalfOpen { probes, successes, times } => match successes.saturating_add(1) {
                successes if successes < config.success_threshold.max(1) => Self::HalfOpen { probes, successes, times },
                _ => Self::default(),
            },
        }
    }

    /// Turns an open breaker half-open when its time is up.
    pub(super) fn tick(&mut self, now: Instant) {
        match *self {
            Self::Open { until, times } if now >= until => *self = Self::HalfOpen { probes: 0, successes: 0, times },
            Self::Cooling { until, failures } if now >= until => *self = Self::Closed { failures },
            _ => {}
        }
    }

    /// The state before the last failure.
    pub(super) fn taken_back(self, config: &BreakerConfig) -> Self {
        match self {
            Self::Closed { failures } | Self::Cooling { failures, .. } => {
                self.with_failures(failures.saturating_sub(1))
            }
            Self::Open { times: 0 | 1, .. } => Self::Closed { failures: config.failure_threshold.max(1) - 1 },
            Self::Open { times, .. } => Self::HalfOpen { probes: 0, successes: 0, times: times - 1 },
            state => state,
        }
    }

    /// The same with another count of failures, where it has one.
    fn with_failures(self, failures: u32) -> Self {
        match self {
            Self::Closed { .. } => Self::Closed { failures },
            Self::Cooling { until, .. } => Self::Cooling { until, failures },
            state => state,
        }
    }

    /// The failures in a row of a pod that is not out of order.
    pub(super) fn failures(&self) -> Option<u32> {
        match self {
            Self::Closed { failures } | Self::Cooling { failures, .. } => Some(*failures),
            _ => None,
        }
    }

    /// A probe ended.
    pub(super) fn release_probe(&mut self) {
        if let Self::HalfOpen { probes, .. } = self {
            *probes = probes.saturating_sub(1);
        }
    }

    pub(super) fn open_until(&self) -> Option<Instant> {
        match self {
            Self::Open { until, .. } | Self::Cooling { until, .. } => Some(*until),
            _ => None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// Whether another is the same variant.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    pub(super) fn is_half_open(&self) -> bool {
        matches!(self, Self::HalfOpen { .. })
    }

    /// Opens, with exponential backoff.
    pub(super) fn opened(times: u32, config: &BreakerConfig, now: Instant) -> Self {
        let longest = config.max_open_duration.max(config.open_duration).min(MAX_OPEN);
        let open_for = config.open_duration.saturating_mul(1 << times.min(20)).min(longest);
        Self::Open { until: now.checked_add(open_for).unwrap_or(now), times: times.saturating_add(1) }
    }
}

/// The longest time open, within the range of `Instant`.
const MAX_OPEN: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn start() -> Instant {
        Instant::now()
    }

    fn config() -> BreakerConfig {
        let (open_duration, slow_floor) = (Duration::from_secs(10), Duration::from_secs(5));
        BreakerConfig {
            failure_threshold: 3,
            open_duration,
            max_probes: 2,
            success_threshold: 2,
            slow_factor: None,
            slow_floor,
            ..BreakerConfig::default()
        }
    }

    #[test]
    fn closed_lets_everything_through_and_a_success_forgets_failures() {
        let (mut state, now) = (State::Closed { failures: 2 }, start());
        assert!((0..100).all(|_| state.admit(&config(), now)));
        assert_eq!(state.sampled(true, &config(), now), State::Closed { failures: 0 });
    }

    #[test]
    fn closed_opens_at_the_last_failure_in_a_row() {
        let now = start();
        let state = State::default().sampled(false, &config(), now).sampled(false, &config(), now);
        assert_eq!(state, State::Closed { failures: 2 });
        let until = now + Duration::from_secs(10);
        assert_eq!(state.sampled(false, &config(), now), State::Open { until, times: 1 });
    }

    #[test]
    fn open_lets_nothing_through_and_learns_nothing_until_its_time_is_up() {
        let now = start();
        let open = State::Open { until: now + Duration::from_secs(10), times: 1 };
        let mut state = open;
        assert!(!state.admit(&config(), now + Duration::from_millis(9_999)) && state == open);
        let late = now + Duration::from_secs(60);
        assert_eq!(open.sampled(false, &config(), late), open);
        state.tick(now + Duration::from_secs(10));
        assert_eq!(state, State::HalfOpen { probes: 0, successes: 0, times: 1 });
    }

    #[test]
    fn an_open_circuit_whose_time_is_up_is_tried_out_by_whoever_asks() {
        let now = start();
        let mut state = State::Open { until: now, times: 1 };
        assert!(state.admit(&config(), now));
        assert_eq!(state, State::HalfOpen { probes: 1, successes: 0, times: 1 });
    }

    #[test]
    fn half_open_lets_so_many_through_at_once() {
        let (mut state, now) = (State::HalfOpen { probes: 0, successes: 0, times: 1 }, start());
        assert!(state.admit(&config(), now) && state.admit(&config(), now) && !state.admit(&config(), now));
        state.release_probe();
        assert!(state.admit(&config(), now) && !state.admit(&config(), now));
    }

    #[test]
    fn half_open_closes_after_so_many_successes_in_a_row() {
        let now = start();
        let state = State::HalfOpen { probes: 1, successes: 0, times: 3 }.sampled(true, &config(), now);
        assert_eq!(state, State::HalfOpen { probes: 1, successes: 1, times: 3 });
        assert_eq!(state.sampled(true, &config(), now), State::default(), "and the times it was open are forgotten");
    }

    #[test]
    fn half_open_opens_at_the_first_failure_for_twice_as_long_each_time() {
        let now = start();
        let seconds = [0, 1, 2, 3, 4, u32::MAX].map(|times| {
            let half_open = State::HalfOpen { probes: 1, successes: 1, times };
            half_open.sampled(false, &config(), now).open_until().map(|until| (until - now).as_secs())
        });
        assert_eq!(seconds, [10, 20, 40, 80, 80, 80].map(Some));
    }

    #[test]
    fn the_longest_time_open_is_what_is_configured_and_not_below_the_first() {
        let now = start();
        for (longest, seconds) in [(15, [10, 15, 15]), (1, [10, 10, 10]), (1000, [10, 20, 160])] {
            let config = config().max_open_duration(Duration::from_secs(longest));
            let opened = [0, 1, 4]
                .map(|times| State::opened(times, &config, now).open_until().map(|until| (until - now).as_secs()));
            assert_eq!(opened, seconds.map(Some), "{longest}");
        }
    }

    #[test]
    fn failures_in_a_row_outlast_a_push_back() {
        let now = start();
        let until = now + Duration::from_secs(1);
        let mut state = State::Cooling { until, failures: 2 };
        assert_eq!(state.taken_back(&config()), State::Cooling { until, failures: 1 });
        assert!(state.sampled(false, &config(), now).is_open(), "one that went past it counts");
        assert_eq!(state.sampled(true, &config(), now), State::default());
        state.tick(until);
        assert_eq!(state, State::Closed { failures: 2 });
    }

    #[test]
    fn numbers_at_their_limits_do_no_harm() {
        let now = start();
        let config = BreakerConfig {
            failure_threshold: 0,
            open_duration: Duration::MAX,
            max_probes: 0,
            success_threshold: 0,
            ..config()
        };
        let open = State::Closed { failures: u32::MAX }.sampled(false, &config, now);
        assert_eq!(open.open_until().map(|until| until - now), Some(MAX_OPEN), "one failure is enough");
        let mut half_open = State::HalfOpen { probes: 0, successes: u32::MAX, times: 0 };
        assert!(half_open.admit(&config, now), "one is let through");
        assert_eq!(half_open.sampled(true, &config, now), State::default());
    }

    #[test]
    fn a_place_is_given_back_only_where_there_are_places() {
        for mut state in [State::default(), State::HalfOpen { probes: 0, successes: 0, times: 1 }] {
            let before = state;
            state.release_probe();
            assert_eq!(state, before);
        }
    }
}
