//! Locality filter: pods in the same place as an earlier step's pod.

use pointsman::index::PodSet;
use routing_core::{Declare, Filter, PluginError, RoutingContext, TryReadPick};
use serde::Deserialize;

/// What [`LocalityFilter`] takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LocalityFilterParameters {
    step: String,
    /// Labels of which one must be the same on both sides, nearest first.
    labels: Vec<String>,
}

/// Keeps the pods that share one of the labels with the pod of an earlier step; everybody, if that step was skipped or
/// its pod has none of the labels.
#[derive(Clone, Debug)]
pub(super) struct LocalityFilter {
    peer: TryReadPick,
    labels: Vec<String>,
}

impl LocalityFilter {
    /// Declares that it reads an earlier step's pick.
    pub(super) fn declare(declare: &mut Declare<'_>, parameters: LocalityFilterParameters) -> Self {
        Self { peer: declare.tries_pick(&parameters.step), labels: parameters.labels }
    }
}

impl<const W: usize> Filter<W> for LocalityFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let fleet = context.fleet();
        let Some(peer) = context.try_pick(self.peer)?.and_then(|pod| fleet.pod(pod)) else { return Ok(candidates) };
        let mut kept = None;
        for label in &self.labels {
            let value = peer.labels.iter().find(|(key, _)| **key == **label).map(|(_, value)| value);
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                kept = Some(kept.unwrap_or(PodSet::EMPTY) | fleet.labelled(label, value));
            }
        }
        Ok(kept.map_or(candidates, |kept| candidates & kept))
    }
}
