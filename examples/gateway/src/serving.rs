//! What requests are decided and carried out by, as one value: swapped whole, so a request sees one version of it.

use std::sync::Arc;
use std::time::Duration;

use kv_index::PodSet;
use parking_lot::Mutex;
use routing_core::{DecideError, Fleet, Request, RoutingInput, RoutingPlan, Trace, Workflow, Workspace};
use routing_exec::handoff::{
    Handoff, Mooncake, MooncakeEngine, MooncakeEngines, Nixl, Plain, SglangBootstrap, SharedStorage,
};
use routing_exec::{DispatchConfig, DispatchPolicy};

use super::config::server_seconds as seconds;
use super::config::{Config, HandoffKind, Limits};

/// One version of everything that a reload or a health check may change.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) profile: Arc<str>,
    pub(super) deciding: Arc<Deciding>,
    pub(super) fleet: Arc<Fleet>,
    pub(super) limits: Limits,
    /// How long a client may pause.
    pub(super) client_pause: Duration,
    pub(super) dispatch: DispatchConfig,
}

impl Serving {
    /// The same on another version of the fleet.
    pub(super) fn on(&self, fleet: Fleet) -> Self {
        Self {
            profile: Arc::clone(&self.profile),
            deciding: Arc::clone(&self.deciding),
            fleet: Arc::new(fleet),
            limits: self.limits.clone(),
            client_pause: self.client_pause,
            dispatch: self.dispatch.clone(),
        }
    }

    /// Decides on a request; with reasons where they are wanted.
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
        self.deciding.with(|workflow, workspace| workflow.decide(workspace, input, &mut plan))?;
        Ok(plan)
    }
}

/// A workflow with workspaces of its own, as many as requests were ever decided at once.
#[derive(Debug)]
pub(super) struct Deciding {
    workflow: Workflow,
    workspaces: Mutex<Vec<Workspace>>,
}

impl Deciding {
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

/// Timeouts and retries, by a configuration.
pub(super) fn dispatch_policy(config: &Config) -> DispatchPolicy {
    let patience = &config.patience;
    let first_byte_timeout = seconds(patience.first_byte_seconds);
    DispatchPolicy {
        max_attempts: patience.attempts,
        prefill_first_byte_timeout: first_byte_timeout,
        first_byte_timeout,
        request_timeout: seconds(patience.whole_seconds),
        idle_timeout: seconds(patience.idle_seconds),
        ..DispatchPolicy::default()
    }
}

/// The dialect of a handoff.
pub(super) fn handoff(kind: HandoffKind) -> Arc<dyn Handoff> {
    match kind {
        HandoffKind::Nixl => Arc::new(Nixl::default()),
        HandoffKind::Sglang => Arc::new(SglangBootstrap::default()),
        HandoffKind::Mooncake => Arc::new(Mooncake::new(Arc::new(Unknown))),
        HandoffKind::SharedStorage => Arc::new(SharedStorage::default()),
        HandoffKind::Plain => Arc::new(Plain::default()),
    }
}

/// Nobody asked the bootstrap servers.
#[derive(Debug)]
struct Unknown;

impl MooncakeEngines for Unknown {
    fn engine(&self, _: routing_core::Pod) -> Option<MooncakeEngine> {
        None
    }
}
