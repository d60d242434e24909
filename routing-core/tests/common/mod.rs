//! Small plugins, fleets and requests for tests.

#![allow(dead_code, reason = "each test uses some of it")]

use std::time::Instant;

use kv_index::{Config, Index, PodSet};
use routing_core::{
    Condition, DecideError, Declare, Filter, Fleet, Picker, PluginError, PluginName, PodInfo, PrefixMatches,
    PrepareContext, Preparer, Ranking, Read, ReadPick, Request, RoutingContext, RoutingInput, RoutingPlan, Scorer,
    Scores, Slot, Totals, Workflow, Write,
};

#[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
pub(crate) fn request() -> Request<'static> {
    Request::new("m", Instant::now())
}

/// An index of so many pods, `pod-0` on, and a fleet of them.
pub(crate) fn fleet<const W: usize>(pods: usize) -> (Index<W>, Fleet<W>) {
    let index = Index::with_width(Config::default());
    let names = (0..pods).map(|at| format!("pod-{at}"));
    let infos: Vec<_> = names.map(|name| PodInfo::new(index.join(&name).expect("room"), &name)).collect();
    (index, Fleet::new(1, infos))
}

pub(crate) fn decide<const W: usize>(
    workflow: &Workflow<W>,
    request: &Request<'_>,
    fleet: &Fleet<W>,
) -> Result<RoutingPlan, DecideError> {
    let mut plan = RoutingPlan::default();
    workflow.decide(&mut workflow.workspace(), RoutingInput::new(request, fleet), &mut plan)?;
    Ok(plan)
}

/// The pods a step of a plan names, best first.
pub(crate) fn pods(plan: &RoutingPlan, step: &str) -> Vec<usize> {
    let step = plan.step(step).expect("the step was taken");
    step.candidates.iter().map(|candidate| candidate.pod.id().index()).collect()
}

pub(crate) fn plugin(step: &str, plugin: &str) -> PluginName {
    PluginName { step: step.into(), plugin: plugin.into() }
}

/// Ranks the best three.
pub(crate) struct Best;

impl Best {
    pub(crate) fn declare(_: &mut Declare<'_>) -> Self {
        Self
    }
}

impl<const W: usize> Picker<W> for Best {
    fn pick(
        &self,
        _: &RoutingContext<'_, W>,
        totals: &Totals<'_, W>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError> {
        totals.rank(3, ranking);
        Ok(())
    }
}

/// A filter that keeps what a function keeps.
pub(crate) struct Keep<F>(pub(crate) F);

impl<const W: usize, F: Fn(PodSet<W>) -> PodSet<W> + Send + Sync> Filter<W> for Keep<F> {
    fn filter(&self, _: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        Ok((self.0)(candidates))
    }
}

/// A scorer that gives what a function of the pod's number gives.
pub(crate) struct By<F>(pub(crate) F);

impl<const W: usize, F: Fn(usize) -> f32 + Send + Sync> Scorer<W> for By<F> {
    fn score(&self, _: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        scores.fill(|pod| (self.0)(pod.index()));
        Ok(())
    }
}

/// Holds if the pod that another step picked lacks so many blocks of the prompt.
pub(crate) struct PrefixMiss {
    held: Read<PrefixMatches>,
    pick: ReadPick,
    lacking: usize,
}

impl PrefixMiss {
    pub(crate) fn declare(declare: &mut Declare<'_>, step: &str, lacking: usize) -> Self {
        Self { held: declare.reads(), pick: declare.reads_pick(step), lacking }
    }
}

impl Condition for PrefixMiss {
    fn holds(&self, context: &RoutingContext<'_>) -> Result<bool, PluginError> {
        let (held, pick) = (context.read(self.held)?, context.pick(self.pick)?);
        Ok(held.blocks() - held.depth(pick) >= self.lacking)
    }
}

/// A slot with a number in it.
#[derive(Debug)]
pub(crate) struct Number;

impl Slot for Number {
    type Value = u64;
    const NAME: &'static str = "number";
}

/// Puts a number in its slot.
pub(crate) struct Put(pub(crate) Write<Number>, pub(crate) u64);

impl<const W: usize> Preparer<W> for Put {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        Ok(context.put(self.0, self.1)?)
    }
}
