//! Leaves out pods by any of their figures.

use kv_index::PodSet;
use routing_core::{Context, Declare, Filter, PluginError, Read};

use super::keep::keep;
use super::metric::{Comparison, Metric, Unreported};
use crate::load::PodLoad;
use crate::parameters::Amount;
use crate::prepare::Loads;

/// What [`MetricFilter`] takes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct MetricParameters {
    /// What must hold, all of it.
    pub conditions: Vec<MetricCondition>,
    /// What is made of an engine's figures of no known age; `trust` unless given.
    #[cfg_attr(feature = "serde", serde(default))]
    pub unreported: Unreported,
}

impl MetricParameters {
    /// Conditions on figures that are taken as they are.
    #[must_use]
    pub const fn new(conditions: Vec<MetricCondition>) -> Self {
        Self { conditions, unreported: Unreported::Trust }
    }
}

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct MetricCondition {
    /// The figure.
    pub metric: Metric,
    /// How it must stand to the value: `below`, `at_most`, `equal`, `not_equal`, `at_least` or `above`; or `<`, `<=`, `==`,
    /// `!=`, `>=`, `>`.
    pub is: Comparison,
    /// The value.
    pub value: Amount,
}

impl MetricCondition {
    /// Whether it holds for a pod.
    #[inline]
    fn holds(&self, load: &PodLoad, unreported: Unreported) -> bool {
        let verdict = if self.metric.is_reported() { unreported.verdict(load) } else { None };
        // What stands here was made precise when the filter was made.
        verdict.unwrap_or_else(|| self.is.holds(self.metric.of(load), self.value.get()))
    }
}

/// Keeps the pods for whose figures every condition holds.
///
/// The general form of filters by load; [`ConcurrencyFilter`](super::ConcurrencyFilter) and
/// [`UtilizationFilter`](super::UtilizationFilter) are the common ones. Figures that only the engine knows (`running`,
/// `waiting`, `kv_used`) may be of no known age; `unreported` says what is made of them. Without a condition everybody
/// stays.
///
/// Whether `OnEmpty::Fail` or `OnEmpty::KeepPrevious` is sensible depends on what the figure is for: a limit fails, a
/// preference gives way.
#[derive(Clone, Debug)]
pub struct MetricFilter {
    conditions: Box<[MetricCondition]>,
    unreported: Unreported,
    loads: Read<Loads>,
}

impl MetricFilter {
    /// Declares that it reads loads.
    pub fn declare(declare: &mut Declare<'_>, parameters: MetricParameters) -> Self {
        let MetricParameters { mut conditions, unreported } = parameters;
        for condition in &mut conditions {
            let precise = condition.metric.precise(condition.value.get());
            // A single may have no room for it. Beyond all figures is beyond all figures.
            condition.value = Amount::new(precise).unwrap_or(condition.value);
        }
        Self { conditions: conditions.into(), unreported, loads: declare.reads() }
    }
}

impl<const W: usize> Filter<W> for MetricFilter {
    fn filter(&self, context: &Context<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let loads = context.read(self.loads)?;
        let all = |load: &PodLoad| self.conditions.iter().all(|condition| condition.holds(load, self.unreported));
        Ok(keep(candidates, |pod| all(&loads.of(pod))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::filter::testing::{Setup, request};

    fn condition(metric: Metric, is: Comparison, value: f64) -> MetricCondition {
        MetricCondition { metric, is, value: Amount::new(value).unwrap() }
    }

    fn kept<const W: usize>(setup: &Setup<W>, parameters: MetricParameters) -> Vec<usize> {
        setup.kept(request(), move |declare| MetricFilter::declare(declare, parameters))
    }

    fn check<const W: usize>() {
        let setup = Setup::<W>::new(4)
            .load(0, |load| (load.running, load.kv_used) = (3, 0.8))
            .load(1, |load| (load.running, load.kv_used) = (3, 0.9))
            .load(2, |load| (load.running, load.kv_used) = (4, 0.8));
        let running = condition(Metric::Running, Comparison::AtMost, 3.0);
        let used = condition(Metric::KvUsed, Comparison::AtMost, 0.8);
        assert_eq!(kept(&setup, MetricParameters::new(vec![running])), [0, 1, 3]);
        assert_eq!(kept(&setup, MetricParameters::new(vec![running, used])), [0, 3], "all must hold");
        assert_eq!(kept(&setup, MetricParameters::new(vec![])), [0, 1, 2, 3]);
    }

    #[test]
    fn every_condition_must_hold() {
        check::<1>();
        check::<4>();
        check::<16>();
    }

    #[test]
    fn figures_of_no_age_are_believed_kept_or_removed() {
        let fresh = |load: &mut PodLoad| load.age = Some(Duration::from_millis(5));
        let setup = Setup::<4>::new(3).load(0, |load| load.waiting = 9).load(1, fresh);
        let with = |metric, unreported| {
            let conditions = vec![condition(metric, Comparison::Below, 9.0)];
            kept(&setup, MetricParameters { conditions, unreported })
        };
        assert_eq!(with(Metric::Waiting, Unreported::Trust), [1, 2]);
        assert_eq!(with(Metric::Waiting, Unreported::Keep), [0, 1, 2]);
        assert_eq!(with(Metric::Waiting, Unreported::Remove), [1]);
        assert_eq!(with(Metric::InFlightRequests, Unreported::Remove), [0, 1, 2], "counted here, not reported");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_are_words_or_signs() {
        let text = "{conditions: [{metric: kv_used, is: '<=', value: 0.9}, {metric: waiting, is: below, value: 4}]}";
        let parameters: MetricParameters = serde_yaml_ng::from_str(text).unwrap();
        let expected =
            [condition(Metric::KvUsed, Comparison::AtMost, 0.9), condition(Metric::Waiting, Comparison::Below, 4.0)];
        assert_eq!(parameters.conditions, expected);
        let read = serde_yaml_ng::from_str::<MetricParameters>;
        assert!(read("{conditions: [{metric: waiting, is: below, value: -1}]}").is_err());
        assert!(read("{conditions: [{metric: queue, is: below, value: 1}]}").is_err());
        assert!(read("{}").is_err());
    }
}
