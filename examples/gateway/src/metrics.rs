//! `/metrics` in the Prometheus text format.
//!
//! Two parts. What `routing-exec` records by the `metrics` crate has one recorder a process, which several gateways in one
//! process share: `pointsman_exec_*`, and OpenTelemetry's `gen_ai.server.*`, which in Prometheus are
//! `gen_ai_server_request_duration_seconds` and `gen_ai_server_time_to_first_token_seconds`. What is a gateway's own,
//! `pointsman_gateway_*`, is written after it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::app_state::AppState;
use super::histogram::{BUCKETS, Histogram};
use super::pod_metrics::PodCounts;
use super::request_log::Totals;
use super::{findings, state};
use pointsman_reporter::source_status::SourceState;

/// Installs the process's recorder, once. If the program has one already, that one stays.
pub(super) fn install() -> Option<&'static PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    RECORDER
        .get_or_init(|| {
            // Units as suffixes, as OpenTelemetry names are translated to Prometheus: `_seconds`.
            let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).ok()?.with_recommended_naming(true);
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
    app.pod_metrics.retain(|name| pods.iter().any(|pod| pod.name == name));
    out.family("pods", "gauge", "Pods of the fleet.");
    out.line("pods", &[], pods.len() as f64);
    out.family("pod_healthy", "gauge", "Whether a pod answers its health checks.");
    out.pods("pod_healthy", &pods, |pod| f64::from(u8::from(pod.healthy)));
    breakers(&mut out, &pods);
    attempts(&mut out, app, &pods);
    out.family("pod_requests_in_flight", "gauge", "Requests in flight on a pod, from this gateway.");
    out.pods("pod_requests_in_flight", &pods, |pod| f64::from(pod.in_flight));
    out.family("pod_queued_prompt_tokens", "gauge", "Prompt tokens that a pod has yet to compute for this gateway.");
    out.pods("pod_queued_prompt_tokens", &pods, |pod| pod.queued_tokens as f64);
    out.family("pod_pace", "gauge", "How much longer than by the cost model a pod takes for first tokens, as learned.");
    out.pods("pod_pace", &pods, |pod| pod.pace);
    out.family("pod_decode_pace", "gauge", "The same for the tokens after the first.");
    out.pods("pod_decode_pace", &pods, |pod| pod.decode_pace);
    answers(&mut out, app);
    programs(&mut out, app, &pods);
    out.family("pod_index_blocks", "gauge", "Blocks of a pod in the index that its engine announced.");
    out.pods("pod_index_blocks", &pods, |pod| pod.blocks as f64);
    out.family("pod_event_source_live", "gauge", "Whether a pod's event source is live, with no known gap.");
    out.pods("pod_event_source_live", &pods, |pod| f64::from(u8::from(pod.events.state == SourceState::Live)));
    events(&mut out, &pods);
    cache_accuracy(&mut out, &pods);
    out.family("requests_in_flight", "gauge", "Requests in flight.");
    out.line("requests_in_flight", &[], *app.in_flight.borrow() as f64);
    uploads(&mut out, app);
    peers(&mut out, app);
    flow(&mut out, app);
    out.family("index_blocks", "gauge", "Distinct blocks in the index.");
    let blocks: usize = app.models.iter().map(|model| model.router.index().stats().blocks).sum();
    out.line("index_blocks", &[], blocks as f64);
    findings(&mut out, app);
    requests(&mut out, app, &totals);
    text
}

/// Programs that are under way, and what of their contexts pods should keep.
fn programs(out: &mut Text<'_>, app: &AppState, pods: &[state::PodState]) {
    let name = "pod_working_set_tokens";
    out.family(name, "gauge", "Tokens of programs' contexts on a pod that run or will be back soon.");
    out.pods(name, pods, |pod| pod.working_set as f64);
    let name = "program_contexts";
    out.family(name, "gauge", "Contexts of programs that are remembered: running, kept for their next turn, or gone.");
    for model in &app.models {
        let stats = model.router.plugin_state().programs.stats();
        let gone = stats.contexts.saturating_sub(stats.running + stats.kept);
        for (state, count) in [("running", stats.running), ("kept", stats.kept), ("gone", gone)] {
            out.line(name, &[("model", model.router.name()), ("state", state)], count as f64);
        }
    }
}

fn answers(out: &mut Text<'_>, app: &AppState) {
    let name = "expected_answer_tokens";
    out.family(name, "gauge", "Tokens of answers lately, on average, by which requests are counted and placed.");
    for model in &app.models {
        let lengths = &model.router.plugin_state().answer_lengths;
        out.line(name, &[("model", model.router.name())], lengths.typical());
    }
}

