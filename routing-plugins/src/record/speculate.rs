//! Speculative update: enters a prompt at its pod before the pod reports it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use kv_index::{DEFAULT_POD_WORDS, Index};
use routing_core::{
    Declare, PlanStep, PluginError, PrefixMatches, Read, Recorder, RoutingContext, TryRead, TryReadPick,
};

use crate::parameters::parameters;
use crate::peers::Peers;
use crate::prepare::PromptChain;
use crate::tokens::PromptTokens;

parameters! {
    /// What [`SpeculateRecorder`] takes.
    #[derive(Clone, Debug)]
    pub struct SpeculateParameters {
        /// How long an entry lasts that no event confirms, in milliseconds; 2,000 unless given. It should outlast the wait for
        /// a first token: events come when blocks are full.
        pub ttl_ms: NonZeroU32 = const { NonZeroU32::new(2_000).expect("not 0") },
        /// The step that computes the prompt instead, where it is taken: nothing is entered here then but by that step's own recorder, since the prompt
        /// is here only when that pod is done with it. There is none, unless given.
        pub unless: Option<String> = None,
    }
}

/// Enters what its step's pod lacks of the prompt as speculated blocks.
///
/// A burst of requests with one new prefix would otherwise be spread over the fleet, since none of them can know of the
/// others before the first event. The entry turns real when the pod's event comes, and is gone at its deadline if none
/// does: [`PrefixMatchPreparer`](crate::prepare::PrefixMatchPreparer) clears such entries away before it searches, and so
/// does each call here that enters something. A request that follows gives the entry no more time: the first one's events should come by then.
///
/// Decisions that are made at once cannot know of each other:
/// [`Ties::ByPrompt`](crate::pick::Ties::ByPrompt) makes them agree where nothing else does.
#[derive(Debug)]
pub struct SpeculateRecorder<const W: usize = DEFAULT_POD_WORDS> {
    ttl: Duration,
    index: Arc<Index<W>>,
    tokens: TryRead<PromptTokens>,
    chain: Read<PromptChain>,
    held: Read<PrefixMatches<W>>,
    unless: Option<TryReadPick>,
    /// Where peers are told.
    peers: Option<Arc<Peers>>,
}

impl<const W: usize> SpeculateRecorder<W> {
    /// Declares that it reads the prompt and who holds it.
    pub fn declare(declare: &mut Declare<'_>, parameters: SpeculateParameters, index: Arc<Index<W>>) -> Self {
        let ttl = Duration::from_millis(parameters.ttl_ms.get().into());
        let unless = parameters.unless.as_deref().map(|step| declare.tries_pick(step));
        Self { ttl, index, tokens: declare.tries(), chain: declare.reads(), held: declare.reads(), unless, peers: None }
    }

    /// The same, and notes each decision for what [peers](crate::peers) are told.
    #[must_use]
    pub fn telling(self, peers: Arc<Peers>) -> Self {
        Self { peers: Some(peers), ..self }
    }
}

impl<const W: usize> Recorder<W> for SpeculateRecorder<W> {
    fn record(&self, context: &RoutingContext<'_, W>, step: &PlanStep) -> Result<(), PluginError> {
        let request = context.request();
        let held = context.read(self.held)?;
        let Some(chosen) = step.candidates.first() else { return Ok(()) };
        let elsewhere = self.unless.map(|step| context.try_pick(step)).transpose()?.flatten();
        if let Some(pod) = elsewhere {
            if let Some(peers) = self.peers.as_ref().filter(|_| pod != chosen.pod.id()) {
                peers.decided(chosen.pod, &[], 0, request.now);
            }
            return Ok(());
        }
        let lacking = held.blocks() - held.depth(chosen.pod.id()).min(held.blocks());
        if lacking > 0 {
            // Twice what is entered goes, so that what is past its deadline never piles up.
            self.index.expire(request.now, 2 * lacking + EXPIRED_AT_LEAST);
            let tokens = context.try_read(self.tokens)?.map_or(&[][..], |tokens| tokens.of(request));
            let chain = context.read(self.chain)?.hashes(request, tokens)?;
            // A pod that left meanwhile holds nothing; whoever sends the request will find out.
            let _ = self.index.speculate(chosen.pod, &chain, request.now + self.ttl);
            if let Some(peers) = &self.peers {
                peers.decided(chosen.pod, &chain, chain.len().saturating_sub(lacking), request.now + self.ttl);
            }
        } else if let Some(peers) = &self.peers {
            peers.decided(chosen.pod, &[], 0, request.now);
        }
        Ok(())
    }
}

const EXPIRED_AT_LEAST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::testing::Site;

    fn recorder(site: &Site) -> impl FnOnce(&mut Declare<'_>) -> SpeculateRecorder + Send + 'static + use<> {
        let index = Arc::clone(&site.index);
        move |d: &mut Declare<'_>| SpeculateRecorder::declare(d, SpeculateParameters::default(), index)
    }

    #[test]
    fn an_entry_lasts_to_its_deadline_and_following_gives_it_no_more_time() {
        let site = Site::new();
        let workflow = site.workflow(recorder(&site));
        site.send(&workflow, 1, &[]);
        assert_eq!(site.depths(1), [4, 0]);
        site.send_at(&workflow, 1, &[], 1_999);
        assert_eq!(site.depths(1), [4, 0]);
        // Another prompt passes by.
        site.send_at(&workflow, 2, &[], 2_000);
        assert_eq!((site.depths(1), site.depths(2)), ([0, 0], [4, 0]));
    }

    #[test]
    fn an_event_makes_an_entry_last() {
        let site = Site::new();
        let workflow = site.workflow(recorder(&site));
        site.send(&workflow, 1, &[]);
        site.store(0, 1);
        site.send_at(&workflow, 2, &[], 60_000);
        assert_eq!(site.depths(1), [4, 0]);
    }

    #[test]
    fn a_replan_enters_the_prompt_at_the_next_pod_and_the_failed_one_s_entry_runs_out() {
        let site = Site::new();
        let workflow = site.workflow(recorder(&site));
        site.send(&workflow, 1, &[]);
        assert_eq!(site.send_at(&workflow, 1, &[0], 1_000), 1);
        assert_eq!(site.depths(1), [4, 4]);
        site.send_at(&workflow, 2, &[], 2_500);
        assert_eq!(site.depths(1), [0, 4]);
    }

    #[test]
    fn nothing_is_entered_by_a_decision_that_fails_in_a_later_step() {
        let site = Site::new();
        site.fail_later(recorder(&site));
        assert_eq!(site.depths(1), [0, 0]);
    }
}
