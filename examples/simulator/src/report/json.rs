//! JSON report with stable names: tools may rely on them, and new ones may be added.
//!
//! ```text
//! format            2 if these names ever change; 1 now
//! settings          title, command, values (name to value)
//! outcomes[]        one a policy, see below
//! sweep             null, or name and points[] of value and outcome
//!
//! outcome
//!   policy, requests, refused, prompt_tokens, prefill_tokens, output_tokens, decisions
//!   blocks, blocks_hit, blocks_known              of all prompts; held; held by an infinite cache
//!   hit_rate, bound, share_of_bound               shares of 1; the last is null where the bound is 0
//!   span_us, arrivals_us                          virtual time
//!   requests_per_s, output_tokens_per_s           of virtual time
//!   load_max_over_mean                            time worked by the busiest pod
//!   decision_us                                   real time, in the mean
//!   ttft_us, inter_token_us                       count, p50, p90, p95, p99, p99_9, max; null where there are none
//!   ttft_distribution[]                           [µs, share of requests that stay within], at most 201
//!   pods[]                                        requests, prefill_tokens, output_tokens, busy_us
//!   series[]                                      at_us, blocks, blocks_hit, mean_load, most_load
//! ```
//!
//! Invariant: an absent number is null.

use pointsman_lab::latency::LatencyHistogram;
use serde_json::{Map, Value, json};

use super::{ComparisonReport, SweepResult};
use crate::results::{PolicyResult, TimeBucket};
use pointsman_engine_sim::virtual_time::EngineTotals;

/// The report as JSON, on one line.
pub(crate) fn text(report: &ComparisonReport) -> String {
    let mut text = value(report).to_string();
    text.push('\n');
    text
}

/// The report as a JSON value.
pub(crate) fn value(report: &ComparisonReport) -> Value {
    let settings = &report.settings;
    let values: Map<String, Value> =
        settings.values.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
    json!({
        "format": 1,
        "settings": { "title": settings.title, "command": settings.command, "values": values },
        "outcomes": report.results.iter().map(outcome).collect::<Vec<_>>(),
        "sweep": report.sweep.as_ref().map(sweep),
    })
}

fn sweep(sweep: &SweepResult) -> Value {
    let point = |(value, of): &(f64, PolicyResult)| json!({ "value": value, "outcome": outcome(of) });
    json!({ "name": sweep.name, "points": sweep.points.iter().map(point).collect::<Vec<_>>() })
}

fn outcome(of: &PolicyResult) -> Value {
    json!({
        "policy": of.policy,
        "requests": of.requests,
        "refused": of.refused,
        "prompt_tokens": of.prompt_tokens,
        "prefill_tokens": of.prefill_tokens,
        "output_tokens": of.output_tokens,
        "decisions": of.decisions,
        "blocks": of.blocks,
        "blocks_hit": of.blocks_hit,
        "blocks_known": of.blocks_known,
        "hit_rate": of.hit_rate(),
        "bound": of.bound(),
        "share_of_bound": of.share_of_bound(),
        "span_us": of.span_us,
        "arrivals_us": of.arrivals_us,
        "requests_per_s": of.throughput(),
        "output_tokens_per_s": of.output_rate(),
        "load_max_over_mean": of.imbalance(),
        "decision_us": of.decision_us(),
        "ttft_us": quantiles(&of.ttft),
        "inter_token_us": quantiles(&of.between),
        "ttft_distribution": distribution(&of.ttft),
        "pods": of.pods.iter().map(pod).collect::<Vec<_>>(),
        "series": of.series.iter().map(moment).collect::<Vec<_>>(),
    })
}

fn quantiles(of: &LatencyHistogram) -> Value {
    json!({
        "count": of.len(),
        "p50": of.quantile(0.5),
        "p90": of.quantile(0.9),
        "p95": of.quantile(0.95),
        "p99": of.quantile(0.99),
        "p99_9": of.quantile(0.999),
        "max": of.quantile(1.0),
    })
}

/// Evenly chosen steps, and always the last.
fn distribution(of: &LatencyHistogram) -> Value {
    let all: Vec<(f64, f64)> = of.distribution().collect();
    let each = all.len().div_ceil(200).max(1);
    let chosen = all.iter().enumerate().filter(|(at, _)| at % each == 0 || at + 1 == all.len());
    chosen.map(|(_, (us, share))| json!([us, share])).collect()
}

fn pod(of: &EngineTotals) -> Value {
    json!({
        "requests": of.requests,
        "prefill_tokens": of.prefill_tokens,
        "output_tokens": of.output_tokens,
        "busy_us": of.busy_us,
    })
}

fn moment(of: &TimeBucket) -> Value {
    json!({
        "at_us": of.at_us,
        "blocks": of.blocks,
        "blocks_hit": of.blocks_hit,
        "mean_load": of.mean_load,
        "most_load": of.most_load,
    })
}
