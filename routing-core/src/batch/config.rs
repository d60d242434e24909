//! Configuration of the batch planner, and its errors.

use std::num::NonZeroU32;

use kv_index::Pod;

use super::BatchCosts;

/// How a planner plans.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BatchConfig {
    /// Tokens of a block; 16 unless told.
    pub block_tokens: NonZeroU32,
    /// What work costs.
    pub costs: BatchCosts,
    /// How unevenly work may be cut to compute fewer prefixes twice: the share by which a pod may end later than it
    /// should; 0.02 unless told. More makes plans that compute less and end later.
    pub most_imbalance: f64,
    /// Tokens that a pod computes in one step, of prompts and answers; 8,192 unless told.
    pub step_tokens: NonZeroU32,
    /// Requests that a pod runs at once at most, however large its cache is; 256 unless told.
    pub most_running: u32,
    /// Whether what is heavy to compute and what is long to generate are interleaved.
    pub mixing: Mixing,
}

crate::setters::setters! { BatchConfig {
    block_tokens: NonZeroU32,
    costs: BatchCosts,
    most_imbalance: f64,
    step_tokens: NonZeroU32,
    most_running: u32,
    mixing: Mixing,
} }

impl BatchConfig {
    /// Plans by these costs, with everything else at its default.
    #[must_use]
    pub const fn new(costs: BatchCosts) -> Self {
        Self {
            block_tokens: const { NonZeroU32::new(16).expect("not zero") },
            costs,
            most_imbalance: 0.02,
            step_tokens: const { NonZeroU32::new(8_192).expect("not zero") },
            most_running: 256,
            mixing: Mixing::TwoEnds { most_recomputed: 0.005 },
        }
    }

    /// Seconds that a request adds to what a pod of speed 1 and so large a cache has to do, `cached` tokens of it being
    /// there: for its prompt, and for its answer with its share of the steps of a batch that fills the cache.
    pub(super) fn work(&self, prompt: u32, output: u32, cached: u32, kv_tokens: u64) -> (f64, f64) {
        let new = prompt.saturating_sub(cached).max(1);
        let output = f64::from(output);
        let full = self.full_batch(f64::from(new) + output, kv_tokens);
        let costs = &self.costs;
        let reads = costs.output_token + costs.context_token * (f64::from(prompt) + output / 2.0);
        (costs.prefill(prompt.saturating_sub(new), new), output * (reads + costs.step_alone(full) / full))
    }

    /// How many run at once in a cache that is full of requests which take up so many tokens each.
    pub(super) fn full_batch(&self, tokens: f64, kv_tokens: u64) -> f64 {
        (kv_tokens as f64 / tokens.max(1.0)).min(f64::from(self.most_running)).max(1.0)
    }
}

/// Whether a pod's work is interleaved from two ends: prompts that are heavy to compute, and answers that are long to
/// generate.
///
/// Computing prompts keeps a device's arithmetic busy, generating answers its memory. Where a queue has parts of both
/// kinds, a pod that does one after the other uses half of itself at a time; and answers that begin last keep it waiting
/// in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "either or not")]
pub enum Mixing {
    /// Trie order throughout. Nothing is computed twice, and what comes first is left to chance.
    Apart,
    /// The parts take turns, at the same share of each. Two paths are then open at a time, so turns are kept to a quarter
    /// of the pod's cache.
    TwoEnds {
        /// What it may cost: prompt blocks that are computed again because parts which share some no longer stand next to
        /// each other, as a share of all that the pod computes.
        most_recomputed: f64,
    },
}

impl Default for Mixing {
    /// Two ends, for at most 0.5% more to compute.
    fn default() -> Self {
        Self::TwoEnds { most_recomputed: 0.005 }
    }
}

/// Why there is no plan. Each is for the host to fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// There are requests, and nobody to do them.
    #[error("no pods for {requests} requests")]
    NoPods {
        /// How many requests.
        requests: usize,
    },
    /// A pod is there twice.
    #[error("pod {} is given twice", pod.id().index())]
    TwicePod {
        /// Which.
        pod: Pod,
    },
    /// A pod's speed is not a number above zero.
    #[error("the speed of pod {} is not a number above zero", pod.id().index())]
    Speed {
        /// Which.
        pod: Pod,
    },
    /// A cost or a share of the configuration is below zero or not a number, or no request may run.
    #[error("`{field}` is out of range")]
    Config {
        /// Which.
        field: &'static str,
    },
    /// More requests than can be numbered.
    #[error("{requests} requests are more than can be planned at once")]
    TooMany {
        /// How many.
        requests: usize,
    },
}
