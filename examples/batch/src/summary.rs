//! Batch summary: totals and pods as text tables.

use std::fmt;
use std::time::Duration;

use pointsman_lab::format::grouped;
use pointsman_lab::table::TextTable;
use routing_exec::batch::{BatchError, BatchProgress};

/// The results of a batch, in numbers.
#[derive(Clone, Debug)]
pub(crate) struct BatchSummary {
    pub(crate) progress: BatchProgress,
    /// What this run was planned to compute.
    pub(crate) planned: Planned,
    /// Names of the pods, in the order of `progress.pods`.
    pub(crate) names: Vec<String>,
    /// Invalid lines of the input.
    pub(crate) invalid: usize,
    /// Requests that failed in an earlier run, by the journal.
    pub(crate) failed_before: usize,
    /// Why it ended with requests left.
    pub(crate) error: Option<BatchError>,
}

/// Prompt tokens that a plan has pods compute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    /// Of one pod with an endless cache.
    pub(crate) distinct_tokens: u64,
    /// Of all pods together.
    pub(crate) prefill_tokens: u64,
}

impl BatchSummary {
    /// Whether every line was answered with success, by this run or an earlier one.
    pub(crate) fn is_success(&self) -> bool {
        self.error.is_none() && self.progress.failed + self.failed_before + self.invalid == 0
    }
}

impl fmt::Display for BatchSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = &self.progress;
        let mut totals = TextTable::new(["requests".to_owned(), grouped(progress.requests)]);
        let mut row = |label: &str, value: String| totals.row([label.to_owned(), value]);
        row("  answered before", grouped(progress.resumed.saturating_sub(self.failed_before)));
        if self.failed_before > 0 {
            row("  failed before", grouped(self.failed_before));
        }
        row("  answered", grouped(progress.succeeded));
        row("  failed", grouped(progress.failed));
        row("invalid lines", grouped(self.invalid));
        row("prompt tokens", grouped(progress.prompt_tokens));
        row("  cached", percent(progress.cached_tokens, progress.prompt_tokens));
        row("  computed", grouped(progress.prompt_tokens.saturating_sub(progress.cached_tokens)));
        row("  by the plan", grouped(self.planned.prefill_tokens));
        row("  distinct", grouped(self.planned.distinct_tokens));
        row("output tokens", grouped(progress.output_tokens));
        row("retries", grouped(progress.retries));
        row("replans", grouped(progress.replans));
        row("elapsed", seconds(progress.elapsed));
        let mut pods = TextTable::new(["pod", "requests", "prompt tokens", "cached", "output tokens", "busy"]);
        for (name, pod) in self.names.iter().zip(&progress.pods) {
            pods.row([
                if pod.is_up { name.clone() } else { format!("{name} (down)") },
                grouped(pod.succeeded),
                grouped(pod.prompt_tokens),
                percent(pod.cached_tokens, pod.prompt_tokens),
                grouped(pod.output_tokens),
                seconds(pod.busy),
            ]);
        }
        write!(f, "{}\n{}", totals.text(2), pods.text(2))
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}%", 100.0 * part as f64 / whole as f64) }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
