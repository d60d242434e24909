//! What pods have to do: counted by guards, reported by engines, and merged.

mod guard;
mod tracker;

use std::time::Duration;

pub use guard::LoadGuard;
pub use tracker::LoadTracker;

/// What a request costs its pod, as far as it is known when it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "figures that a host fills in by name")]
pub struct Work {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Those of them that the pod does not hold and has to compute.
    pub uncached_tokens: u64,
    /// Tokens it will generate, by the host's estimate.
    pub output_tokens: u64,
}

/// What was sent to a pod from here and is not done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InFlight {
    /// Requests.
    pub requests: u32,
    /// Those of them that have not seen their first token.
    pub prefilling: u32,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Tokens that have to be computed before first tokens can come.
    pub uncached_tokens: u64,
    /// Tokens that are to be generated.
    pub output_tokens: u64,
}

/// What a pod has to do, own figures and its engine's merged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PodLoad {
    /// What was sent from here.
    pub in_flight: InFlight,
    /// Requests on the pod: what its engine reported, changed by what was sent from here and done since; never fewer than
    /// are in flight from here.
    pub requests: u32,
    /// Requests that its engine reported as being worked on.
    pub running: u32,
    /// Requests that its engine reported as waiting.
    pub waiting: u32,
    /// Tokens of all requests, merged as requests are.
    pub tokens: u64,
    /// How much of its KV cache is in use, 0..=1, as its engine reported.
    pub kv_used: f32,
    /// How old its engine's report is; none if there is none, it is of unknown age, or too old to be used.
    pub age: Option<Duration>,
}
