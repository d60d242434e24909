//! Metric filter: pods whose metrics compare as configured.

use std::fmt;
use std::sync::Arc;

use kv_index::{PodId, PodSet};
use routing_core::{Declare, Filter, PluginError, Read, RoutingContext};

use crate::extra::Metrics;
#[cfg(feature = "serde")]
use crate::filter::checks;
use crate::filter::retain::retain;
use crate::filter::{Comparison, Metric, Unreported};
use crate::load::PodLoad;
use crate::prepare::Loads;

/// What [`MetricFilter`] takes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct MetricFilterParameters {
    /// What must hold, all of it.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "checks::list"))]
    pub conditions: Vec<MetricCondition>,
    /// What is made of an engine's figures of no known age, or too high a one; `trust` unless given.
    #[cfg_attr(feature = "serde", serde(default))]
    pub unreported: Unreported,
}

crate::parameters::setters! { MetricFilterParameters {
    unreported: Unreported,
} }

impl MetricFilterParameters {
    /// Conditions on figures that are taken as they are.
    #[must_use]
    pub const fn new(conditions: Vec<MetricCondition>) -> Self {
        Self { conditions, unreported: Unreported::Trust }
    }
}

/// Whose figure is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a figure that is known here, or one of the host's: complete by nature")]
pub enum MetricSource {
    /// A figure of the pod's load: `waiting`.
    Load(Metric),
    /// A figure of the host's, by name: `{host: name}`.
    Host(Box<str>),
}

impl From<Metric> for MetricSource {
    fn from(metric: Metric) -> Self {
        Self::Load(metric)
    }
}

/// What a figure must be.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "RawCondition"))]
pub struct MetricCondition {
    metric: MetricSource,
    is: Comparison,
    /// As precise as the figure is.
    value: f64,
}

/// Why there is no such condition. An operator's to fix.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricConditionError {
    /// The figure is never there: counts are not below 0, shares not above 1, and nothing is infinite.
    #[error("no figure of this metric is {0}")]
    Value(f64),
    /// A figure of the host's without a name.
    #[error("the host's metric has no name")]
    Unnamed,
}

impl MetricCondition {
    /// A condition on a figure. In documents, `is` is `below`, `at_most`, `equal`, `not_equal`, `at_least` or `above`; or
    /// `<`, `<=`, `==`, `!=`, `>=`, `>`.
    ///
    /// # Errors
    ///
    /// When the figure cannot have the value, so that the condition would hold always or never.
    pub fn new(metric: impl Into<MetricSource>, is: Comparison, value: f64) -> Result<Self, MetricConditionError> {
        let metric = metric.into();
        let (can_be, value) = match &metric {
            MetricSource::Host(name) if name.is_empty() => return Err(MetricConditionError::Unnamed),
            MetricSource::Host(_) => (value.is_finite(), value),
            MetricSource::Load(Metric::KvUsed) => ((0.0..=1.0).contains(&value), Metric::KvUsed.precise(value)),
            MetricSource::Load(_) => (value >= 0.0 && value.is_finite(), value),
        };
        if can_be { Ok(Self { metric, is, value }) } else { Err(MetricConditionError::Value(value)) }
    }

    /// Whether it holds for a pod.
    #[inline]
    fn holds(&self, pod: PodId, load: &PodLoad, metrics: &dyn Metrics, unreported: Unreported) -> bool {
        match &self.metric {
            MetricSource::Load(metric) => {
                let verdict = if metric.is_reported() { unreported.verdict(load) } else { None };
                verdict.unwrap_or_else(|| self.is.holds(metric.of(load), self.value))
            }
            MetricSource::Host(name) => match metrics.figure(name, pod).filter(|figure| figure.is_finite()) {
                Some(figure) => self.is.holds(figure, self.value),
                None => unreported != Unreported::Remove,
            },
        }
    }
}

/// A metric as documents give it: a word, or a name of the host's. By hand, since an untagged enum would not say what is wrong with
/// the latter.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for MetricSource {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SourceVisitor)
    }
}

#[cfg(feature = "serde")]
struct SourceVisitor;

