//! Prediction recorder: routed prompts counted as cached, for engines without cache events.

use std::sync::Arc;

use kv_index::{DEFAULT_POD_WORDS, Index};
use routing_core::{Declare, PlanStep, PluginError, Read, Recorder, RoutingContext, TryRead};

use super::predicted_blocks::PredictedBlocks;
use crate::prepare::PromptChain;
use crate::tokens::PromptTokens;

/// Enters each prompt at the pod it is sent to, and evicts there what was used least recently.
///
/// The index is then a guess, fed by decisions alone. It must not be fed events of the same pods, which would take back
/// what was guessed. Decisions wait for each other here: guessing is one at a time. It takes no parameters: how much fits
/// on a pod, and whether prompts are entered [later](PredictedBlocks::later), is said of the host's [`PredictedBlocks`].
///
/// A pod that failed a request is still guessed to hold its prompt, until that is evicted or the pod is retired: what it
/// held before and what it computed before it failed cannot be told from what it lacks. The next plan of the request, made
/// without that pod, enters the prompt where it goes then.
#[derive(Debug)]
pub struct PredictRecorder<const W: usize = DEFAULT_POD_WORDS> {
    predicted_blocks: Arc<PredictedBlocks>,
    index: Arc<Index<W>>,
    tokens: TryRead<PromptTokens>,
    chain: Read<PromptChain>,
}

impl<const W: usize> PredictRecorder<W> {
    /// Declares that it reads the prompt.
    pub fn declare(declare: &mut Declare<'_>, index: Arc<Index<W>>, predicted_blocks: Arc<PredictedBlocks>) -> Self {
        Self { predicted_blocks, index, tokens: declare.tries(), chain: declare.reads() }
    }
}

impl<const W: usize> Recorder<W> for PredictRecorder<W> {
    fn record(&self, context: &RoutingContext<'_, W>, step: &PlanStep) -> Result<(), PluginError> {
        let request = context.request();
        let Some(chosen) = step.candidates.first() else { return Ok(()) };
        let tokens = context.try_read(self.tokens)?.map_or(&[][..], |tokens| tokens.of(request));
        let chain = context.read(self.chain)?.hashes(request, tokens)?;
        self.predicted_blocks.routed(&self.index, chosen.pod, chain);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use parking_lot::Mutex;

    use super::*;
    use crate::record::testing::Site;

    fn site(blocks_per_pod: usize) -> (Site, Arc<PredictedBlocks>) {
        (Site::new(), Arc::new(PredictedBlocks::new(NonZeroUsize::new(blocks_per_pod).expect("not zero"))))
    }

    fn recorder(
        site: &Site,
        predicted_blocks: &Arc<PredictedBlocks>,
    ) -> impl FnOnce(&mut Declare<'_>) -> PredictRecorder + Send + 'static + use<> {
        let (index, predicted_blocks) = (Arc::clone(&site.index), Arc::clone(predicted_blocks));
        move |d: &mut Declare<'_>| PredictRecorder::declare(d, index, predicted_blocks)
    }

    #[test]
    fn a_prompt_is_held_where_it_went_and_a_replan_enters_it_where_it_goes_then() {
        let (site, predicted_blocks) = site(100);
        let workflow = site.workflow(recorder(&site, &predicted_blocks));
        let first = site.send(&workflow, 1, &[]);
        assert_eq!(site.depths(1), [4, 0]);
        assert_eq!(site.send(&workflow, 1, &[first]), 1);
        assert_eq!(site.depths(1), [4, 4], "what the failed pod holds cannot be told");
        assert_eq!(predicted_blocks.blocks(site.pods[1].pod), 4);
    }

    #[test]
    fn what_is_entered_later_is_not_seen_before() {
        let site = Site::new();
        let jobs = Arc::new(Mutex::new(Vec::new()));
        let queue = Arc::clone(&jobs);
        let predicted_blocks = Arc::new(PredictedBlocks::default().later(move |job| queue.lock().push(job)));
        site.send(&site.workflow(recorder(&site, &predicted_blocks)), 1, &[]);
        assert_eq!(site.depths(1), [0, 0]);
        jobs.lock().drain(..).for_each(|job: Box<dyn FnOnce() + Send>| job());
        assert_eq!((site.depths(1), predicted_blocks.blocks(site.pods[0].pod)), ([4, 0], 4));
    }

    #[test]
    fn workflows_that_replace_each_other_share_a_pod_s_room() {
        let (site, predicted_blocks) = site(4);
        for prompt in 0..5 {
            site.send(&site.workflow(recorder(&site, &predicted_blocks)), prompt, &[]);
        }
        assert_eq!(site.index.pod_stats(site.pods[0].pod).map(|stats| stats.blocks), Some(4));
        assert_eq!((site.depths(3), site.depths(4)), ([0, 0], [4, 0]));
    }

    #[test]
    fn nothing_is_guessed_of_a_decision_that_fails_in_a_later_step() {
        let (site, predicted_blocks) = site(100);
        site.fail_later(recorder(&site, &predicted_blocks));
        assert_eq!(site.depths(1), [0, 0]);
    }

    #[test]
    fn a_pod_that_left_meanwhile_is_no_failure() {
        let (site, predicted_blocks) = site(100);
        let workflow = site.workflow(recorder(&site, &predicted_blocks));
        site.index.retire(site.pods[0].pod);
        site.send(&workflow, 1, &[]);
        assert_eq!(predicted_blocks.blocks(site.pods[0].pod), 0);
    }
}
