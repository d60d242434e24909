//! LoRA adapter scorer: pods with the adapter loaded first, then those with room for it.

use routing_core::{Declare, PluginError, PodInfo, RoutingContext, Scorer, Scores};

/// Scores how soon a candidate can serve the request's LoRA adapter: 1 if it is loaded there, 0 if it would have to wait
/// for another to leave.
///
/// In between: 0.8 if a slot is free, that is if fewer adapters are loaded or waiting than there is room for; else 0.6 if
/// the adapter is waiting to be loaded. A pod whose room is not known counts as having none. A request without an adapter
/// leaves every score at 0, so that other scorers decide. It takes no parameters.
#[derive(Debug)]
#[non_exhaustive]
pub struct AdapterScorer;

impl AdapterScorer {
    /// Declares nothing: adapters are told by the fleet.
    pub fn declare(_declare: &mut Declare<'_>) -> Self {
        Self
    }
}

impl<const W: usize> Scorer<W> for AdapterScorer {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let Some(adapter) = context.request().adapter else { return Ok(()) };
        let fleet = context.fleet();
        let loaded = fleet.with_adapter(adapter);
        scores.set_all(loaded, 1.0);
        for pod in scores.candidates() - loaded {
            scores.set(pod, fleet.pod(pod).map_or(0.0, |info| without(info, adapter)));
        }
        Ok(())
    }
}

/// What a pod gets that does not have the adapter.
fn without(info: &PodInfo, adapter: &str) -> f32 {
    let taken = info.adapters.len() + info.adapters_waiting.len();
    if taken < info.adapter_slots.map_or(0, usize::from) {
        0.8
    } else if info.adapters_waiting.iter().any(|waiting| **waiting == *adapter) {
        0.6
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::testing::Scene;

    fn scene() -> Scene {
        Scene::new(6).infos(|at, info| match at {
            0 => info.adapter("a").adapter_slots(1),
            1 => info.adapter("b").adapter_waiting("a").adapter_slots(3),
            2 => info.adapter("b").adapter_waiting("a").adapter_slots(2),
            3 => info.adapter("b").adapter("c").adapter_slots(2),
            4 => info.adapter_slots(0),
            _ => info.adapter_waiting("b"),
        })
    }

    #[test]
    fn loaded_then_room_then_waiting_then_none() {
        let scene = scene();
        let profile = scene.profile().scorer("adapter", 1.0, AdapterScorer::declare);
        assert_eq!(scene.scores_of(&scene.request().adapter("a"), profile), [1.0, 0.8, 0.6, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_request_without_an_adapter_leaves_all_at_0() {
        assert_eq!(scene().scores(AdapterScorer::declare), [0.0; 6]);
    }
}
