//! Offline batch planning: prefix-aware partition, order and schedule of a whole queue over pods.
//!
//! A queue can do what traffic cannot: be sorted. In the order of a depth-first walk over the trie of all prompts, requests
//! that share a prefix stand next to each other, so it is computed once and used by all of them before it has to go, in
//! a cache that need not hold more than the path at hand and what runs. [`BatchPlanner`] brings the queue into that order,
//! cuts it into ranges of equal work, gives them to pods, and says what is late before anything runs.
//!
//! The one rule that must never break: every request is in exactly one cohort of one pod whose cache can hold it, or it
//! is reported as [`InfeasibleReason::TooLong`] (`tests/batch/main.rs`).
//!
//! # How
//!
//! 1. Requests are sorted by their chains, with the blocks that each shares with the one before. No trie is built.
//! 2. What it costs to compute what is new in each, and to generate its answer, is worked out by [`BatchCosts`].
//! 3. Pods take what they already hold the beginnings of, and then ranges of what is left, until all have as much to do.
//!    A cut computes the path that leads to it once more, so cuts are made where it is short, within
//!    [`BatchConfig::most_imbalance`].
//! 4. A pod's range falls into units that share next to nothing with each other. Their order is free: the most urgent are
//!    first, and the rest are interleaved so that prompts to compute and answers to generate last equally long ([`Mixing`]).
//! 5. Every pod's run is gone through on paper, in order, with as many running at once as its cache holds. Where pods would
//!    end at different times, the cuts are moved; where requests would be late, the urgent ones become a queue of their own
//!    in front of the others, which costs the prefixes that both share once more.
//!
//! # Example
//!
//! ```
//! use kv_index::{BlockHash, Config, Index};
//! use routing_core::batch::{BatchConfig, BatchCosts, BatchPlanner, BatchPod, BatchRequest, ColdCaches};
//!
//! let index: Index = Index::new(Config::default());
//! let pods = ["a", "b"].map(|name| index.join(name).map(|pod| BatchPod { pod, kv_tokens: 100_000, speed: 1.0 }));
//! let pods: Vec<_> = pods.into_iter().collect::<Result<_, _>>()?;
//!
//! // Two documents of 40 blocks with four questions each, asked in turns.
//! let chains: Vec<Vec<BlockHash>> = (0..8)
//!     .map(|i| (0..40).map(|at| 1_000 * (1 + i % 2) + at).chain([10_000 + i]).map(BlockHash::new).collect())
//!     .collect();
//! let request = |chain| BatchRequest { chain, prompt_tokens: 41 * 16 + 5, output_tokens: 100, deadline: None };
//! let requests: Vec<_> = chains.iter().map(|chain| request(chain)).collect();
//!
//! // Seconds of a device and a model.
//! let costs = BatchCosts::ZERO
//!     .prompt_token(28.8e-6)
//!     .attended_pair(8.51e-10)
//!     .step(17.1e-3)
//!     .output_token(60.7e-6)
//!     .context_token(3.34e-7);
//! let plan = BatchPlanner::new(BatchConfig::new(costs)).plan(&requests, &pods, &mut ColdCaches)?;
//! assert_eq!(plan.pods[0].cohorts[0].shared_blocks, 40);
//! assert_eq!(plan.prefill_tokens(), plan.distinct_tokens(), "each document is computed once, by one pod");
//! assert!(plan.imbalance() < 0.01);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cached_prefixes;
mod cohorts;
mod config;
mod costs;
mod estimate;
mod layer;
mod longest_first;
mod order;
mod partition;
mod planner;
mod queues;
mod rebalance;
mod schedule;
mod sequence;
mod summary;
mod work_stealing;

use std::time::Duration;

use kv_index::{BlockHash, Pod};

pub use cached_prefixes::{CachedPrefixes, ColdCaches, IndexedCaches};
pub use config::{BatchConfig, BatchError, Mixing};
pub use costs::BatchCosts;
pub use planner::BatchPlanner;
pub use queues::{BatchQueues, CohortStart, ConcurrencyLimit, NextRequest, RequestSize};

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

impl BatchRequest<'_> {
    /// Tokens that it needs room for in a cache, alone.
    pub(crate) fn room(&self) -> u64 {
        u64::from(self.prompt_tokens) + u64::from(self.output_tokens)
    }

    /// Tokens of its prompt that are still to be computed where `blocks` of it are there: at least one, since
    /// an answer begins with what the last token's computation gives.
    pub(crate) fn new_tokens(&self, blocks: u32, block_tokens: u32) -> u32 {
        let there = u64::from(blocks) * u64::from(block_tokens);
        let left = u64::from(self.prompt_tokens).saturating_sub(there);
        left.max(1).try_into().unwrap_or(u32::MAX)
    }
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
    /// Requests that will not be done in time, or not at all; by their place in the batch.
    pub infeasible: Vec<Infeasible>,
    /// Tokens of prompts that would have to be computed by one pod with an endless cache.
    pub(crate) distinct: u64,
    /// When each request is expected to be done, by its place in the batch.
    pub(crate) finishes: Vec<Option<Duration>>,
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
    /// Tokens that its KV cache has room for, as it was planned for.
    pub kv_tokens: u64,
    /// How fast it is, as it was planned for.
    pub speed: f64,
}

/// Requests that share the beginning of their prompts.
///
/// They stand next to each other because they share much: what a request shares with the one before it is at least half of
/// the most that two neighbours before them share and of what it shares with the one behind, and no less than an eighth of
/// the shorter of the two chains. The first one computes what all share; whoever sends them does well to let it begin first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cohort {
    /// Leading blocks that all of them share: those of the first one's chain.
    pub shared_blocks: u32,
    /// Which requests, by their place in the batch, in the order they are sent.
    pub requests: Vec<u32>,
    /// Tokens of each one's prompt that are to be computed, in the order of `requests`; empty if that is not known.
    pub new_tokens: Vec<u32>,
    /// Leading blocks of its chains that a later cohort of this pod still needs: what lies beyond may be dropped when it is done.
    pub keep_blocks: u32,
    /// How urgent it is: all of a lower tier comes before it, wherever it is. 0 unless requests have deadlines.
    pub tier: u32,
}

impl Cohort {
    /// A cohort that is planned by someone else.
    #[must_use]
    pub fn new(shared_blocks: u32, requests: Vec<u32>, keep_blocks: u32) -> Self {
        Self { shared_blocks, requests, new_tokens: Vec::new(), keep_blocks, tier: 0 }
    }

    /// The same in this tier.
    #[must_use]
    pub fn tier(mut self, tier: u32) -> Self {
        self.tier = tier;
        self
    }
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
