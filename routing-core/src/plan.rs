//! Routing plans as plain data: ranked candidates, failure policy and cache hint of each step.

use std::fmt;
use std::sync::Arc;

use kv_index::Pod;

use crate::fleet::Role;
use crate::program::ProgramTurn;

/// Where a request goes.
///
/// Kept by the caller and used again: a warm decision allocates nothing for it.
#[derive(Clone, Default)]
pub struct RoutingPlan {
    pub(crate) fleet: u64,
    pub(crate) steps: Vec<PlanStep>,
    /// Steps of this plan; what is beyond is memory of earlier ones.
    pub(crate) used: usize,
}

impl RoutingPlan {
    /// A plan of a host's own making, to be executed as one that was decided: the steps in the order given.
    pub fn new(fleet: u64, steps: impl IntoIterator<Item = PlanStep>) -> Self {
        let steps: Vec<PlanStep> = steps.into_iter().collect();
        Self { fleet, used: steps.len(), steps }
    }

    /// The steps to take, in the order they are executed.
    #[must_use]
    pub fn steps(&self) -> &[PlanStep] {
        &self.steps[..self.used]
    }

    /// The step of a name.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&PlanStep> {
        self.steps().iter().find(|step| *step.name == *name)
    }

    /// The version of the fleet that it was decided on.
    #[must_use]
    pub fn fleet(&self) -> u64 {
        self.fleet
    }

    pub(crate) fn begin(&mut self, fleet: u64) {
        self.fleet = fleet;
        self.used = 0;
    }

    /// The next step to fill in, with the memory of an earlier one.
    pub(crate) fn next(&mut self) -> &mut PlanStep {
        if self.used == self.steps.len() {
            self.steps.push(PlanStep::default());
        }
        self.used += 1;
        let step = &mut self.steps[self.used - 1];
        step.candidates.clear();
        (step.cache, step.program) = (None, None);
        step
    }
}

impl fmt::Debug for RoutingPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutingPlan").field("fleet", &self.fleet).field("steps", &self.steps()).finish()
    }
}

impl PartialEq for RoutingPlan {
    fn eq(&self, other: &Self) -> bool {
        self.fleet == other.fleet && self.steps() == other.steps()
    }
}

/// One step of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PlanStep {
    /// Its name in the workflow.
    pub name: Arc<str>,
    /// What is to be done.
    pub role: Role,
    /// Pods to try, best first; never empty.
    pub candidates: Vec<Candidate>,
    /// What to do when one fails.
    pub on_failure: FailurePolicy,
    /// What the first candidate is known to hold of the prompt.
    pub cache: Option<CacheHint>,
    /// The program that the request is a turn of, if a plugin tells.
    pub program: Option<ProgramTurn>,
    /// Whether it can be carried out without regard to the other steps.
    pub independent: bool,
    pub(crate) order: u16,
}

impl PlanStep {
    /// A step of a host's own making: these pods, best first, and the next one when one fails.
    #[must_use]
    pub fn new(name: &str, role: Role, pods: &[Pod]) -> Self {
        let candidates = pods.iter().map(|&pod| Candidate { pod, score: 0.0 }).collect();
        Self { name: name.into(), role, candidates, ..Self::default() }
    }

    /// The same with another answer to failure.
    #[must_use]
    pub fn on_failure(self, on_failure: FailurePolicy) -> Self {
        Self { on_failure, ..self }
    }
}

/// A pod to try.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// The pod, with its generation: a pod that was replaced meanwhile is not tried by mistake.
    pub pod: Pod,
    /// Its total score.
    pub score: f32,
}

/// What a pod holds of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheHint {
    /// Leading blocks it holds.
    pub held: usize,
    /// Blocks the prompt has.
    pub blocks: usize,
}

impl CacheHint {
    /// So many leading blocks of so many.
    #[must_use]
    pub const fn new(held: usize, blocks: usize) -> Self {
        Self { held, blocks }
    }
}

/// What to do when a step's pods fail.
///
/// Under every policy but [`Fail`](Self::Fail) the step's candidates are tried first, best first, as long as the failure is worth
/// another pod and the executor's bounds allow; the policy says what follows when no more of them may be tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailurePolicy {
    /// Try the next candidate; after the last one, fail the request.
    #[default]
    NextCandidate,
    /// Go on without the step: the decode pod prefills alone. Also where no pod is left for it when it is decided. The step
    /// that is executed last cannot be left out, and fails the request.
    Skip,
    /// Decide anew without the pods that failed, and begin with the new plan's first step.
    Replan,
    /// Fail the request at the first failure.
    Fail,
}
