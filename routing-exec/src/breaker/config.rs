//! Configuration of circuit breakers: when they open, for how long, and how much of a fleet may be out.

use std::time::Duration;

/// Configuration of circuit breakers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BreakerConfig {
    /// Consecutive failures that open a breaker; at least one.
    pub failure_threshold: u32,
    /// How long a breaker stays open. Each time in a row doubles it.
    pub open_duration: Duration,
    /// The longest time that it does; not less than the first.
    pub max_open_duration: Duration,
    /// Concurrent probes of a half-open breaker; at least one.
    pub max_probes: u32,
    /// Consecutive successful probes that close a half-open breaker; at least one.
    pub success_threshold: u32,
    /// A time to first byte of so many times the fleet's mean is a failure; `None` switches that off.
    pub slow_factor: Option<f64>,
    /// No time to first byte below this is slow.
    pub slow_floor: Duration,
    /// The share of the last requests whose failure opens a breaker though not in a row; `None` switches that off. From a fifth of it on a part
    /// of the requests goes to pods that fail less, nine tenths at most.
    pub failure_rate: Option<f64>,
    /// How many last requests that is the share of; at least one.
    pub failure_rate_window: u32,
    /// How many there have to be before it counts.
    pub failure_rate_min_requests: u32,
    /// How long a pod that pushes back (429, 503) is left alone, if it does not ask for more. Each time in a row doubles it.
    pub cool_duration: Duration,
    /// The longest time that it is, whatever it asks for.
    pub max_cool_duration: Duration,
    /// The share of the fleet that may be out, by open breakers and push-back; one pod may be in any case. Where more would be, the
    /// fault is hardly the pods'. Counts where the [fleet's size](super::Breakers::set_fleet_size) is told, as a router does.
    pub max_open_share: f64,
}

crate::setters::setters! { BreakerConfig {
    failure_threshold: u32,
    open_duration: Duration,
    max_open_duration: Duration,
    max_probes: u32,
    success_threshold: u32,
    slow_factor: Option<f64>,
    slow_floor: Duration,
    failure_rate: Option<f64>,
    failure_rate_window: u32,
    failure_rate_min_requests: u32,
    cool_duration: Duration,
    max_cool_duration: Duration,
    max_open_share: f64,
} }

impl Default for BreakerConfig {
    /// Five failures in a row or half of the last twenty, and of ten at least; 10 s open and up to 80 s; one probe, two successes; slow
    /// is ten times the mean and above 5 s; push-back counts for 1 s and up to 30 s; the whole fleet may be out, since then requests go past the breakers.
    fn default() -> Self {
        let s = Duration::from_secs;
        Self {
            failure_threshold: 5,
            open_duration: s(10),
            max_open_duration: s(80),
            max_probes: 1,
            success_threshold: 2,
            slow_factor: Some(10.0),
            slow_floor: s(5),
            failure_rate: Some(0.5),
            failure_rate_window: 20,
            failure_rate_min_requests: 10,
            cool_duration: s(1),
            max_cool_duration: s(30),
            max_open_share: 1.0,
        }
    }
}
