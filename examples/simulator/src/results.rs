//! Metrics of one policy on one trace: latencies, hits, throughput, load balance.

use pointsman_engine_sim::virtual_time::EngineTotals;
use pointsman_lab::latency::LatencyHistogram;
use serde::Serialize;

/// The metrics of one policy on one trace.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct PolicyResult {
    /// The policy's name.
    pub(crate) policy: String,
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Requests that no pod could take.
    pub(crate) refused: u64,
    /// Whole blocks of all prompts.
    pub(crate) blocks: u64,
    /// Those of them that the chosen pod held.
    pub(crate) blocks_hit: u64,
    /// Those of them that an infinite cache shared by all would have held.
    pub(crate) blocks_known: u64,
    /// Tokens of all prompts.
    pub(crate) prompt_tokens: u64,
    /// Tokens that had to be computed: of prompts, and what was preempted again.
    pub(crate) prefill_tokens: u64,
    /// Tokens of all answers.
    pub(crate) output_tokens: u64,
    /// Virtual µs from the beginning of the traffic, time 0, to the last answer.
    pub(crate) span_us: u64,
    /// Virtual µs from the beginning of the traffic, time 0, to the last arrival.
    pub(crate) arrivals_us: u64,
    /// Times to the first token, in virtual µs.
    #[serde(skip)]
    pub(crate) ttft: LatencyHistogram,
    /// The same against the prefill of the same prompt on a cold, idle pod, in thousandths.
    #[serde(skip)]
    pub(crate) slowdown: LatencyHistogram,
    /// Times per output token of an answer (TPOT): from its first to its last, by the tokens after the first; in virtual µs.
    #[serde(skip)]
    pub(crate) per_token: LatencyHistogram,
    /// Times between two tokens of an answer, in virtual µs.
    #[serde(skip)]
    pub(crate) between: LatencyHistogram,
    /// Times to the last token, in virtual µs.
    #[serde(skip)]
    pub(crate) whole: LatencyHistogram,
    /// Their sum.
    pub(crate) whole_us: u64,
    /// Times of programs: from the first request of a conversation to its last answer, in virtual µs.
    #[serde(skip)]
    pub(crate) program: LatencyHistogram,
    /// Their sum, and their number.
    #[serde(skip)]
    pub(crate) program_us: u64,
    #[serde(skip)]
    pub(crate) programs: u64,
    /// Requests that were answered within the SLO.
    pub(crate) good: u64,
    /// Metrics of each class of requests, if there are any.
    #[serde(skip)]
    pub(crate) classes: Vec<ClassResult>,
    /// Metrics of each pod.
    pub(crate) pods: Vec<EngineTotals>,
    /// The mean imbalance of merged runs: their busiest pods differ, and sums over runs would hide them. None of a single
    /// run.
    #[serde(skip)]
    pub(crate) mean_imbalance: Option<f64>,
    /// Hits and load over time.
    pub(crate) series: Vec<TimeBucket>,
    /// Decisions that were made.
    pub(crate) decisions: u64,
    /// Real ns that they took together.
    #[serde(skip)]
    pub(crate) decision_ns: u64,
}

/// The metrics of one class of requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassResult {
    /// Times to the first token, in virtual µs.
    pub(crate) ttft: LatencyHistogram,
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Tokens of their prompts and answers.
    pub(crate) tokens: u64,
    /// Requests that were shed.
    pub(crate) refused: u64,
}

/// A bucket of the time series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct TimeBucket {
    /// Where it ends, in virtual µs.
    pub(crate) at_us: u64,
    /// Whole blocks of the prompts that began in it.
    pub(crate) blocks: u64,
    /// Those of them that were held.
    pub(crate) blocks_hit: u64,
    /// Requests in a pod, in the mean over pods: the most that an arrival within it found.
    pub(crate) mean_load: f64,
    /// Requests in the fullest pod: the most that an arrival within it found.
    pub(crate) most_load: u32,
}

impl PolicyResult {
    /// Share of all whole blocks that were held.
    pub(crate) fn hit_rate(&self) -> f64 {
        share(self.blocks_hit, self.blocks)
    }

    /// Share of all whole blocks that an infinite cache would have held.
    pub(crate) fn bound(&self) -> f64 {
        share(self.blocks_known, self.blocks)
    }

    /// Share of what an infinite cache would have held that was held; none if it would have held nothing.
    pub(crate) fn share_of_bound(&self) -> Option<f64> {
        (self.blocks_known > 0).then(|| share(self.blocks_hit, self.blocks_known))
    }

    /// How much the busiest pod worked against the mean; of several runs as one, in the mean over them.
    pub(crate) fn imbalance(&self) -> f64 {
        if let Some(mean) = self.mean_imbalance {
            return mean;
        }
        let most = self.pods.iter().map(|pod| pod.busy_us).max().unwrap_or(0);
        let sum: u64 = self.pods.iter().map(|pod| pod.busy_us).sum();
        share(most * self.pods.len() as u64, sum)
    }

    /// Requests answered in a virtual second.
    pub(crate) fn throughput(&self) -> f64 {
        share(self.requests * 1_000_000, self.span_us)
    }

    /// Virtual µs from a request to its last token, in the mean.
    pub(crate) fn mean_whole(&self) -> f64 {
        share(self.whole_us, self.requests)
    }

    /// Virtual µs that a program takes, in the mean.
    pub(crate) fn mean_program(&self) -> f64 {
        share(self.program_us, self.programs)
    }

    /// Requests that were answered within the SLO in a virtual second in which requests came.
    pub(crate) fn goodput(&self) -> f64 {
        share(self.good * 1_000_000, self.arrivals_us)
    }

    /// Tokens of answers in a virtual second.
    pub(crate) fn output_rate(&self) -> f64 {
        share(self.output_tokens, self.span_us) * 1e6
    }

    /// Real µs that a decision took.
    pub(crate) fn decision_us(&self) -> f64 {
        share(self.decision_ns, self.decisions) / 1e3
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
