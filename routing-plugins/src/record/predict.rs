//! Takes what was routed to a pod as cached there, for engines that emit no events.

use std::num::NonZeroUsize;
use std::sync::Arc;

use kv_index::{Index, Predictor};
use parking_lot::Mutex;
use routing_core::{Context, Declare, PlanStep, PluginError, Read, Recorder, TryRead};

use crate::prepare::PromptChain;
use crate::tokens::PromptTokens;

/// What [`PredictRecorder`] takes.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct PredictParameters {
    /// How many blocks a pod's cache holds; 31,250 unless given: half a million tokens in blocks of 16.
    pub blocks_per_pod: NonZeroUsize,
}

impl Default for PredictParameters {
    fn default() -> Self {
        Self { blocks_per_pod: NonZeroUsize::new(31_250).unwrap_or(NonZeroUsize::MIN) }
    }
}

/// Enters each prompt at the pod it is sent to, and evicts there what was used least recently.
///
/// The index is then a guess, fed by decisions alone. It must not be fed events of the same pods, which would take back
/// what was guessed. Decisions wait for each other here: guessing is one at a time.
#[derive(Debug)]
pub struct PredictRecorder<const W: usize = 4> {
    predictor: Mutex<Predictor>,
    index: Arc<Index<W>>,
    tokens: TryRead<PromptTokens>,
    chain: Read<PromptChain>,
}

impl<const W: usize> PredictRecorder<W> {
    /// Declares that it reads the prompt.
    pub fn declare(declare: &mut Declare<'_>, parameters: PredictParameters, index: Arc<Index<W>>) -> Self {
        let predictor = Mutex::new(Predictor::new(parameters.blocks_per_pod.get()));
        Self { predictor, index, tokens: declare.tries(), chain: declare.reads() }
    }
}

impl<const W: usize> Recorder<W> for PredictRecorder<W> {
    fn record(&self, context: &Context<'_, W>, step: &PlanStep) -> Result<(), PluginError> {
        let request = context.request();
        let Some(chosen) = step.candidates.first() else { return Ok(()) };
        let tokens = context.try_read(self.tokens)?.map_or(&[][..], |tokens| tokens.of(request));
        let chain = context.read(self.chain)?.hashes(request, tokens)?;
        // A pod that left meanwhile holds nothing; whoever sends the request will find out.
        let _ = self.predictor.lock().routed(&self.index, chosen.pod, &chain);
        Ok(())
    }
}
