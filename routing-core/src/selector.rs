//! A selector: one validated pass Prepare → Filter → Score → Pick over the pods of a fleet.

use std::{fmt, slice};

use kv_index::DEFAULT_POD_WORDS;

use crate::decide::Steps;
use crate::declare::Layout;
use crate::error::DecideError;
use crate::fault::Warning;
use crate::input::RoutingInput;
use crate::plan::RoutingPlan;
use crate::step::Step;
use crate::workspace::Workspace;

/// What a profile builds: one pass Prepare → Filter → Score → Pick, immutable and shared between threads.
///
/// It selects pods by itself, or as the one step of a [`Workflow`](crate::Workflow) that it converts into. A workflow of
/// several steps composes profiles instead, since their plugins share one context and are validated together.
pub struct Selector<const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) layout: Layout,
    pub(crate) step: Step<W>,
    pub(crate) warnings: Vec<Warning>,
}

impl<const W: usize> Selector<W> {
    /// The name of its profile, which its step of a plan has too.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.step.name
    }

    /// What works, and was hardly meant.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Buffers for decisions of this selector. Keep one for each thread, or a pool of them.
    #[must_use]
    pub fn workspace(&self) -> Workspace<W> {
        Workspace::new(&self.layout)
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
        Steps { layout: &self.layout, steps: slice::from_ref(&self.step) }.decide(workspace, input, plan)
    }
}

impl<const W: usize> fmt::Debug for Selector<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selector").field("name", &self.name()).finish_non_exhaustive()
    }
}
