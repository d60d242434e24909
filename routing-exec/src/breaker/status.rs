//! Circuit breaker status: one pod's breaker as it stands, as plain data.

use std::time::{Duration, Instant};

use super::state::State;

/// Whether a circuit breaker admits requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the three states of a circuit breaker: complete by nature")]
pub enum BreakerState {
    /// All requests are admitted.
    #[default]
    Closed,
    /// None is admitted.
    Open,
    /// Probes are admitted.
    HalfOpen,
}

impl BreakerState {
    /// Its name in metrics, logs and on pages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// Which circuit breakers it is: those of one [`Breakers`](super::Breakers) have one, and no two at a time the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BreakersId(pub(super) usize);

/// A pod's circuit breaker, as [`Breakers::status`](super::Breakers::status) tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerStatus {
    /// Whether it admits requests.
    pub state: BreakerState,
    /// When an open one lets a probe through.
    pub open_until: Option<Instant>,
    /// How often it opened since it was closed last.
    pub times_opened: u32,
    /// When the first failure was recorded after which there was no success.
    pub failing_since: Option<Instant>,
    /// How many of a hundred requests go elsewhere though it is closed, since too many failed lately: the more, the nearer that is to
    /// [`BreakerConfig::failure_rate`](super::BreakerConfig::failure_rate). What the pods that are offered have in common counts for none.
    pub withheld_percent: u8,
}

impl BreakerStatus {
    /// Whether it is open because the pod pushes back (429, 503): the pod is full, not broken.
    #[must_use]
    pub fn is_cooling(&self) -> bool {
        self.state == BreakerState::Open && self.times_opened == 0
    }

    /// Its name in metrics, logs and on pages: `closed`, `open`, `half_open`, or `cooling` where the pod pushes back.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.is_cooling() { "cooling" } else { self.state.name() }
    }

    /// How long it would refuse a request: nothing where it is half-open, and its probes are under way.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.open_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    pub(super) fn of(state: &State, failing_since: Option<Instant>) -> Self {
        let (kind, times_opened) = match *state {
            State::Closed { .. } => (BreakerState::Closed, 0),
            State::Open { times, .. } => (BreakerState::Open, times),
            // It is full, not broken.
            State::Cooling { .. } => (BreakerState::Open, 0),
            State::HalfOpen { times, .. } => (BreakerState::HalfOpen, times),
        };
        Self { state: kind, open_until: state.open_until(), times_opened, failing_since, withheld_percent: 0 }
    }
}
