//! A workflow that can be replaced while it is in use.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::workflow::Workflow;

/// Where the current workflow is published.
///
/// A new one is built aside and swapped in whole. Decisions under way finish on the workflow they began with: each
/// holds it together with the workspace it was made for.
#[derive(Debug)]
pub struct WorkflowCell<const W: usize = 4>(ArcSwap<Workflow<W>>);

impl<const W: usize> WorkflowCell<W> {
    /// A cell with a first workflow.
    #[must_use]
    pub fn new(workflow: Workflow<W>) -> Self {
        Self(ArcSwap::from_pointee(workflow))
    }

    /// Replaces the workflow for decisions that begin from now on.
    pub fn replace(&self, workflow: Workflow<W>) {
        self.0.store(Arc::new(workflow));
    }

    /// The current workflow.
    #[must_use]
    pub fn load(&self) -> Arc<Workflow<W>> {
        self.0.load_full()
    }
}