#[cfg(feature = "serde")]
impl<'de> serde::de::Visitor<'de> for SourceVisitor {
    type Value = MetricSource;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a metric that is known here, or `{host: name}`")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<MetricSource, E> {
        let word = serde::de::IntoDeserializer::into_deserializer(word);
        serde::Deserialize::deserialize(word).map(MetricSource::Load)
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<MetricSource, A::Error> {
        let named = serde::de::value::MapAccessDeserializer::new(map);
        let HostMetric { host } = serde::Deserialize::deserialize(named)?;
        Ok(MetricSource::Host(host))
    }
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct HostMetric {
    host: Box<str>,
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCondition {
    metric: MetricSource,
    is: Comparison,
    value: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<RawCondition> for MetricCondition {
    type Error = MetricConditionError;

    fn try_from(raw: RawCondition) -> Result<Self, MetricConditionError> {
        Self::new(raw.metric, raw.is, raw.value)
    }
}

/// Keeps the pods for whose figures every condition holds.
///
/// The general form of filters by load; [`ConcurrencyFilter`](crate::filter::ConcurrencyFilter) and
/// [`UtilizationFilter`](crate::extra::UtilizationFilter) are the common ones. Figures that only the engine knows (`running`,
/// `waiting`, `kv_used`) may be of no known age, or too old; `unreported` says what is made of them. A figure of the host's
/// that a pod does not have keeps its pod, or removes it if `unreported` is `remove`; one that is not finite counts as
/// none. Without a condition everybody stays; documents must have one.
///
/// Whether `OnEmpty::Fail` or `OnEmpty::KeepPrevious` is sensible depends on what the figure is for: a limit fails, a
/// preference gives way.
#[derive(Clone)]
pub struct MetricFilter {
    parameters: MetricFilterParameters,
    metrics: Arc<dyn Metrics>,
    loads: Read<Loads>,
}

impl MetricFilter {
    /// Declares that it reads loads.
    pub fn declare(declare: &mut Declare<'_>, parameters: MetricFilterParameters, metrics: Arc<dyn Metrics>) -> Self {
        Self { parameters, metrics, loads: declare.reads() }
    }
}

impl<const W: usize> Filter<W> for MetricFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let MetricFilterParameters { conditions, unreported } = &self.parameters;
        let loads = context.read(self.loads)?;
        Ok(retain(candidates, |pod| {
            let load = loads.of(pod);
            conditions.iter().all(|condition| condition.holds(pod, &load, &*self.metrics, *unreported))
        }))
    }
}

impl fmt::Debug for MetricFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricFilter").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::filter::testing::{Setup, request};

    fn condition(metric: Metric, is: Comparison, value: f64) -> MetricCondition {
        MetricCondition::new(metric, is, value).unwrap()
    }

    fn kept<const W: usize>(setup: &Setup<W>, parameters: MetricFilterParameters) -> Vec<usize> {
        setup.kept(request(), move |declare| MetricFilter::declare(declare, parameters, Arc::new(())))
    }

    fn check<const W: usize>() {
        let setup = Setup::<W>::new(4)
            .load(0, |load| (load.running, load.kv_used) = (3, 0.8))
            .load(1, |load| (load.running, load.kv_used) = (3, 0.9))
            .load(2, |load| (load.running, load.kv_used) = (4, 0.8));
        let running = condition(Metric::Running, Comparison::AtMost, 3.0);
        let used = condition(Metric::KvUsed, Comparison::AtMost, 0.8);
        assert_eq!(kept(&setup, MetricFilterParameters::new(vec![running.clone()])), [0, 1, 3]);
        assert_eq!(kept(&setup, MetricFilterParameters::new(vec![running, used])), [0, 3], "all must hold");
        assert_eq!(kept(&setup, MetricFilterParameters::new(vec![])), [0, 1, 2, 3]);
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
        let stale = |load: &mut PodLoad| (load.age, load.stale) = (Some(Duration::from_secs(50)), true);
        let setup = <Setup>::new(4).load(0, |load| load.waiting = 9).load(1, fresh).load(3, stale);
        let with = |metric, unreported| {
            let conditions = vec![condition(metric, Comparison::Below, 9.0)];
            kept(&setup, MetricFilterParameters { conditions, unreported })
        };
        assert_eq!(with(Metric::Waiting, Unreported::Trust), [1, 2, 3]);
        assert_eq!(with(Metric::Waiting, Unreported::Keep), [0, 1, 2, 3]);
        assert_eq!(with(Metric::Waiting, Unreported::Remove), [1]);
        assert_eq!(with(Metric::InFlightRequests, Unreported::Remove), [0, 1, 2, 3], "counted here, not reported");
    }

