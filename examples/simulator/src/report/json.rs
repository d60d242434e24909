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
//!   whole_us, good                                sum of the times to the last token; answers within the SLO
//!   goodput_per_s                                 of virtual time in which requests came
//!   slowdown_milli                                as below: TTFT against a cold, idle pod's, in thousandths
//!   ttft_us, per_token_us, inter_token_us         count, p50, p90, p95, p99, p99_9, max; null where there are none
//!   ttft_distribution[]                           [µs, share of requests that stay within], at most 201
//!   pods[]                                        requests, prefill_tokens, output_tokens, busy_us, preemptions
//!   series[]                                      at_us, blocks, blocks_hit, mean_load, most_load
//! ```
//!
//! Invariant: an absent number is null.

use std::collections::BTreeMap;

use pointsman_lab::latency::LatencyHistogram;
use serde_json::{Value, json};

use super::{ComparisonReport, SweepResult};
use crate::results::PolicyResult;

/// The report as JSON, on one line.
pub(crate) fn text(report: &ComparisonReport) -> String {
    let mut text = value(report).to_string();
    text.push('\n');
    text
}

/// The report as a JSON value.
pub(crate) fn value(report: &ComparisonReport) -> Value {
    let settings = &report.settings;
    let values: BTreeMap<_, _> = settings.values.iter().cloned().collect();
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

/// What a result counts, and what follows from it.
fn outcome(of: &PolicyResult) -> Value {
    let mut outcome = json!(of);
    for (name, value) in [
        ("hit_rate", json!(of.hit_rate())),
        ("bound", json!(of.bound())),
        ("share_of_bound", json!(of.share_of_bound())),
        ("requests_per_s", json!(of.throughput())),
        ("output_tokens_per_s", json!(of.output_rate())),
        ("load_max_over_mean", json!(of.imbalance())),
        ("decision_us", json!(of.decision_us())),
        ("goodput_per_s", json!(of.goodput())),
        ("slowdown_milli", quantiles(&of.slowdown)),
        ("ttft_us", quantiles(&of.ttft)),
        ("per_token_us", quantiles(&of.per_token)),
        ("inter_token_us", quantiles(&of.between)),
        ("ttft_distribution", distribution(&of.ttft)),
    ] {
        outcome[name] = value;
    }
    outcome
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
