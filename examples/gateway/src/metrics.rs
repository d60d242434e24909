//! `/metrics` in the Prometheus text format.
//!
//! Two parts. What `routing-exec` records by the `metrics` crate has one recorder a process, which several gateways in one
//! process share: `pointsman_exec_*`, and OpenTelemetry's `gen_ai.server.*`, which in Prometheus are
//! `gen_ai_server_request_duration_seconds` and `gen_ai_server_time_to_first_token_seconds`. What is a gateway's own,
//! `pointsman_gateway_*`, is written after it.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::app_state::AppState;
use super::request_log::{TTFT_BUCKETS, Totals};
use super::state;
use pointsman_reporter::source_status::SourceState;

/// Installs the process's recorder, once. If the program has one already, that one stays.
pub(super) fn install() -> Option<&'static PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    RECORDER
        .get_or_init(|| {
            // Units as suffixes, as OpenTelemetry names are translated to Prometheus: `_seconds`.
            let builder = PrometheusBuilder::new().set_buckets(&TTFT_BUCKETS).ok()?.with_recommended_naming(true);
            let handle = builder.install_recorder().ok()?;
            routing_exec::observe::describe();
            Some(handle)
        })
        .as_ref()
}

/// The page.
pub(super) fn text(app: &Arc<AppState>) -> String {
    let mut text = install().map(PrometheusHandle::render).unwrap_or_default();
    let mut out = Text(&mut text);
    // Without the last decisions: a scrape is cheap.
    let (pods, totals) = (state::pods(app), app.request_log.totals());
    out.family("pods", "gauge", "Pods of the fleet.");
    out.line("pods", &[], pods.len() as f64);
    out.family("pod_healthy", "gauge", "Whether a pod answers its health checks.");
    out.pods("pod_healthy", &pods, |pod| f64::from(u8::from(pod.healthy)));
    out.family("pod_circuit_open", "gauge", "Whether a pod's circuit breaker is open.");
    out.pods("pod_circuit_open", &pods, |pod| f64::from(u8::from(pod.circuit == "open")));
    out.family("pod_requests_in_flight", "gauge", "Requests in flight on a pod, from this gateway.");
    out.pods("pod_requests_in_flight", &pods, |pod| f64::from(pod.in_flight));
    out.family("pod_queued_prompt_tokens", "gauge", "Prompt tokens that a pod has yet to compute for this gateway.");
    out.pods("pod_queued_prompt_tokens", &pods, |pod| pod.queued_tokens as f64);
    out.family("pod_index_blocks", "gauge", "Blocks of a pod in the index.");
    out.pods("pod_index_blocks", &pods, |pod| pod.blocks as f64);
    out.family("pod_event_source_live", "gauge", "Whether a pod's event source is live, with no known gap.");
    out.pods("pod_event_source_live", &pods, |pod| f64::from(u8::from(pod.events.state == SourceState::Live)));
    out.family("pod_event_batches_total", "counter", "Event batches applied from a pod.");
    out.pods("pod_event_batches_total", &pods, |pod| pod.events.batches as f64);
    out.family("pod_event_gaps_total", "counter", "Gaps found in a pod's events.");
    out.pods("pod_event_gaps_total", &pods, |pod| pod.events.gaps as f64);
    out.family("pod_event_gaps_lost_total", "counter", "Gaps of a pod's events that could not be replayed.");
    out.pods("pod_event_gaps_lost_total", &pods, |pod| pod.events.lost as f64);
    cache_accuracy(&mut out, &pods);
    out.family("requests_in_flight", "gauge", "Requests in flight.");
    out.line("requests_in_flight", &[], *app.in_flight.borrow() as f64);
    out.family("index_blocks", "gauge", "Distinct blocks in the index.");
    out.line("index_blocks", &[], app.plugin_state.index.stats().blocks as f64);
    requests(&mut out, app, &totals);
    text
}