    /// Pods 0, 1 and 2 have −1.5, 0 and 1.5; 3 has none that is a number, 4 none.
    #[derive(Debug)]
    struct Heat;

    impl Metrics for Heat {
        fn figure(&self, metric: &str, pod: PodId) -> Option<f64> {
            [-1.5, 0.0, 1.5, f64::NAN].get(pod.index()).copied().filter(|_| metric == "heat")
        }
    }

    #[test]
    fn figures_of_the_host_are_any_numbers() {
        let with = |name: &str, is, value, unreported| {
            let conditions = vec![MetricCondition::new(MetricSource::Host(name.into()), is, value).unwrap()];
            let parameters = MetricFilterParameters { conditions, unreported };
            <Setup>::new(5).kept(request(), move |d| MetricFilter::declare(d, parameters, Arc::new(Heat)))
        };
        assert_eq!(with("heat", Comparison::Below, -0.5, Unreported::Remove), [0]);
        assert_eq!(with("heat", Comparison::AtLeast, 0.0, Unreported::Remove), [1, 2]);
        assert_eq!(with("heat", Comparison::Equal, 1.5, Unreported::Keep), [2, 3, 4], "who has none stays");
        assert_eq!(with("heat", Comparison::Equal, 1.5, Unreported::Trust), [2, 3, 4]);
        assert_eq!(with("cold", Comparison::Equal, 1.5, Unreported::Remove), [0; 0]);
    }

    #[test]
    fn what_no_figure_can_be_is_refused() {
        let new = |metric: MetricSource, value| MetricCondition::new(metric, Comparison::Below, value).is_ok();
        let of = |metric: Metric, values: [f64; 4]| values.map(|value| new(metric.into(), value));
        assert_eq!(of(Metric::KvUsed, [0.0, 1.0, 7.0, -0.1]), [true, true, false, false]);
        assert_eq!(of(Metric::Waiting, [0.0, 7.5, f64::INFINITY, -1.0]), [true, true, false, false]);
        assert!(new(MetricSource::Host("heat".into()), -7.5) && !new(MetricSource::Host("heat".into()), f64::NAN));
        assert!(!new(MetricSource::Host("".into()), 1.0));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_are_words_or_signs() {
        let text =
            "{conditions: [{metric: kv_used, is: '<=', value: 0.9}, {metric: {host: heat}, is: below, value: -4}]}";
        let parameters: MetricFilterParameters = serde_yaml_ng::from_str(text).unwrap();
        let heat = MetricCondition::new(MetricSource::Host("heat".into()), Comparison::Below, -4.0).unwrap();
        assert_eq!(parameters.conditions, [condition(Metric::KvUsed, Comparison::AtMost, 0.9), heat]);
        let read = |text| serde_yaml_ng::from_str::<MetricFilterParameters>(text).map_err(|error| error.to_string());
        let negative = read("{conditions: [{metric: waiting, is: below, value: -1}]}").unwrap_err();
        assert!(negative.contains("no figure of this metric is -1"), "{negative}");
        let unknown = read("{conditions: [{metric: queue, is: below, value: 1}]}").unwrap_err();
        assert!(unknown.contains("unknown variant `queue`, expected one of"), "{unknown}");
        let number = read("{conditions: [{metric: 3, is: below, value: 1}]}").unwrap_err();
        assert!(number.contains("a metric that is known here, or `{host: name}`"), "{number}");
        assert!(read("{conditions: [{metric: {host: heat, unit: C}, is: below, value: 1}]}").is_err());
        assert!(read("{conditions: [{metric: {host: ''}, is: below, value: 1}]}").is_err());
        assert!(read("{conditions: [{metric: kv_used, is: above, value: 7}]}").is_err());
        assert!(read("{conditions: []}").is_err() && read("{}").is_err());
    }
}
