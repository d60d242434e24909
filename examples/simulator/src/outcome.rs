//! What a simulation of one policy found.

use pointsman_lab::latency::Latencies;

/// What came of one policy on one trace.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// The policy's name.
    pub policy: String,
    /// Requests that were answered.
    pub requests: u64,
    /// Requests that no pod could take.
    pub refused: u64,
    /// Whole blocks of all prompts.
    pub blocks: u64,
    /// Those of them that the pod held that was asked.
    pub blocks_hit: u64,
    /// Those of them that an infinite cache shared by all would have held.
    pub blocks_known: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Those of them that had to be computed.
    pub prefill_tokens: u64,
    /// Tokens of all answers.
    pub output_tokens: u64,
    /// Virtual µs from the beginning of the traffic, time 0, to the last answer.
    pub span_us: u64,
    /// Virtual µs from the beginning of the traffic, time 0, to the last arrival.
    pub arrivals_us: u64,
    /// Times to the first token, in virtual µs.
    pub ttft: Latencies,
    /// Times between two tokens of an answer, in virtual µs.
    pub between: Latencies,
    /// Times to the last token, in virtual µs.
    pub whole: Latencies,
    /// What each pod did.
    pub pods: Vec<PodOutcome>,
    /// Of several runs as one, the mean of their imbalances: the busiest pod of one is not that of another, and sums over runs
    /// would hide it. None of one run.
    pub mean_imbalance: Option<f64>,
    /// How it was, time after time.
    pub series: Vec<Moment>,
    /// Decisions that were made.
    pub decisions: u64,
    /// Real ns that they took together.
    pub decision_ns: u64,
}

/// What one pod did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodOutcome {
    /// Requests that it answered.
    pub requests: u64,
    /// Tokens of prompts that it computed.
    pub prefill_tokens: u64,
    /// Tokens that it generated.
    pub output_tokens: u64,
    /// Virtual µs that it worked.
    pub busy_us: u64,
}

/// A stretch of virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Moment {
    /// Where it ends, in virtual µs.
    pub at_us: u64,
    /// Whole blocks of the prompts that began in it.
    pub blocks: u64,
    /// Those of them that were held.
    pub blocks_hit: u64,
    /// Requests in a pod, in the mean over pods: the most that an arrival within it found.
    pub mean_load: f64,
    /// Requests in the fullest pod: the most that an arrival within it found.
    pub most_load: u32,
}

impl Outcome {
    /// Share of all whole blocks that were held.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        share(self.blocks_hit, self.blocks)
    }

    /// Share of all whole blocks that an infinite cache would have held.
    #[must_use]
    pub fn bound(&self) -> f64 {
        share(self.blocks_known, self.blocks)
    }

    /// Share of what an infinite cache would have held that was held; none if it would have held nothing.
    #[must_use]
    pub fn share_of_bound(&self) -> Option<f64> {
        (self.blocks_known > 0).then(|| share(self.blocks_hit, self.blocks_known))
    }

    /// How much the busiest pod worked against the mean; of several runs as one, in the mean over them.
    #[must_use]
    pub fn imbalance(&self) -> f64 {
        if let Some(mean) = self.mean_imbalance {
            return mean;
        }
        let most = self.pods.iter().map(|pod| pod.busy_us).max().unwrap_or(0);
        let sum: u64 = self.pods.iter().map(|pod| pod.busy_us).sum();
        share(most * self.pods.len() as u64, sum)
    }

    /// Requests answered in a virtual second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        share(self.requests * 1_000_000, self.span_us)
    }

    /// Tokens of answers in a virtual second.
    #[must_use]
    pub fn output_rate(&self) -> f64 {
        share(self.output_tokens, self.span_us) * 1e6
    }

    /// Real µs that a decision took.
    #[must_use]
    pub fn decision_us(&self) -> f64 {
        share(self.decision_ns, self.decisions) / 1e3
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
