//! Hot reload: a workflow replaced by an atomic swap while it is in use.

use kv_index::DEFAULT_POD_WORDS;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::workflow::Workflow;

/// Where the current workflow is published.
///
/// A new one is built aside and swapped in whole. Decisions under way finish on the workflow they began with: each
/// holds it together with the workspace it was made for.
#[derive(Debug)]
pub struct WorkflowCell<const W: usize = DEFAULT_POD_WORDS>(ArcSwap<Workflow<W>>);

impl<const W: usize> WorkflowCell<W> {
    /// A cell with a first workflow.
    #[must_use]
    pub fn new(workflow: impl Into<Workflow<W>>) -> Self {
        Self(ArcSwap::from_pointee(workflow.into()))
    }

    /// Replaces the workflow for decisions that begin from now on.
    pub fn replace(&self, workflow: impl Into<Workflow<W>>) {
        self.0.store(Arc::new(workflow.into()));
    }

    /// The current workflow.
    #[must_use]
    pub fn load(&self) -> Arc<Workflow<W>> {
        self.0.load_full()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::sync::{Mutex, PoisonError};
    use std::thread;
    use std::time::Instant;

    use kv_index::{Config, Index};

    use super::*;
    use crate::{
        DecideError, Fleet, Picker, PluginError, PodInfo, ProfileBuilder, Ranking, Request, RoutingContext,
        RoutingInput, RoutingPlan, Scorer, Scores, Totals,
    };

    /// Says that it was asked, and waits to be let on.
    struct Gate {
        asked: SyncSender<()>,
        let_on: Mutex<Receiver<()>>,
    }

    impl Scorer for Gate {
        fn score(&self, _: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
            self.asked.send(()).map_err(PluginError::failed)?;
            self.let_on.lock().unwrap_or_else(PoisonError::into_inner).recv().map_err(PluginError::failed)
        }
    }

    struct Best;

    impl Picker for Best {
        fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
            totals.rank(1, ranking);
            Ok(())
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test is the host: it has the time and the threads")]
    fn a_decision_in_flight_finishes_on_the_workflow_it_began_with() {
        let (asked, was_asked) = sync_channel(1);
        let (let_on, may_go_on) = sync_channel(1);
        let gate = Gate { asked, let_on: Mutex::new(may_go_on) };
        let old = ProfileBuilder::new("old").scorer("gate", 1.0, |_| gate).picker("best", |_| Best);
        let cell = WorkflowCell::new(old.build().expect("the old profile is sound"));
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").expect("there is room");
        let fleet = Fleet::new(1, [PodInfo::new(pod, "a")]);
        let now = Instant::now();

        thread::scope(|scope| {
            let under_way = scope.spawn(|| {
                let workflow = cell.load();
                let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
                let request = Request::new("any", now);
                workflow
                    .decide(&mut workspace, RoutingInput::new(&request, &fleet), &mut plan)
                    .expect("the old workflow decides");
                (workspace, plan)
            });
            was_asked.recv().expect("the decision has begun");
            let new = ProfileBuilder::new("new").picker("best", |_| Best);
            cell.replace(new.build().expect("the new profile is sound"));

            // The old decision is still held at the gate, and the new workflow is in service.
            let (request, mut plan) = (Request::new("any", now), RoutingPlan::default());
            let current = cell.load();
            current
                .decide(&mut current.workspace(), RoutingInput::new(&request, &fleet), &mut plan)
                .expect("the new workflow decides");
            assert_eq!(&*plan.steps()[0].name, "new");

            let_on.send(()).expect("the decision waits");
            let (mut workspace, finished) = under_way.join().expect("the decision ended");
            assert_eq!(&*finished.steps()[0].name, "old");
            let foreign = current.decide(&mut workspace, RoutingInput::new(&request, &fleet), &mut plan);
            assert_eq!(foreign, Err(DecideError::ForeignWorkspace));
        });
    }
}
