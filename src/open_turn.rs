//! A program's turn that is ended once: by what its answer took, or by whoever gives it up.

use std::fmt;

use kv_index::DEFAULT_POD_WORDS;
use routing_core::{ProgramTurn, RoutingPlan};

use crate::router::Router;

/// The turn that a plan began. Dropped unsaid, its context is as long as its prompt.
pub(crate) struct OpenTurn<const W: usize = DEFAULT_POD_WORDS> {
    router: Router<W>,
    turn: ProgramTurn,
    /// Tokens of prompt and answer so far.
    pub(crate) tokens: u64,
}

impl<const W: usize> OpenTurn<W> {
    /// The turn of a plan that was decided and recorded, as the step tells that answers.
    pub(crate) fn of(router: &Router<W>, plan: &RoutingPlan) -> Option<Self> {
        let turn = plan.steps().iter().rev().find_map(|step| step.program)?;
        Some(Self { router: router.clone(), turn, tokens: turn.tokens })
    }

    /// So many tokens were generated.
    pub(crate) fn generated(&mut self, tokens: u64) {
        self.tokens = self.tokens.max(self.turn.tokens.saturating_add(tokens));
    }
}

impl<const W: usize> Drop for OpenTurn<W> {
    fn drop(&mut self) {
        self.router.plugin_state().programs.end(&self.turn, self.tokens, self.router.now());
    }
}

impl<const W: usize> fmt::Debug for OpenTurn<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenTurn").field(&self.turn).finish()
    }
}