/// The state of each pod's circuit breaker: 1 for the one it is in.
fn breakers(out: &mut Text<'_>, pods: &[state::PodState]) {
    let name = "pod_breaker_state";
    out.family(
        name,
        "gauge",
        "Whether a pod's circuit breaker is in a state: closed, open, half_open, or cooling after push-back.",
    );
    for pod in pods {
        for state in ["closed", "open", "half_open", "cooling"] {
            out.line(name, &[("pod", &pod.name), ("state", state)], f64::from(u8::from(pod.circuit == state)));
        }
    }
    let name = "pod_withheld_ratio";
    out.family(name, "gauge", "The share of requests that go to other pods since too many of a pod's failed lately.");
    for pod in pods {
        out.line(name, &[("pod", &pod.name)], f64::from(pod.withheld_percent) / 100.0);
    }
}

/// What became of the requests that were sent to each pod.
fn attempts(out: &mut Text<'_>, app: &AppState, pods: &[state::PodState]) {
    let counts: Vec<(&str, PodCounts)> =
        pods.iter().map(|pod| (&*pod.name, app.pod_metrics.counts(&pod.name))).collect();
    let name = "pod_attempts_total";
    out.family(name, "counter", "Requests sent to a pod, by outcome.");
    for (pod, counts) in &counts {
        for (outcome, count) in &counts.attempts {
            out.line(name, &[("pod", pod), ("outcome", outcome)], *count as f64);
        }
    }
    let name = "pod_attempt_duration_seconds";
    out.family(name, "histogram", "Duration of requests to a pod, to the end of its response, where it completed.");
    counts.iter().for_each(|(pod, counts)| out.histogram(name, &[("pod", pod)], &counts.duration));
    let name = "pod_time_to_first_token_seconds";
    out.family(name, "histogram", "Time to the first token of a pod; responses without tokens do not count.");
    counts.iter().for_each(|(pod, counts)| out.histogram(name, &[("pod", pod)], &counts.first_token));
}

