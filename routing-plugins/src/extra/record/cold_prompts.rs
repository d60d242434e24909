//! Cold prompt recorder: which pod was last given a prompt that no pod held.

use kv_index::DEFAULT_POD_WORDS;
use std::sync::Arc;

use routing_core::{Declare, PlanStep, PluginError, PrefixMatches, Read, Recorder, RoutingContext};

use crate::extra::LruOrder;
use crate::memories::ColdPrompts;

/// Notes the pod that is tried first, if no pod of the index holds anything of the prompt.
///
/// [`NoHitSpreadScorer`](crate::extra::NoHitSpreadScorer) sends the next such prompt elsewhere. A prompt that some pod holds
/// is not cold, though that pod may be no candidate: it is not noted. It takes no parameters.
#[derive(Debug)]
pub struct ColdPromptRecorder<const W: usize = DEFAULT_POD_WORDS> {
    cold: Arc<LruOrder<W>>,
    held: Read<PrefixMatches<W>>,
}

impl<const W: usize> ColdPromptRecorder<W> {
    /// Declares that it reads who holds the prompt.
    pub fn declare(declare: &mut Declare<'_>, cold: Arc<LruOrder<W>>) -> Self {
        declare.records::<ColdPrompts>(Arc::as_ptr(&cold) as usize);
        Self { cold, held: declare.reads() }
    }
}

impl<const W: usize> Recorder<W> for ColdPromptRecorder<W> {
    fn record(&self, context: &RoutingContext<'_, W>, step: &PlanStep) -> Result<(), PluginError> {
        if context.read(self.held)?.groups().is_empty() {
            if let Some(first) = step.candidates.first() {
                self.cold.stamp(first.pod);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extra::NoHitSpreadScorer;
    use crate::score::testing::Scene;

    /// The scores of a cold prompt, after one that pods hold so much of went to the first pod.
    fn after(held: &[usize]) -> Vec<f32> {
        let cold = Arc::new(LruOrder::new());
        let (recorded, scored) = (Arc::clone(&cold), cold);
        Scene::new(2).prompt(64, held).record(move |d| ColdPromptRecorder::declare(d, recorded));
        Scene::new(2).prompt(64, &[]).scores(move |d| NoHitSpreadScorer::declare(d, scored))
    }

    #[test]
    fn a_cold_prompt_is_noted_for_the_pod_it_goes_to() {
        assert_eq!(after(&[]), [0.0, 1.0]);
    }

    #[test]
    fn a_prompt_that_somebody_holds_is_not_noted() {
        assert_eq!(after(&[0, 2]), [1.0, 0.0]);
    }
}
