//! Recent work recorder: adds a prompt's prefill to its pod's sliding window.

use kv_index::DEFAULT_POD_WORDS;
use std::sync::Arc;

use routing_core::{Declare, PlanStep, PluginError, Recorder, RoutingContext};

use crate::cost_model::CostModel;
use crate::memories::RecentWorkKept;
use crate::score::{PromptReads, RecentWork};

/// What [`RecentWorkRecorder`] takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct RecentWorkRecorderParameters {
    /// How long prefills take; measured, unless given.
    pub cost_model: CostModel,
}

crate::parameters::setters! { RecentWorkRecorderParameters {
    cost_model: CostModel,
} }

/// Adds the prompt's prefill to the recent work of the pod that is tried first, by what that holds of it.
///
/// [`RecentWorkScorer`](crate::score::RecentWorkScorer) then sends work elsewhere. A pod that fails the request has it on its
/// account until the window is over: nobody tells how much of it was done.
#[derive(Debug)]
pub struct RecentWorkRecorder<const W: usize = DEFAULT_POD_WORDS> {
    cost_model: CostModel,
    recent: Arc<RecentWork<W>>,
    prompt: PromptReads<W>,
}

impl<const W: usize> RecentWorkRecorder<W> {
    /// Declares that it reads who holds the prompt.
    pub fn declare(
        declare: &mut Declare<'_>,
        parameters: RecentWorkRecorderParameters,
        recent: Arc<RecentWork<W>>,
    ) -> Self {
        declare.records::<RecentWorkKept>((Arc::as_ptr(&recent) as usize, parameters.cost_model.into()));
        Self { cost_model: parameters.cost_model, recent, prompt: PromptReads::declare(declare) }
    }
}

impl<const W: usize> Recorder<W> for RecentWorkRecorder<W> {
    fn record(&self, context: &RoutingContext<'_, W>, step: &PlanStep) -> Result<(), PluginError> {
        let Some(first) = step.candidates.first() else { return Ok(()) };
        let prompt = self.prompt.read(context)?;
        let new = prompt.uncached(prompt.held.depth(first.pod.id()));
        let held = prompt.tokens.saturating_sub(new);
        self.recent.add(first.pod, self.cost_model.prefill_seconds(new as f64, held as f64), context.request().now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Amount;
    use crate::score::testing::{BLOCK, Scene};

    #[test]
    fn the_pod_that_is_tried_first_gets_what_it_lacks_of_the_prompt() {
        let scene = Scene::new(2).prompt(10 * BLOCK, &[6, 10]);
        let recent = Arc::new(RecentWork::default());
        let amount = |number| Amount::new(number).unwrap();
        let (fixed, per_token, per_pair) = (Amount::ONE, amount(0.1), amount(0.001));
        let cost_model = CostModel { fixed, per_token, per_pair, ..CostModel::UNFUSED };
        for times in [1.0, 2.0] {
            let written = Arc::clone(&recent);
            scene.record(move |d| RecentWorkRecorder::declare(d, RecentWorkRecorderParameters { cost_model }, written));
            // 64 new tokens after 96.
            let one = 1.0 + 6.4 + 64.0 * 128.0 / 1_000.0;
            assert!((recent.of(scene.pod(0), scene.now) - times * one).abs() < 1e-3);
            assert_eq!(recent.of(scene.pod(1), scene.now), 0.0);
        }
    }
}
