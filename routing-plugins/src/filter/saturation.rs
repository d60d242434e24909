//! Saturation detection: how full a fleet is, for hosts that shed or queue requests.
//!
//! 0 is idle, 1 is full, and more is more than that. A fleet without pods is full: there is nothing to admit to.

use super::in_flight::{Figures, InFlightLimit};
use super::metric::Metric;
use crate::extra::UtilizationParameters;
use crate::load::PodLoad;

/// How full a fleet is by what its engines report: the mean over pods of
/// max(waiting ÷ [`waiting`](UtilizationParameters::waiting), KV use ÷ [`kv_used`](UtilizationParameters::kv_used)).
///
/// A pod without a [report that counts](PodLoad::is_reported) counts as [`unreported`](UtilizationParameters::unreported) says: by its figures
/// with `Trust`, as full (1) with `Remove`, and not at all with `Keep`; if none counts, the fleet is idle. Headroom is for
/// filters and does not count here.
///
/// # Examples
///
/// ```
/// use routing_plugins::extra::{UtilizationParameters};
/// use routing_plugins::filter::{saturation};
/// use routing_plugins::load::PodLoad;
///
/// let (mut queueing, idle) = (PodLoad::default(), PodLoad::default());
/// queueing.waiting = 10;
/// let limits = UtilizationParameters::default();
/// assert_eq!(saturation::by_utilization(&limits, [queueing, idle]), 1.0, "5 waiting are full");
/// assert_eq!(saturation::by_utilization(&limits, []), 1.0);
/// ```
#[must_use]
pub fn by_utilization(limits: &UtilizationParameters, loads: impl IntoIterator<Item = PodLoad>) -> f64 {
    let fullness = |load: &PodLoad| {
        let (waiting, kv_used) = (f64::from(load.waiting), Metric::KvUsed.of(load));
        (waiting / limits.waiting.get()).max(kv_used / limits.kv_used.get())
    };
    let (mut sum, mut counted, mut pods) = (0.0, 0_u32, 0_u32);
    for load in loads {
        pods += 1;
        match limits.unreported.verdict(&load) {
            None => sum += fullness(&load),
            Some(false) => sum += 1.0,
            Some(true) => continue,
        }
        counted += 1;
    }
    match (pods, counted) {
        (0, _) => 1.0,
        (_, 0) => 0.0,
        _ => sum / f64::from(counted),
    }
}

/// How full a fleet is by what is in flight: the mean over pods of the largest of what it has ÷ a limit.
///
/// With one limit that is all that is in flight ÷ all that may be. Without a limit, as without pods, it is 1.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU32;
///
/// use routing_plugins::filter::{Figures, InFlightLimit, saturation};
/// use routing_plugins::load::PodLoad;
///
/// let limit = InFlightLimit::Requests(NonZeroU32::new(10).expect("not zero"));
/// let mut load = PodLoad::default();
/// load.requests = 5;
/// assert_eq!(saturation::by_concurrency(&[limit], Figures::Merged, [load]), 0.5);
/// ```
#[must_use]
pub fn by_concurrency(limits: &[InFlightLimit], figures: Figures, loads: impl IntoIterator<Item = PodLoad>) -> f64 {
    let share = |load: &PodLoad, limit: &InFlightLimit| limit.of(load, figures) as f64 / limit.get() as f64;
    let fullness = |load: &PodLoad| limits.iter().map(|limit| share(load, limit)).fold(0.0, f64::max);
    let (mut sum, mut pods) = (0.0, 0_u32);
    for load in loads {
        (sum, pods) = (sum + fullness(&load), pods + 1);
    }
    if pods == 0 || limits.is_empty() { 1.0 } else { sum / f64::from(pods) }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};
    use std::time::Duration;

    use super::*;
    use crate::filter::Unreported;

    fn load(waiting: u32, kv_used: f32) -> PodLoad {
        PodLoad { waiting, kv_used, age: Some(Duration::ZERO), ..PodLoad::default() }
    }

    #[test]
    fn the_fuller_figure_counts_and_pods_are_averaged() {
        let limits = UtilizationParameters::default();
        let near = |loads: &[PodLoad], expected: f64| {
            let found = by_utilization(&limits, loads.iter().copied());
            assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
        };
        near(&[load(1, 0.4)], 0.5);
        near(&[load(4, 0.4)], 0.8);
        near(&[load(4, 0.4), load(0, 0.0)], 0.4);
        near(&[load(10, 0.4)], 2.0);
        near(&[load(0, f32::NAN)], 1.25);
        near(&[], 1.0);
    }

    #[test]
    fn what_is_not_reported_is_believed_left_out_or_full() {
        let old = PodLoad { waiting: 10, ..PodLoad::default() };
        let by = |unreported, loads: &[PodLoad]| {
            let limits = UtilizationParameters { unreported, ..UtilizationParameters::default() };
            by_utilization(&limits, loads.iter().copied())
        };
        let both = [old, load(0, 0.0)];
        assert_eq!(by(Unreported::Trust, &both), 1.0);
        assert_eq!(by(Unreported::Remove, &both), 0.5);
        assert_eq!(by(Unreported::Keep, &both), 0.0);
        assert_eq!(by(Unreported::Keep, &[old]), 0.0);
        assert_eq!(by(Unreported::Keep, &[]), 1.0);
        let stale = PodLoad { stale: true, ..load(10, 0.0) };
        let all = [Unreported::Trust, Unreported::Remove, Unreported::Keep];
        assert_eq!(all.map(|unreported| by(unreported, &[stale])), [2.0, 1.0, 0.0]);
    }

    #[test]
    fn one_limit_is_a_sum_and_several_take_the_fuller() {
        let requests = InFlightLimit::Requests(NonZeroU32::new(10).unwrap());
        let tokens = InFlightLimit::Tokens(NonZeroU64::new(100).unwrap());
        let load = |requests, tokens| PodLoad { requests, tokens, ..PodLoad::default() };
        let by = |limits: &[_], loads: &[PodLoad]| by_concurrency(limits, Figures::Merged, loads.iter().copied());
        assert_eq!(by(&[requests], &[load(15, 0), load(5, 0)]), 1.0);
        assert_eq!(by(&[tokens], &[load(15, 3)]), 0.03);
        assert_eq!(by(&[requests, tokens], &[load(5, 80), load(6, 20)]), 0.7);
        assert_eq!(by(&[requests], &[]), 1.0);
        assert_eq!(by(&[], &[load(1, 1)]), 1.0);
    }
}
