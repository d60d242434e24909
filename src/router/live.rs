//! Live state: profile, fleet and execution settings as one value, swapped atomically.
//!
//! The rule: a request loads it once, so it sees one version of everything.

use std::sync::Arc;

use kv_index::PodSet;
use parking_lot::Mutex;
use routing_core::flow::FlowControl;
use routing_core::{
    DecideError, Fleet, PlanStep, Request, Role, RoutingInput, RoutingPlan, Trace, Workflow, Workspace,
};
use routing_exec::{ClientFields, DispatchConfig};

/// One version of everything that may change while requests are served.
#[derive(Clone, Debug)]
pub(crate) struct Live<const W: usize> {
    pub(crate) profile: Arc<str>,
    /// Whether the profile guesses what pods hold.
    pub(crate) is_predicted: bool,
    pub(crate) workflow: Arc<PooledWorkflow<W>>,
    pub(crate) fleet: Arc<Fleet<W>>,
    pub(crate) dispatch: DispatchConfig,
    /// What clients may say to engines.
    pub(crate) client_fields: ClientFields,
    /// What has requests wait, if anything does.
    pub(crate) flow: Option<Arc<FlowControl<W>>>,
}

impl<const W: usize> Live<W> {
    /// Routes a request without some pods; fills the trace if one is given. `has_room` may refuse the plan.
    pub(crate) fn decide(
        &self,
        request: &Request<'_>,
        excluded: PodSet<W>,
        has_room: Option<&dyn Fn(&PlanStep) -> bool>,
        trace: Option<&mut Trace<W>>,
    ) -> Result<RoutingPlan, DecideError> {
        let mut plan = RoutingPlan::default();
        let mut input = RoutingInput::new(request, &self.fleet).excluding(excluded);
        if let Some(has_room) = has_room {
            input = input.with_room(has_room);
        }
        let input = match trace {
            Some(trace) => input.traced(trace),
            None => input,
        };
        self.workflow.with(|workflow, workspace| workflow.decide(workspace, input, &mut plan))?;
        Ok(plan)
    }
}

/// A workflow with a pool of workspaces, as many as requests were ever decided at once.
#[derive(Debug)]
pub(crate) struct PooledWorkflow<const W: usize> {
    workflow: Workflow<W>,
    workspaces: Mutex<Vec<Workspace<W>>>,
}

impl<const W: usize> PooledWorkflow<W> {
    /// What is odd about it.
    pub(crate) fn warnings(&self) -> &[routing_core::Warning] {
        self.workflow.warnings()
    }

    pub(crate) fn new(workflow: Workflow<W>) -> Self {
        Self { workflow, workspaces: Mutex::default() }
    }

    /// The steps with their roles.
    pub(crate) fn roles(&self) -> impl Iterator<Item = (&str, Role)> {
        self.workflow.roles()
    }

    fn with<T>(&self, work: impl FnOnce(&Workflow<W>, &mut Workspace<W>) -> T) -> T {
        let pooled = self.workspaces.lock().pop();
        let mut workspace = pooled.unwrap_or_else(|| self.workflow.workspace());
        let done = work(&self.workflow, &mut workspace);
        self.workspaces.lock().push(workspace);
        done
    }
}
