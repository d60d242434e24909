//! Metric scorer: any metric of the host's.

use std::fmt;
use std::sync::Arc;

use kv_index::PodId;
use routing_core::{Declare, PluginError, RoutingContext, Scorer, Scores};

#[cfg(feature = "serde")]
use crate::filter::checks;
#[cfg(feature = "serde")]
use crate::parameters::OutOfRange;
use crate::score::normalize::Span;

/// Figures of pods by name, as the host measures them.
pub trait Metrics: Send + Sync + std::fmt::Debug {
    /// A pod's figure, if it has one. Asked twice for every candidate of a decision, so it should be quick.
    fn figure(&self, metric: &str, pod: PodId) -> Option<f64>;
}

/// No figures.
impl Metrics for () {
    fn figure(&self, _: &str, _: PodId) -> Option<f64> {
        None
    }
}

/// What [`MetricScorer`] takes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct MetricScorerParameters {
    /// The figure's name.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "checks::name"))]
    pub metric: String,
    /// Whether high or low is better; low, unless given.
    #[cfg_attr(feature = "serde", serde(default))]
    pub prefer: PreferredMetric,
    /// What the figure is compared with; the other candidates, unless given.
    #[cfg_attr(feature = "serde", serde(default))]
    pub range: Option<MetricRange>,
}

crate::parameters::setters! { MetricScorerParameters {
    prefer: PreferredMetric,
    range: Option<MetricRange>,
} }

impl MetricScorerParameters {
    /// The lower a figure, the better, compared with the other candidates.
    #[must_use]
    pub fn new(metric: &str) -> Self {
        Self { metric: metric.into(), prefer: PreferredMetric::Lower, range: None }
    }
}

/// Which figures are better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[expect(clippy::exhaustive_enums, reason = "high or low: complete by nature")]
pub enum PreferredMetric {
    /// Low ones.
    #[default]
    Lower,
    /// High ones.
    Higher,
}

/// A fixed range of figures, of some width.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "Bounds"))]
pub struct MetricRange {
    least: f64,
    most: f64,
}

impl MetricRange {
    /// From the least to the most, if both are finite and the one is less than the other.
    #[must_use]
    pub fn new(least: f64, most: f64) -> Option<Self> {
        (least.is_finite() && most.is_finite() && least < most).then_some(Self { least, most })
    }
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Bounds {
    least: f64,
    most: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Bounds> for MetricRange {
    type Error = OutOfRange;

    fn try_from(Bounds { least, most }: Bounds) -> Result<Self, OutOfRange> {
        Self::new(least, most).ok_or(OutOfRange { range: "above the least and finite", found: most })
    }
}

/// Scores a figure between the least and the most: 1 for the best, 0 for the worst.
///
/// `(most − x) / (most − least)` if low is better, `(x − least) / (most − least)` if high is. In a fixed
/// [`range`](MetricScorerParameters::range) what is beyond it counts as at its end. Otherwise the range is that of the candidates'
/// figures, and all get 1 when they are the same. A candidate without a figure, or with one that is not finite, gets 0
/// and is not compared with.
pub struct MetricScorer {
    parameters: MetricScorerParameters,
    metrics: Arc<dyn Metrics>,
}

impl MetricScorer {
    /// Reads a figure of the host's. Declares nothing: it reads no slot.
    pub fn declare(_declare: &mut Declare<'_>, parameters: MetricScorerParameters, metrics: Arc<dyn Metrics>) -> Self {
        Self { parameters, metrics }
    }
}

impl<const W: usize> Scorer<W> for MetricScorer {
    fn score(&self, _: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let MetricScorerParameters { metric, prefer, range } = &self.parameters;
        let figure = |pod| self.metrics.figure(metric, pod).filter(|figure| figure.is_finite());
        let mut span = Span::EMPTY;
        match range {
            Some(MetricRange { least, most }) => [*least, *most].into_iter().for_each(|end| span.add(end)),
            None => scores.candidates().iter().filter_map(figure).for_each(|figure| span.add(figure)),
        }
        scores.fill(|pod| {
            // Beyond a fixed range they are beyond 0..=1 as well, and brought back with all scores.
            figure(pod).map_or(0.0, |figure| match prefer {
                PreferredMetric::Lower => span.falling(figure),
                PreferredMetric::Higher => span.rising(figure),
            })
        });
        Ok(())
    }
}

impl fmt::Debug for MetricScorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricScorer").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::score::testing::Scene;

    #[derive(Debug)]
    struct Given(Vec<Option<f64>>);

    impl Metrics for Given {
        fn figure(&self, metric: &str, pod: PodId) -> Option<f64> {
            self.0[pod.index()].filter(|_| metric == "heat")
        }
    }

    fn scores(figures: &[Option<f64>], prefer: PreferredMetric, range: Option<MetricRange>) -> Vec<f32> {
        let parameters = MetricScorerParameters { prefer, range, ..MetricScorerParameters::new("heat") };
        let metrics = Arc::new(Given(figures.to_vec()));
        Scene::new(figures.len()).scores(move |d| MetricScorer::declare(d, parameters, metrics))
    }

    #[test]
    fn candidates_are_compared_with_each_other() {
        let figures = [Some(10.0), Some(5.0), Some(0.0), None, Some(f64::NAN)];
        assert_eq!(scores(&figures, PreferredMetric::Lower, None), [0.0, 0.5, 1.0, 0.0, 0.0]);
        assert_eq!(scores(&figures, PreferredMetric::Higher, None), [1.0, 0.5, 0.0, 0.0, 0.0]);
        assert_eq!(scores(&[Some(3.0), Some(3.0), None], PreferredMetric::Higher, None), [1.0, 1.0, 0.0]);
    }

    #[test]
    fn a_fixed_range_has_ends() {
        let range = MetricRange::new(0.0, 10.0);
        let figures = [Some(15.0), Some(-5.0), Some(7.5), None];
        assert_eq!(scores(&figures, PreferredMetric::Lower, range), [0.0, 1.0, 0.25, 0.0]);
        assert_eq!(scores(&figures, PreferredMetric::Higher, range), [1.0, 0.0, 0.75, 0.0]);
        assert_eq!([(1.0, 1.0), (2.0, 1.0), (0.0, f64::NAN)].map(|(a, b)| MetricRange::new(a, b)), [None; 3]);
    }

    proptest! {
        /// Whatever the figures, scores lie in 0..=1.
        #[test]
        fn scores_are_in_range(
            figures in prop::collection::vec(prop::option::of(any::<f64>()), 1..8),
            prefer in prop::sample::select(vec![PreferredMetric::Lower, PreferredMetric::Higher]),
            range in prop::option::of((-1e300..0.0, 0.1..1e300).prop_map(|(a, b)| MetricRange::new(a, b).unwrap())),
        ) {
            let scores = scores(&figures, prefer, range);
            prop_assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
        }
    }
}