/// Cached tokens expected of pods against those that their engines reported.
fn cache_accuracy(out: &mut Text<'_>, pods: &[state::PodState]) {
    out.family("pod_expected_cached_tokens_total", "counter", "Prompt tokens that a pod was expected to have cached.");
    out.pods("pod_expected_cached_tokens_total", pods, |pod| pod.cache.expected_tokens as f64);
    out.family("pod_reported_cached_tokens_total", "counter", "Prompt tokens that a pod's engine says were cached.");
    out.pods("pod_reported_cached_tokens_total", pods, |pod| pod.cache.actual_tokens as f64);
    let name = "pod_cache_expectations_total";
    out.family(
        name,
        "counter",
        "Responses of a pod, by whether more or fewer tokens were expected to be cached than were.",
    );
    for pod in pods {
        let cache = &pod.cache;
        let by_result =
            [("exact", cache.exact), ("over", cache.over), ("under", cache.under), ("unreported", cache.unreported)];
        for (result, count) in by_result {
            out.line(name, &[("pod", &pod.name), ("result", result)], count as f64);
        }
    }
    let name = "pod_cache_differences_total";
    out.family(name, "counter", "Responses of a pod with other cached tokens than expected, by cause.");
    for pod in pods {
        for (cause, count) in &pod.cache.causes {
            out.line(name, &[("pod", &pod.name), ("cause", cause)], *count as f64);
        }
    }
}

fn requests(out: &mut Text<'_>, app: &AppState, totals: &Totals) {
    // Relaxed: counters that publish nothing.
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let tokenize_failures = &app.plugin_state.tokenize_failures;
    let counters = [
        ("requests_total", "Requests routed.", totals.requests),
        ("requests_completed_total", "Requests completed by a pod.", totals.completed),
        ("requests_failed_total", "Requests that ended in an error.", totals.failed),
        ("requests_cancelled_total", "Requests cancelled by their client.", totals.cancelled),
        ("requests_rejected_total", "Requests rejected before dispatch.", totals.rejected),
        ("prompt_tokens_total", "Prompt tokens.", totals.prompt_tokens),
        ("cached_prompt_tokens_total", "Prompt tokens that the chosen pod was known to hold.", totals.cached_tokens),
        ("tokenize_failures_total", "Prompts that could not be tokenized.", count(tokenize_failures)),
        ("reload_failures_total", "Reloads of the configuration that failed.", count(&app.reload_failures)),
    ];
    for (name, help, value) in counters {
        out.family(name, "counter", help);
        out.line(name, &[], value as f64);
    }
    out.family("decisions_total", "counter", "Routing decisions by profile.");
    for (profile, count) in &totals.decisions {
        out.line("decisions_total", &[("profile", profile)], *count as f64);
    }
    out.family("time_to_first_token_seconds", "histogram", "Time to the first byte of a response.");
    let mut sum = 0;
    for (bound, count) in TTFT_BUCKETS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]).zip(totals.ttft) {
        sum += count;
        out.line("time_to_first_token_seconds_bucket", &[("le", &bound)], sum as f64);
    }
    out.line("time_to_first_token_seconds_sum", &[], totals.ttft_micros as f64 / 1e6);
    out.line("time_to_first_token_seconds_count", &[], sum as f64);
}

/// The text being written.
struct Text<'t>(&'t mut String);

impl Text<'_> {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string never fails.
        let _ = write!(self.0, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.0, "{PREFIX}{name}");
        for (at, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if at == 0 { "{" } else { "," });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn pods(&mut self, name: &str, pods: &[state::PodState], value: impl Fn(&state::PodState) -> f64) {
        for pod in pods {
            self.line(name, &[("pod", &pod.name)], value(pod));
        }
    }
}

const PREFIX: &str = "pointsman_gateway_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = String::new();
        Text(&mut text).line("x", &[("a", "1"), ("b", "say \"\\\"\n")], 0.5);
        assert_eq!(text, "pointsman_gateway_x{a=\"1\",b=\"say \\\"\\\\\\\"\\n\"} 0.5\n");
    }
}
