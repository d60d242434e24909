//! Labels that the stock filter does not tell: a value or none, and a value that a header names.

use pointsman::index::PodSet;
use routing_core::{Filter, PluginError, RoutingContext, Scorer, Scores};
use serde::Deserialize;

/// What [`LabelOrNoneFilter`] takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabelOrNoneParameters {
    label: String,
    values: Vec<String>,
}

/// Keeps the pods with one of a label's values, and those without the label.
#[derive(Clone, Debug)]
pub(super) struct LabelOrNoneFilter(pub(super) LabelOrNoneParameters);

impl<const W: usize> Filter<W> for LabelOrNoneFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let (fleet, LabelOrNoneParameters { label, values }) = (context.fleet(), &self.0);
        let without = fleet.pods() - fleet.with_label(label);
        Ok(candidates & values.iter().fold(without, |kept, value| kept | fleet.labelled(label, value)))
    }
}

/// What [`HeaderLabelScorer`] takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderLabelParameters {
    header: String,
    label: String,
}

/// Scores 1 for pods whose label is as the request's header, 0 for others, and for all where there is no header.
#[derive(Clone, Debug)]
pub(super) struct HeaderLabelScorer(pub(super) HeaderLabelParameters);

impl<const W: usize> Scorer<W> for HeaderLabelScorer {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let value = context.request().header(&self.0.header).and_then(|value| std::str::from_utf8(value).ok());
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            scores.set_all(context.fleet().labelled(&self.0.label, value), 1.0);
        }
        Ok(())
    }
}
