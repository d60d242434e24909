//! Fleets, slots and decisions for the tests of pickers.

use std::time::{Duration, Instant};

use kv_index::{Config, Index, Pod, PodId};
use routing_core::{
    Declare, Fleet, Picker, PluginError, PodInfo, PrepareContext, Preparer, ProfileBuilder, Request, RoutingContext,
    RoutingInput, RoutingPlan, Scorer, Scores, Slot, StepBuilder, Workflow, WorkflowBuilder, Write,
};

/// An index with pods `pod-0` on.
pub(crate) fn pods(pods: usize) -> (Index, Vec<PodInfo>) {
    let index = Index::new(Config::default());
    let info = |at| {
        let name = format!("pod-{at}");
        PodInfo::new(index.join(&name).expect("room"), &name)
    };
    let infos = (0..pods).map(info).collect();
    (index, infos)
}

pub(crate) fn fleet(count: usize) -> Fleet {
    Fleet::new(1, pods(count).1)
}

/// A moment, so many seconds after the first.
#[expect(clippy::disallowed_methods, reason = "a test's time starts at some instant; which one does not matter")]
pub(crate) fn at(seconds: u64) -> Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *START.get_or_init(Instant::now) + Duration::from_secs(seconds)
}

pub(crate) fn request(seed: u64) -> Request<'static> {
    Request::new("m", at(0)).seed(seed)
}

/// Scores by the pod's number.
struct By<F>(F);

impl<F: Fn(usize) -> f32 + Send + Sync> Scorer for By<F> {
    fn score(&self, _: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|pod| (self.0)(pod.index()));
        Ok(())
    }
}

/// Puts in a slot what a function makes of the request.
struct Put<S: Slot, F>(Write<S>, F);

impl<S: Slot, F: Fn(&Request<'_>) -> S::Value + Send + Sync> Preparer for Put<S, F> {
    fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        let value = (self.1)(context.request());
        Ok(context.put(self.0, value)?)
    }
}

/// A profile of scores and a picker.
pub(crate) fn profile<P: Picker + 'static>(
    score: impl Fn(usize) -> f32 + Send + Sync + 'static,
    picker: impl FnOnce(&mut Declare<'_>) -> P + Send + 'static,
) -> ProfileBuilder {
    ProfileBuilder::new("s").scorer("by", 1.0, |_: &mut Declare<'_>| By(score)).picker("picker", picker)
}

/// The same with a slot filled.
pub(crate) fn with<S: Slot>(
    profile: ProfileBuilder,
    value: impl Fn(&Request<'_>) -> S::Value + Send + Sync + 'static,
) -> ProfileBuilder {
    profile.preparer(S::NAME, |declare: &mut Declare<'_>| Put::<S, _>(declare.writes(), value))
}

/// A workflow whose plans keep all that is ranked.
pub(crate) fn build(profile: ProfileBuilder) -> Workflow {
    WorkflowBuilder::new().step(StepBuilder::new("s", profile).ranked(1_000)).build().expect("it fits together")
}

/// The pods that are ranked for a request.
pub(crate) fn decide(workflow: &Workflow, request: &Request<'_>, fleet: &Fleet) -> Vec<Pod> {
    let mut plan = RoutingPlan::default();
    workflow.decide(&mut workflow.workspace(), RoutingInput::new(request, fleet), &mut plan).expect("a plan");
    plan.steps()[0].candidates.iter().map(|candidate| candidate.pod).collect()
}

/// Their numbers.
pub(crate) fn numbers(workflow: &Workflow, request: &Request<'_>, fleet: &Fleet) -> Vec<usize> {
    decide(workflow, request, fleet).iter().map(|pod| pod.id().index()).collect()
}

/// The pod of a number.
pub(crate) fn pod(number: usize) -> PodId {
    PodId::new(number as u16)
}