/// What became of each pod's events.
fn events(out: &mut Text<'_>, pods: &[state::PodState]) {
    let name = "pod_event_batches_total";
    out.family(name, "counter", "Event batches from a pod, by verdict; those in a gap are asked for again.");
    for pod in pods {
        let events = &pod.events;
        let by_verdict = [
            ("applied", events.batches),
            ("duplicate", events.duplicates),
            ("stale", events.stale),
            ("foreign", events.foreign),
            ("gap", events.gaps),
            ("unreadable", events.errors),
        ];
        for (verdict, count) in by_verdict {
            out.line(name, &[("pod", &pod.name), ("verdict", verdict)], count as f64);
        }
    }
    out.family("pod_event_replays_total", "counter", "Replays of events that a pod was asked for.");
    out.pods("pod_event_replays_total", pods, |pod| pod.events.replays as f64);
    out.family("pod_event_gaps_lost_total", "counter", "Gaps of a pod's events that could not be replayed.");
    out.pods("pod_event_gaps_lost_total", pods, |pod| pod.events.lost as f64);
    out.family("pod_event_restarts_total", "counter", "Restarts of a pod's engine, by its events.");
    out.pods("pod_event_restarts_total", pods, |pod| pod.events.restarts as f64);
    out.family(
        "pod_events_dropped_total",
        "counter",
        "Events of a pod that lost something on their way into the index.",
    );
    out.pods("pod_events_dropped_total", pods, |pod| pod.events.dropped as f64);
    let name = "pod_parent_conflicts_total";
    out.family(name, "counter", "Blocks that a pod said follow another block than an earlier event did.");
    out.pods(name, pods, |pod| pod.parent_conflicts as f64);
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

/// Bodies that are being read, apart from the requests in flight.
fn uploads(out: &mut Text<'_>, app: &AppState) {
    let state::UploadState { count, bytes, refused } = state::UploadState::of(app);
    out.family("uploads", "gauge", "Bodies of requests that are being read; they are not in flight yet.");
    out.line("uploads", &[], count as f64);
    out.family("upload_bytes", "gauge", "Bytes that have arrived of bodies that are being read.");
    out.line("upload_bytes", &[], bytes as f64);
    out.family(
        "uploads_refused_total",
        "counter",
        "Bodies refused since too many, or too many bytes, were being read.",
    );
    out.line("uploads_refused_total", &[], refused as f64);
}

/// Other gateways of the same pods.
fn peers(out: &mut Text<'_>, app: &AppState) {
    out.family("peers", "gauge", "Other gateways that tell what they have in flight to a model's pods.");
    for model in &app.models {
        out.line("peers", &[("model", model.router.name())], model.router.peers().peers as f64);
    }
    out.family("peer_messages_total", "counter", "Messages to other gateways and from them.");
    for (direction, count) in
        [("sent", app.peers.sent()), ("failed", app.peers.failed()), ("received", app.peers.received())]
    {
        out.line("peer_messages_total", &[("direction", direction)], count as f64);
    }
    out.family("peer_decisions_left_out_total", "counter", "Decisions that other gateways were not told in time.");
    for model in &app.models {
        let left_out = model.router.plugin_state().peers.left_out();
        out.line("peer_decisions_left_out_total", &[("model", model.router.name())], left_out as f64);
    }
    out.family("peer_messages_ignored_total", "counter", "Messages from other gateways that changed nothing.");
    for (reason, count) in app.peers.ignored() {
        out.line("peer_messages_ignored_total", &[("reason", reason)], count as f64);
    }
}

/// Flow control: who waits, and what became of whom.
fn flow(out: &mut Text<'_>, app: &AppState) {
    let bands = state::FlowBandState::all(app);
    out.family("flow_waiting_requests", "gauge", "Requests that wait for a pod to have room, by model and band.");
    for band in &bands {
        out.line("flow_waiting_requests", &[("model", &band.model), ("band", &band.band)], band.requests as f64);
    }
    out.family("flow_waiting_tokens", "gauge", "Tokens that serving the waiting requests takes.");
    for band in &bands {
        out.line("flow_waiting_tokens", &[("model", &band.model), ("band", &band.band)], band.tokens as f64);
    }
    let counts = app.flow_metrics.counts();
    out.family(
        "flow_requests_total",
        "counter",
        "Requests by band: passed at once, waited, left by their client, or why they were shed.",
    );
    for ((band, outcome), count) in &counts.bands {
        out.line("flow_requests_total", &[("band", band), ("outcome", outcome)], *count as f64);
    }
    out.family("flow_wait_seconds", "histogram", "How long requests waited for their turn, of those that went.");
    counts.waits.iter().for_each(|(band, waits)| out.histogram("flow_wait_seconds", &[("band", band)], waits));
    out.family("flow_key_requests_total", "counter", "Requests by key, the first 256 of them: let go, or not.");
    for (key, counts) in &counts.keys {
        for (outcome, count) in ["let_go", "shed"].into_iter().zip(counts) {
            out.line("flow_key_requests_total", &[("key", key), ("outcome", outcome)], *count as f64);
        }
    }
}

/// What is probably wrong, and how often something was.
fn findings(out: &mut Text<'_>, app: &AppState) {
    out.family("findings", "gauge", "What is probably wrong now, by model and kind.");
    let mut now: BTreeMap<(String, &str), u32> = BTreeMap::new();
    for found in findings::gather(app) {
        *now.entry((found.model, found.finding.kind.name())).or_default() += 1;
    }
    for ((model, kind), count) in now {
        out.line("findings", &[("model", &model), ("kind", kind)], f64::from(count));
    }
    out.family("findings_total", "counter", "Findings that were new, by kind.");
    for (kind, count) in app.findings.lock().counts() {
        out.line("findings_total", &[("kind", kind.name())], *count as f64);
    }
}

fn requests(out: &mut Text<'_>, app: &AppState, totals: &Totals) {
    // Relaxed: counters that publish nothing.
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let tokenize_failures = app.models.iter().map(|model| count(&model.router.plugin_state().tokenize_failures)).sum();
    let counters = [
        ("requests_total", "Requests routed.", totals.requests),
        ("requests_completed_total", "Requests completed by a pod.", totals.completed),
        ("requests_client_errors_total", "Requests that a pod answered with a 4xx.", totals.client_errors),
        ("requests_failed_total", "Requests that ended in an error.", totals.failed),
        ("requests_cancelled_total", "Requests cancelled by their client.", totals.cancelled),
        ("requests_rejected_total", "Requests rejected before dispatch.", totals.rejected),
        ("prompt_tokens_total", "Prompt tokens.", totals.prompt_tokens),
        ("cached_prompt_tokens_total", "Prompt tokens that the chosen pod was known to hold.", totals.cached_tokens),
        ("tokenize_failures_total", "Prompts that could not be tokenized.", tokenize_failures),
        ("reload_failures_total", "Reloads of the configuration that failed.", count(&app.reload_failures)),
    ];
    for (name, help, value) in counters {
        out.family(name, "counter", help);
        out.line(name, &[], value as f64);
    }
    out.family("decisions_total", "counter", "Routing decisions by model and profile.");
    for ((model, profile), count) in &totals.decisions {
        out.line("decisions_total", &[("model", model), ("profile", profile)], *count as f64);
    }
    out.family(
        "time_to_first_token_seconds",
        "histogram",
        "Time to first token; responses without tokens do not count.",
    );
    out.histogram("time_to_first_token_seconds", &[], &totals.ttft);
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

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        for (bound, count) in histogram.cumulative() {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
            self.line(&format!("{name}_bucket"), &labels, count as f64);
        }
        self.line(&format!("{name}_sum"), labels, histogram.seconds());
        self.line(&format!("{name}_count"), labels, histogram.count() as f64);
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
