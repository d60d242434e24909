//! Metrics of a pod, also in the Prometheus text format under vLLM's names.

use std::fmt::Write;

/// A pod's metrics at one moment. Sums are of all its incarnations.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EngineMetrics {
    /// Requests it works on.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Blocks in use, by requests and leases.
    pub blocks_used: usize,
    /// Blocks there are.
    pub blocks: usize,
    /// Prefilled requests whose blocks wait to be fetched.
    pub leases: usize,
    /// Leases that ended before anybody came.
    pub leases_expired: u64,
    /// Prompts that were fetched from other pods.
    pub fetched: u64,
    /// Fetches from other pods that failed.
    pub fetch_failures: u64,
    /// Tokens of the prompts that were begun.
    pub prompt_tokens: u64,
    /// Those of them that were cached here.
    pub cached_tokens: u64,
    /// Those that other pods computed.
    pub received_tokens: u64,
    /// Tokens of answers.
    pub generated_tokens: u64,
    /// Answers that came to their own end.
    pub stopped: u64,
    /// Answers that came to their limit.
    pub limited: u64,
    /// Requests given up because the client went away.
    pub aborted: u64,
    /// Requests lost because the pod died.
    pub lost: u64,
    /// Time to first token.
    pub first_tokens: Histogram,
}

impl EngineMetrics {
    /// Answers that are complete.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.stopped + self.limited
    }

    /// As vLLM's `/metrics` writes them.
    pub(super) fn prometheus(&self, model: &str, block_size: usize) -> String {
        let usage = self.blocks_used as f64 / self.blocks.max(1) as f64;
        let label = format!("model_name=\"{}\"", model.replace('\\', "\\\\").replace('"', "\\\""));
        let mut out = String::new();
        for (name, kind, value) in [
            ("num_requests_running", "gauge", self.running as f64),
            ("num_requests_waiting", "gauge", self.waiting as f64),
            ("kv_cache_usage_perc", "gauge", usage),
            ("prefix_cache_queries", "counter", self.prompt_tokens as f64),
            ("prefix_cache_hits", "counter", self.cached_tokens as f64),
            ("prompt_tokens", "counter", self.prompt_tokens as f64),
            ("generation_tokens", "counter", self.generated_tokens as f64),
        ] {
            let total = if kind == "counter" { "_total" } else { "" };
            _ = writeln!(out, "# TYPE vllm:{name} {kind}\nvllm:{name}{total}{{{label}}} {value}");
        }
        _ = writeln!(out, "# TYPE vllm:request_success counter");
        for (reason, count) in [("stop", self.stopped), ("length", self.limited), ("abort", self.aborted)] {
            _ = writeln!(out, "vllm:request_success_total{{finished_reason=\"{reason}\",{label}}} {count}");
        }
        self.first_tokens.write("vllm:time_to_first_token_seconds", &label, &mut out);
        let config = format!("block_size=\"{block_size}\",num_gpu_blocks=\"{}\"", self.blocks);
        _ = writeln!(out, "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{config},{label}}} 1");
        out
    }
}

/// Durations by size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    /// Counts a duration in.
    pub(super) fn add(&mut self, seconds: f64) {
        if let Some(at) = BOUNDS.iter().position(|&bound| seconds <= bound) {
            self.counts[at] += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }

    /// How many durations there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    fn write(&self, name: &str, label: &str, out: &mut String) {
        _ = writeln!(out, "# TYPE {name} histogram");
        let mut below = 0;
        for (bound, count) in BOUNDS.iter().zip(self.counts) {
            below += count;
            _ = writeln!(out, "{name}_bucket{{le=\"{bound:?}\",{label}}} {below}");
        }
        let Self { count, sum, .. } = self;
        _ = writeln!(out, "{name}_bucket{{le=\"+Inf\",{label}}} {count}");
        _ = writeln!(out, "{name}_sum{{{label}}} {sum}\n{name}_count{{{label}}} {count}");
    }
}

/// vLLM's.
const BOUNDS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_bear_vllms_names() {
        let mut metrics =
            EngineMetrics { running: 3, blocks_used: 1, blocks: 4, stopped: 2, ..EngineMetrics::default() };
        metrics.first_tokens.add(0.03);
        metrics.first_tokens.add(9_999.0);
        let text = metrics.prometheus("sim", 16);
        for line in [
            "vllm:num_requests_running{model_name=\"sim\"} 3",
            "vllm:num_requests_waiting{model_name=\"sim\"} 0",
            "vllm:kv_cache_usage_perc{model_name=\"sim\"} 0.25",
            "vllm:prefix_cache_queries_total{model_name=\"sim\"} 0",
            "vllm:request_success_total{finished_reason=\"stop\",model_name=\"sim\"} 2",
            "vllm:time_to_first_token_seconds_bucket{le=\"0.02\",model_name=\"sim\"} 0",
            "vllm:time_to_first_token_seconds_bucket{le=\"0.04\",model_name=\"sim\"} 1",
            "vllm:time_to_first_token_seconds_bucket{le=\"1.0\",model_name=\"sim\"} 1",
            "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\",model_name=\"sim\"} 2",
            "vllm:time_to_first_token_seconds_count{model_name=\"sim\"} 2",
            "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"4\",model_name=\"sim\"} 1",
            "# TYPE vllm:time_to_first_token_seconds histogram",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
