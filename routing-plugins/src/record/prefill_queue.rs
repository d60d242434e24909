//! Prefill queue recorder: adds a prompt to its pod's estimated queue.

use kv_index::DEFAULT_POD_WORDS;
use std::sync::Arc;

use routing_core::{Declare, PlanStep, PluginError, Read, Recorder, RoutingContext, TryReadPick};

use crate::cost_model::CostModel;
use crate::memories::PrefillQueue;
use crate::pace::{ExpectedPrefill, PodPaces};
use crate::prepare::Loads;
use crate::score::{PrefillQueues, PromptReads};

/// What [`PrefillQueueRecorder`] takes.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct PrefillQueueParameters {
    /// How long prefills take.
    pub cost_model: CostModel,
    /// Whether each pod's [pace](PodPaces) counts, and is learned from what is expected here and what the host then sees; not,
    /// unless given.
    pub learns: bool,
    /// The step that computes the prompt instead, where it is taken: nothing is queued here then, but by that step's own recorder. There is none,
    /// unless given.
    pub unless: Option<String>,
}

crate::parameters::setters! { PrefillQueueParameters {
    cost_model: CostModel,
    learns: bool,
    unless: Option<String>,
} }

/// Adds the prompt's prefill to the [queue](PrefillQueues) of the pod that is tried first, by what that holds of it.
///
/// [`FirstTokenScorer`](crate::score::FirstTokenScorer) then knows how much of what it sent is still to be done. Give both the
/// same cost model.
///
/// Where it learns, it notes when the first token should come, but for pods where requests of others wait: how much those have to
/// compute is not known. What it sends counts beside what decodes there.
#[derive(Debug)]
pub struct PrefillQueueRecorder<const W: usize = DEFAULT_POD_WORDS> {
    cost_model: CostModel,
    queues: Arc<PrefillQueues<W>>,
    /// Where it learns.
    paces: Option<Arc<PodPaces<W>>>,
    unless: Option<TryReadPick>,
    loads: Read<Loads>,
    prompt: PromptReads<W>,
}

impl<const W: usize> PrefillQueueRecorder<W> {
    /// Declares that it reads loads and who holds the prompt.
    pub fn declare(
        declare: &mut Declare<'_>,
        parameters: PrefillQueueParameters,
        queues: Arc<PrefillQueues<W>>,
        paces: Arc<PodPaces<W>>,
    ) -> Self {
        declare.records::<PrefillQueue>((Arc::as_ptr(&queues) as usize, parameters.cost_model, parameters.learns));
        Self {
            cost_model: parameters.cost_model,
            queues,
            paces: parameters.learns.then_some(paces),
            unless: parameters.unless.as_deref().map(|step| declare.tries_pick(step)),
            loads: declare.reads_parts(Loads::BACKLOGS),
            prompt: PromptReads::declare(declare),
        }
    }
}

impl<const W: usize> Recorder<W> for PrefillQueueRecorder<W> {
    fn record(&self, context: &RoutingContext<'_, W>, step: &PlanStep) -> Result<(), PluginError> {
        let Some(first) = step.candidates.first() else { return Ok(()) };
        let now = context.request().now;
        let elsewhere = self.unless.map(|step| context.try_pick(step)).transpose()?.flatten();
        if let Some(pod) = elsewhere {
            if pod != first.pod.id() {
                // Of its first token nothing is learned: most of the wait for that is another pod's. Of those after it all is.
                let decodes_only = ExpectedPrefill::new(self.cost_model, 0.0).first_token(None);
                self.paces.iter().for_each(|paces| paces.expect(first.pod, decodes_only, now));
            }
            return Ok(());
        }
        let (loads, prompt) = (context.read(self.loads)?, self.prompt.read(context)?);
        let new = prompt.uncached(prompt.held.depth(first.pod.id()));
        let held = prompt.tokens.saturating_sub(new);
        let backlog = loads.backlog(first.pod.id());
        let model = &self.cost_model;
        let own = model.prefill_under_load(&backlog, new as f64, held as f64);
        let Some(paces) = &self.paces else {
            self.queues.add(first.pod, own, now);
            return Ok(());
        };
        let pace = paces.of(first.pod.id());
        let first_token = (backlog.waiting == 0.0).then(|| {
            let wait = model.expected_wait(&backlog, pace, self.queues.of(first.pod, now)) / pace;
            wait + own + model.step_under_way(&backlog)
        });
        paces.expect(first.pod, ExpectedPrefill::new(*model, own).first_token(first_token), now);
        self.queues.add(first.pod, pace * own, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            ..CostModel::UNFUSED
        };
        let scene = Scene::new(2).prompt(10 * BLOCK, &[6, 10]).loads(|_| PodLoad {
            requests: 1,
            tokens: 400,
            ..PodLoad::default()
        });
        let queues = Arc::new(PrefillQueues::default());
        for times in [1.0, 2.0] {
            let written = Arc::clone(&queues);
            scene.record(move |d| {
                PrefillQueueRecorder::declare(
                    d,
                    PrefillQueueParameters { cost_model, ..PrefillQueueParameters::default() },
                    written,
                    Arc::default(),
                )
            });
            // 64 new tokens after 96, and 64 / 100 of a step beside 400 tokens.
            let one = 1.0 + 6.4 + 64.0 * 128.0 / 1_000.0 + 0.64 * 4.0;
            let left = queues.of(scene.pod(0), scene.now).unwrap();
            assert!((left - times * one).abs() < 1e-3, "{left} for {times} times {one}");
            assert_eq!(queues.of(scene.pod(1), scene.now), None);
        }
    }

    #[test]
    fn where_it_learns_queues_go_by_the_pace_and_expectations_do_not() {
        let scene = Scene::new(1).prompt(1_000 * BLOCK, &[]).loads(|_| PodLoad::default());
        let (pod, paces): (_, Arc<PodPaces>) = (scene.pod(0), Arc::default());
        let parameters = PrefillQueueParameters::default().cost_model(CostModel::FUSED).learns(true);
        let one = CostModel::FUSED.prefill_seconds((1_000 * BLOCK) as f64, 0.0);
        let send = || {
            let (queues, learned) = (Arc::new(PrefillQueues::default()), Arc::clone(&paces));
            let written = Arc::clone(&queues);
            let parameters = parameters.clone();
            scene.record(move |d| PrefillQueueRecorder::declare(d, parameters, written, learned));
            paces.first_token(paces.sample(pod, scene.now).unwrap(), Duration::from_secs_f64(3.0 * one), scene.now);
            queues.of(pod, scene.now).unwrap() / one
        };
        assert!((send() - 1.0).abs() < 1e-3);
        let last = (0..200).fold(0.0, |_, _| send());
        assert!((last - 3.0).abs() < 0.15, "{last}: an expectation that went by the pace would have made it 1");
    }

    #[test]
    fn nothing_is_learned_where_requests_of_others_wait() {
        let others = PodLoad { requests: 1, waiting_elsewhere: 1, ..PodLoad::default() };
        let scene = Scene::new(1).prompt(BLOCK, &[]).loads(|_| others);
        let (paces, written): (Arc<PodPaces>, _) = (Arc::default(), Arc::default());
        let learned = Arc::clone(&paces);
        let parameters = PrefillQueueParameters::default().learns(true);
        scene.record(move |d| PrefillQueueRecorder::declare(d, parameters, written, learned));
        paces.first_token(paces.sample(scene.pod(0), scene.now).unwrap(), Duration::from_secs(60), scene.now);
        assert_eq!(paces.of(scene.pod(0).id()), 1.0);
    }
}
