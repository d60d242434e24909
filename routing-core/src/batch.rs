//! Which pod should do what, and in which order, of a whole queue that is known beforehand?
//!
//! A skeleton: types that the planner gives and the runner takes.

use std::time::Duration;

use kv_index::{BlockHash, Pod};

/// One request of a batch.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "what a host fills in by name")]
pub struct BatchRequest<'c> {
    /// The hashes of its prompt's whole blocks.
    pub chain: &'c [BlockHash],
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens that its answer is expected to have.
    pub output_tokens: u32,
    /// When its answer must be there, from the start of the batch.
    pub deadline: Option<Duration>,
}

/// A pod that takes part.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "what a host fills in by name")]
pub struct BatchPod {
    /// Which.
    pub pod: Pod,
    /// Tokens that its KV cache has room for.
    pub kv_tokens: u64,
    /// How fast it is, against a pod of the costs that the planner is given; 1 for one as fast.
    pub speed: f64,
}

/// What every pod does, in which order.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BatchPlan {
    /// By pod, as they were given.
    pub pods: Vec<PodPlan>,
    /// Requests that will not be done in time, or not at all.
    pub infeasible: Vec<Infeasible>,
}

/// What one pod does.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PodPlan {
    /// Which.
    pub pod: Pod,
    /// In the order they are begun.
    pub cohorts: Vec<Cohort>,
    /// How long it is expected to take.
    pub takes: Duration,
    /// Tokens of prompts that it computes.
    pub prefill_tokens: u64,
}

/// Requests that share the beginning of their prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cohort {
    /// Leading blocks that all of them share: those of the first one's chain.
    pub shared_blocks: u32,
    /// Which requests, by their place in the batch, in the order they are sent.
    pub requests: Vec<u32>,
    /// Leading blocks of its chains that a later cohort of this pod still needs: what lies beyond may be dropped when it is done.
    pub keep_blocks: u32,
}

/// A request that the plan cannot serve as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Infeasible {
    /// Which, by its place in the batch.
    pub request: u32,
    /// Why.
    pub why: InfeasibleReason,
}

/// Why a request cannot be served as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InfeasibleReason {
    /// No pod's cache holds its prompt and answer. It is in no cohort.
    TooLong,
    /// It is expected to be done this late. It is in the plan all the same.
    Late(Duration),
}
