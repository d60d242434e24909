//! Live configuration: profile, fleet, limits and execution settings as one value, swapped atomically.
//!
//! The rule: a request loads it once, so it sees one version of everything.

use std::sync::Arc;
use std::time::Duration;

use kv_index::PodSet;
use parking_lot::Mutex;
use routing_core::{DecideError, Fleet, Request, RoutingInput, RoutingPlan, Trace, Workflow, Workspace};
use routing_exec::{ClientFields, DispatchConfig, DispatchPolicy};

use super::config::{Config, Limits};

/// One version of everything that a reload or a health check may change.
#[derive(Debug)]
pub(super) struct LiveConfig {
    pub(super) profile: Arc<str>,
    pub(super) workflows: Arc<WorkflowPool>,
    pub(super) fleet: Arc<Fleet>,
    pub(super) limits: Limits,
    /// Between two reads or writes of a client.
    pub(super) client_idle_timeout: Duration,
    pub(super) dispatch: DispatchConfig,
    /// What clients may say to engines.
    pub(super) client_fields: ClientFields,
}

impl LiveConfig {
    /// The same with another version of the fleet.
    pub(super) fn with_fleet(&self, fleet: Fleet) -> Self {
        Self {
            profile: Arc::clone(&self.profile),
            workflows: Arc::clone(&self.workflows),
            fleet: Arc::new(fleet),
            limits: self.limits.clone(),
            client_idle_timeout: self.client_idle_timeout,
            dispatch: self.dispatch.clone(),
            client_fields: self.client_fields.clone(),
        }
    }

    /// Routes a request, excluding pods; fills the trace if one is given.
    pub(super) fn decide(
        &self,
        request: &Request<'_>,
        without: PodSet,
        trace: Option<&mut Trace>,
    ) -> Result<RoutingPlan, DecideError> {
        let mut plan = RoutingPlan::default();
        let input = RoutingInput::new(request, &self.fleet).excluding(without);
        let input = match trace {
            Some(trace) => input.traced(trace),
            None => input,
        };
        self.workflows.with(|workflow, workspace| workflow.decide(workspace, input, &mut plan))?;
        Ok(plan)
    }
}

/// A workflow with a pool of workspaces, as many as requests were ever decided at once.
#[derive(Debug)]
pub(super) struct WorkflowPool {
    workflow: Workflow,
    workspaces: Mutex<Vec<Workspace>>,
}

impl WorkflowPool {
    pub(super) fn new(workflow: Workflow) -> Self {
        Self { workflow, workspaces: Mutex::default() }
    }

    fn with<T>(&self, work: impl FnOnce(&Workflow, &mut Workspace) -> T) -> T {
        let pooled = self.workspaces.lock().pop();
        let mut workspace = pooled.unwrap_or_else(|| self.workflow.workspace());
        let done = work(&self.workflow, &mut workspace);
        self.workspaces.lock().push(workspace);
        done
    }
}

/// The execution settings of a configuration: timeouts and attempts.
pub(super) fn dispatch_policy(config: &Config) -> DispatchPolicy {
    let timeouts = &config.timeouts;
    DispatchPolicy {
        max_attempts: config.retry.max_attempts,
        prefill_first_byte_timeout: timeouts.first_byte_timeout,
        first_byte_timeout: timeouts.first_byte_timeout,
        request_timeout: timeouts.request_timeout,
        idle_timeout: timeouts.stream_idle_timeout,
        ..DispatchPolicy::default()
    }
}
