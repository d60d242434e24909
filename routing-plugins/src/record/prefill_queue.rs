//! Prefill queue recorder: adds a prompt to its pod's estimated queue.

use kv_index::DEFAULT_POD_WORDS;
use std::sync::Arc;

use routing_core::{Declare, PlanStep, PluginError, Read, Recorder, RoutingContext};

use crate::cost_model::CostModel;
use crate::memories::PrefillQueue;
use crate::prepare::Loads;
use crate::score::{PrefillQueues, PromptReads};

/// What [`PrefillQueueRecorder`] takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct PrefillQueueParameters {
    /// How long prefills take.
    pub cost_model: CostModel,
}

crate::parameters::setters! { PrefillQueueParameters {
    cost_model: CostModel,
} }

/// Adds the prompt's prefill to the [queue](PrefillQueues) of the pod that is tried first, by what that holds of it.
///
/// [`FirstTokenScorer`](crate::score::FirstTokenScorer) then knows how much of what it sent is still to be done. Give both the
/// same cost model.
#[derive(Debug)]
pub struct PrefillQueueRecorder<const W: usize = DEFAULT_POD_WORDS> {
    cost_model: CostModel,
    queues: Arc<PrefillQueues<W>>,
    loads: Read<Loads>,
    prompt: PromptReads<W>,
}

impl<const W: usize> PrefillQueueRecorder<W> {
    /// Declares that it reads loads and who holds the prompt.
    pub fn declare(
        declare: &mut Declare<'_>,
        parameters: PrefillQueueParameters,
        queues: Arc<PrefillQueues<W>>,
    ) -> Self {
        declare.records::<PrefillQueue>((Arc::as_ptr(&queues) as usize, parameters.cost_model));
        Self {
            cost_model: parameters.cost_model,
            queues,
            loads: declare.reads_parts(Loads::BACKLOGS),
            prompt: PromptReads::declare(declare),
        }
    }
}

impl<const W: usize> Recorder<W> for PrefillQueueRecorder<W> {
    fn record(&self, context: &RoutingContext<'_, W>, step: &PlanStep) -> Result<(), PluginError> {
        let Some(first) = step.candidates.first() else { return Ok(()) };
        let (loads, prompt) = (context.read(self.loads)?, self.prompt.read(context)?);
        let new = prompt.uncached(prompt.held.depth(first.pod.id()));
        let held = prompt.tokens.saturating_sub(new);
        let backlog = loads.backlogs().get(first.pod.id().index()).copied().unwrap_or_default();
        let seconds = self.cost_model.prefill_under_load(&backlog, new as f64, held as f64);
        self.queues.add(first.pod, seconds, context.request().now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::PodLoad;
    use crate::parameters::{Amount, Positive};
    use crate::score::testing::{BLOCK, Scene};

    #[test]
    fn the_pod_that_is_tried_first_gets_what_it_lacks_of_the_prompt() {
        let amount = |number| Amount::new(number).unwrap();
        let cost_model = CostModel {
            fixed: Amount::ONE,
            per_token: amount(0.1),
            per_pair: amount(0.001),
            per_context: amount(0.01),
            step_tokens: Positive::new(100.0).unwrap(),
            ..CostModel::default()
        };
        let scene = Scene::new(2).prompt(10 * BLOCK, &[6, 10]).loads(|_| PodLoad {
            requests: 1,
            tokens: 400,
            ..PodLoad::default()
        });
        let queues = Arc::new(PrefillQueues::default());
        for times in [1.0, 2.0] {
            let written = Arc::clone(&queues);
            scene.record(move |d| PrefillQueueRecorder::declare(d, PrefillQueueParameters { cost_model }, written));
            // 64 new tokens after 96, and 64 / 100 of a step beside 400 tokens.
            let one = 1.0 + 6.4 + 64.0 * 128.0 / 1_000.0 + 0.64 * 4.0;
            let left = queues.of(scene.pod(0), scene.now).unwrap();
            assert!((left - times * one).abs() < 1e-3, "{left} for {times} times {one}");
            assert_eq!(queues.of(scene.pod(1), scene.now), None);
        }
    }
}
