//! The three states of a breaker, one function each.

use std::time::{Duration, Instant};

use super::BreakerConfig;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Everything goes through; so many failed in a row.
    Closed { failures: u32 },
    /// Nothing goes through until then; so often in a row was it opened.
    Open { until: Instant, times: u32 },
    /// So many are being tried out, and so many did well in a row.
    HalfOpen { probes: u32, successes: u32, times: u32 },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl State {
    /// Whether one more request may go through; counts it if it is a probe.
    pub(super) fn admit(&mut self, config: &BreakerConfig, now: Instant) -> bool {
        self.tick(now);
        match self {
            Self::Closed { .. } => true,
            Self::Open { .. } => false,
            Self::HalfOpen { probes, .. } => {
                let free = *probes < config.probes.max(1);
                *probes += u32::from(free);
                free
            }
        }
    }

    /// What follows a request that did well or did not.
    pub(super) fn judged(self, well: bool, config: &BreakerConfig, now: Instant) -> Self {
        match self {
            Self::Closed { failures } => closed(failures, well, config, now),
            // A request that was sent before the circuit opened tells nothing new.
            Self::Open { .. } => self,
            Self::HalfOpen { probes, successes, times } => half_open((probes, successes, times), well, config, now),
        }
    }

    /// An open circuit whose time is up is tried out.
    pub(super) fn tick(&mut self, now: Instant) {
        if let Self::Open { until, times } = *self {
            if now >= until {
                *self = Self::HalfOpen { probes: 0, successes: 0, times };
            }
        }
    }

    /// A probe ended, however it did.
    pub(super) fn give_back(&mut self) {
        if let Self::HalfOpen { probes, .. } = self {
            *probes = probes.saturating_sub(1);
        }
    }

    pub(super) fn open_until(&self) -> Option<Instant> {
        if let Self::Open { until, .. } = self { Some(*until) } else { None }
    }

    /// Whether another is of the same kind.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    pub(super) fn is_half_open(&self) -> bool {
        matches!(self, Self::HalfOpen { .. })
    }
}

fn closed(failures: u32, well: bool, config: &BreakerConfig, now: Instant) -> State {
    let failures = if well { 0 } else { failures.saturating_add(1) };
    if failures < config.failures.max(1) { State::Closed { failures } } else { opened(0, config, now) }
}

fn half_open((probes, successes, times): (u32, u32, u32), well: bool, config: &BreakerConfig, now: Instant) -> State {
    if !well {
        return opened(times, config, now);
    }
    let successes = successes.saturating_add(1);
    if successes < config.successes.max(1) { State::HalfOpen { probes, successes, times } } else { State::default() }
}

/// Opens, for twice as long each time in a row.
fn opened(times: u32, config: &BreakerConfig, now: Instant) -> State {
    let open_for = config.open_for.saturating_mul(1 << times.min(3)).min(LONGEST);
    State::Open { until: now.checked_add(open_for).unwrap_or(now), times: times.saturating_add(1) }
}

/// No circuit stays open for longer, so that its end can be told as a moment.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn start() -> Instant {
        Instant::now()
    }

    fn config() -> BreakerConfig {
        let (open_for, never_slow) = (Duration::from_secs(10), Duration::from_secs(5));
        BreakerConfig { failures: 3, open_for, probes: 2, successes: 2, slow: None, never_slow }
    }

    #[test]
    fn closed_lets_everything_through_and_a_success_forgets_failures() {
        let (mut state, now) = (State::Closed { failures: 2 }, start());
        assert!((0..100).all(|_| state.admit(&config(), now)));
        assert_eq!(state.judged(true, &config(), now), State::Closed { failures: 0 });
    }

    #[test]
    fn closed_opens_at_the_last_failure_in_a_row() {
        let now = start();
        let state = State::default().judged(false, &config(), now).judged(false, &config(), now);
        assert_eq!(state, State::Closed { failures: 2 });
        let until = now + Duration::from_secs(10);
        assert_eq!(state.judged(false, &config(), now), State::Open { until, times: 1 });
    }

    #[test]
    fn open_lets_nothing_through_and_learns_nothing_until_its_time_is_up() {
        let now = start();
        let open = State::Open { until: now + Duration::from_secs(10), times: 1 };
        let mut state = open;
        assert!(!state.admit(&config(), now + Duration::from_millis(9_999)) && state == open);
        let late = now + Duration::from_secs(60);
        assert!([true, false].iter().all(|well| open.judged(*well, &config(), late) == open));
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
        state.give_back();
        assert!(state.admit(&config(), now) && !state.admit(&config(), now));
    }

    #[test]
    fn half_open_closes_after_so_many_successes_in_a_row() {
        let now = start();
        let state = State::HalfOpen { probes: 1, successes: 0, times: 3 }.judged(true, &config(), now);
        assert_eq!(state, State::HalfOpen { probes: 1, successes: 1, times: 3 });
        assert_eq!(state.judged(true, &config(), now), State::default(), "and the times it was open are forgotten");
    }

    #[test]
    fn half_open_opens_at_the_first_failure_for_twice_as_long_each_time() {
        let now = start();
        let seconds = [0, 1, 2, 3, 4, u32::MAX].map(|times| {
            let half_open = State::HalfOpen { probes: 1, successes: 1, times };
            half_open.judged(false, &config(), now).open_until().map(|until| (until - now).as_secs())
        });
        assert_eq!(seconds, [10, 20, 40, 80, 80, 80].map(Some));
    }

    #[test]
    fn numbers_at_their_limits_do_no_harm() {
        let now = start();
        let config = BreakerConfig { failures: 0, open_for: Duration::MAX, probes: 0, successes: 0, ..config() };
        let open = State::Closed { failures: u32::MAX }.judged(false, &config, now);
        assert_eq!(open.open_until().map(|until| until - now), Some(LONGEST), "one failure is enough");
        let mut half_open = State::HalfOpen { probes: 0, successes: u32::MAX, times: 0 };
        assert!(half_open.admit(&config, now), "one is let through");
        assert_eq!(half_open.judged(true, &config, now), State::default());
    }

    #[test]
    fn a_place_is_given_back_only_where_there_are_places() {
        for mut state in [State::default(), State::HalfOpen { probes: 0, successes: 0, times: 1 }] {
            let before = state;
            state.give_back();
            assert_eq!(state, before);
        }
    }
}
