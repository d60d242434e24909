//! A program's turn that is ended once: by what its answer took, or by whoever gives it up.

use std::fmt;

use kv_index::{DEFAULT_POD_WORDS, Pod};
use routing_core::{PlanStep, ProgramTurn, Role, RoutingPlan};
use routing_plugins::program::PodCache;

use crate::router::{Live, Router};

/// The turn that a plan began; over when it is dropped.
pub(crate) struct OpenTurn<const W: usize = DEFAULT_POD_WORDS> {
    router: Router<W>,
    turn: ProgramTurn,
    /// Tokens of its answer so far, where that is known.
    pub(crate) answer: Option<u64>,
}

impl<const W: usize> OpenTurn<W> {
    /// The turn of a plan that was decided and recorded, as the step tells that answers.
    pub(crate) fn of(router: &Router<W>, plan: &RoutingPlan) -> Option<Self> {
        let turn = plan.steps().iter().rev().find_map(|step| step.program)?;
        Some(Self { router: router.clone(), turn, answer: None })
    }

    /// A step is sent to a pod: where it answers, and is not the first that it was decided for, the context goes along.
    pub(crate) fn sent(&self, step: &PlanStep, pod: Pod, live: &Live<W>) {
        let is_first = step.candidates.first().is_some_and(|first| first.pod == pod);
        if !is_first && answers(step) {
            let (state, cache) = (self.router.plugin_state(), live.fleet.pod(pod.id()).and_then(|info| info.kv_tokens));
            let to = PodCache::new(pod, cache).pace(state.paces.of(pod.id()));
            state.programs.moved(&self.turn, to);
        }
    }

    /// So many tokens were generated.
    pub(crate) fn generated(&mut self, tokens: u64) {
        self.answer = self.answer.max(Some(tokens));
    }
}

/// Whether a step's pod answers.
pub(crate) fn answers(step: &PlanStep) -> bool {
    matches!(step.role, Role::Both | Role::Decode)
}

impl<const W: usize> Drop for OpenTurn<W> {
    fn drop(&mut self) {
        self.router.plugin_state().programs.end(&self.turn, self.answer, self.router.now());
    }
}

impl<const W: usize> fmt::Debug for OpenTurn<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenTurn").field(&self.turn).finish()
    }
}
