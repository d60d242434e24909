//! Panic isolation: a decision that costs its request, not its thread, when a plugin panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::error::DecideError;
use crate::fault::PluginName;
use crate::input::RoutingInput;
use crate::plan::RoutingPlan;
use crate::selector::Selector;
use crate::slot::Brand;
use crate::workflow::Workflow;
use crate::workspace::Workspace;

impl<const W: usize> Workflow<W> {
    /// Decides as [`decide`](Self::decide) does, and turns a panic of a plugin into an error.
    ///
    /// The plan is then empty, and the workspace is made anew, so that nothing half done is left in it. What the plugin keeps
    /// for itself or for the host is for the plugin to answer for: a lock that it held is poisoned if it is one of `std`. A
    /// decision without a panic is the same as one that is not caught.
    ///
    /// The panic hook runs before this, and prints what it prints. Where panics abort (`panic = "abort"`), nothing is caught.
    ///
    /// # Errors
    ///
    /// As [`decide`](Self::decide), and [`DecideError::PluginPanicked`].
    ///
    /// # Panics
    ///
    /// When something else than a plugin does: that is a fault of ours, and goes on.
    pub fn decide_catching(
        &self,
        workspace: &mut Workspace<W>,
        input: RoutingInput<'_, W>,
        plan: &mut RoutingPlan,
    ) -> Result<(), DecideError> {
        let version = input.fleet.version();
        // Unwind safe: what a panic may leave half done is the workspace and the plan, and both are made anew below; a trace
        // ends where the decision did.
        let caught = catch_unwind(AssertUnwindSafe(|| self.decide(workspace, input, plan)));
        caught.unwrap_or_else(|payload| {
            plan.begin(version);
            let running = workspace.slots.running;
            *workspace = self.workspace();
            match self.plugin(running) {
                Some(plugin) => Err(DecideError::PluginPanicked { plugin, message: message(&*payload) }),
                None => resume_unwind(payload),
            }
        })
    }

    fn plugin(&self, brand: Brand) -> Option<PluginName> {
        self.steps.iter().find_map(|step| {
            let plugin = Arc::clone(step.plugin(brand)?);
            Some(PluginName { step: Arc::clone(&step.name), plugin })
        })
    }
}

impl<const W: usize> Selector<W> {
    /// Selects as [`decide`](Self::decide) does, and turns a panic of a plugin into an error
    /// ([`Workflow::decide_catching`]).
    ///
    /// # Errors
    ///
    /// As [`decide`](Self::decide), and [`DecideError::PluginPanicked`].
    pub fn decide_catching(
        &self,
        workspace: &mut Workspace<W>,
        input: RoutingInput<'_, W>,
        plan: &mut RoutingPlan,
    ) -> Result<(), DecideError> {
        self.0.decide_catching(workspace, input, plan)
    }
}

fn message(payload: &(dyn Any + Send)) -> Box<str> {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text").into()
}
