//! Program recorder: enters a turn at the pod that it goes to.

use std::sync::Arc;

use kv_index::DEFAULT_POD_WORDS;
use routing_core::{Declare, PlanStep, PluginError, Program, Read, Recorder, Role, RoutingContext};

use super::context::PodCache;
use super::preparer::RecognizedPrompt;
use super::table::Programs;
use crate::pace::PodPaces;
use crate::prepare::PromptChain;

/// Enters a request's turn at its step's first pod, if that answers, so that the program's context counts in that pod's working set.
///
/// The host says when the turn is [over](Programs::end); [`PlanStep::program`] has it.
#[derive(Debug)]
pub struct ProgramRecorder<const W: usize = DEFAULT_POD_WORDS> {
    programs: Arc<Programs<W>>,
    paces: Arc<PodPaces<W>>,
    prompt: Read<RecognizedPrompt>,
    program: Read<Program>,
    chain: Read<PromptChain>,
}

impl<const W: usize> ProgramRecorder<W> {
    /// Declares that it reads a request's program.
    pub fn declare(declare: &mut Declare<'_>, programs: Arc<Programs<W>>, paces: Arc<PodPaces<W>>) -> Self {
        Self { programs, paces, prompt: declare.reads(), program: declare.reads(), chain: declare.reads() }
    }
}

impl<const W: usize> Recorder<W> for ProgramRecorder<W> {
    fn record(&self, context: &RoutingContext<'_, W>, step: &PlanStep) -> Result<(), PluginError> {
        let (Some(turn), Some(first)) = (context.read(self.program)?, step.candidates.first()) else { return Ok(()) };
        // A context is where its next turn will look for it: where it is decoded.
        if !matches!(step.role, Role::Both | Role::Decode) {
            return Ok(());
        }
        let cache = context.fleet().pod(first.pod.id()).and_then(|info| info.kv_tokens);
        let held = step.cache.map_or(0, |cache| cache.held);
        let held = held * context.read(self.chain)?.block_tokens();
        let pod = PodCache::new(first.pod, cache).pace(self.paces.of(first.pod.id())).held(held as u64);
        self.programs.begin(turn, context.read(self.prompt)?, pod, context.request().now);
        Ok(())
    }
}
