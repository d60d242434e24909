//! A selector: one validated pass Prepare → Filter → Score → Pick over the pods of a fleet.

use std::fmt;

use kv_index::DEFAULT_POD_WORDS;

use crate::error::DecideError;
use crate::fault::Warning;
use crate::input::RoutingInput;
use crate::plan::RoutingPlan;
use crate::workflow::Workflow;
use crate::workspace::Workspace;

/// What a profile builds: one pass Prepare → Filter → Score → Pick, immutable and shared between threads.
///
/// It selects pods by itself, or as the one step of a [`Workflow`](crate::Workflow) that it converts into. A workflow of
/// several steps composes profiles instead, since their plugins share one context and are validated together.
pub struct Selector<const W: usize = DEFAULT_POD_WORDS>(pub(crate) Workflow<W>);

impl<const W: usize> Selector<W> {
    /// The name of its profile, which its step of a plan has too.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.steps().next().unwrap_or_default()
    }

    /// What works, and was hardly meant.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        self.0.warnings()
    }

    /// Buffers for decisions of this selector. Keep one for each thread, or a pool of them.
    #[must_use]
    pub fn workspace(&self) -> Workspace<W> {
        self.0.workspace()
    }

    /// Selects the pods for a request, as a plan of one step.
    ///
    /// # Errors
    ///
    /// When no candidate is left, or a plugin fails. The plan is then empty.
    pub fn decide(
        &self,
        workspace: &mut Workspace<W>,
        input: RoutingInput<'_, W>,
        plan: &mut RoutingPlan,
    ) -> Result<(), DecideError> {
        self.0.decide(workspace, input, plan)
    }
}

impl<const W: usize> fmt::Debug for Selector<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selector").field("name", &self.name()).finish_non_exhaustive()
    }
}
