//! Context-length filter: pods labelled for prompts of this length.

use kv_index::PodSet;
use routing_core::{Declare, Filter, PluginError, Read, RoutingContext};

use super::context_range::ContextRange;
#[cfg(feature = "serde")]
use crate::filter::checks;
use crate::parameters::parameters;
use crate::tokens::PromptTokens;

parameters! {
    /// What [`ContextRangeFilter`] takes, and so does [`ContextRangeScorer`](crate::extra::ContextRangeScorer).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ContextRangeParameters {
        /// The label with the range, as [`ContextRange`] reads it; `context-length-range` unless given.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "checks::name"))]
        pub label: Box<str> = "context-length-range".into(),
    }
}

/// Keeps the pods that are labelled with a [`ContextRange`] the prompt's length is in, and those without the label.
///
/// For fleets that are split by prompt length, so that long prompts do not stand in the way of short ones. A label that is
/// no range keeps its pod out: what it is meant for is not known.
///
/// `OnEmpty::KeepPrevious` is sensible: a prompt that nobody is meant for is served by somebody. What a pod cannot serve is
/// for a [`CapacityFilter`](crate::extra::CapacityFilter) to say.
#[derive(Clone, Debug)]
pub struct ContextRangeFilter {
    label: Box<str>,
    tokens: Read<PromptTokens>,
}

impl ContextRangeFilter {
    /// Declares that it reads tokens.
    pub fn declare(declare: &mut Declare<'_>, parameters: ContextRangeParameters) -> Self {
        Self { label: parameters.label, tokens: declare.reads() }
    }
}

impl<const W: usize> Filter<W> for ContextRangeFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let length = context.read(self.tokens)?.of(context.request()).len() as u64;
        let fleet = context.fleet();
        let mut kept = fleet.pods() - fleet.with_label(&self.label);
        // Fleets have few ranges: each is read once, not once for each of its pods.
        for (value, pods) in fleet.label_values(&self.label) {
            if ContextRange::parse(value).is_ok_and(|range| range.contains(length)) {
                kept = kept | pods;
            }
        }
        Ok(candidates & kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::testing::{Setup, request};

    fn check<const W: usize>() {
        let setup = Setup::<W>::new(5)
            .pod(0, |pod| pod.label("range", "0-9"))
            .pod(1, |pod| pod.label("range", "9-20"))
            .pod(2, |pod| pod.label("range", "short"))
            .pod(3, |pod| pod.label("range", "0-9"));
        let kept = |length: u32| {
            let prompt: Vec<u32> = (0..length).collect();
            let parameters = ContextRangeParameters { label: "range".into() };
            setup.kept(request().tokens(&prompt), |declare| ContextRangeFilter::declare(declare, parameters))
        };
        assert_eq!(kept(0), [0, 3, 4]);
        assert_eq!(kept(9), [0, 1, 3, 4]);
        assert_eq!(kept(10), [1, 4]);
        assert_eq!(kept(21), [4], "without a label it takes all");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_label_has_a_name() {
        let read = |text| serde_json::from_str::<ContextRangeParameters>(text);
        assert_eq!(read("{}").unwrap(), ContextRangeParameters::default());
        assert!(read(r#"{"label": ""}"#).is_err());
    }

    #[test]
    fn pods_for_other_lengths_go() {
        check::<1>();
        check::<4>();
        check::<16>();
    }
}
