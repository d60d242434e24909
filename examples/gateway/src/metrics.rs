//! `/metrics`, in Prometheus' text.
//!
//! Two parts. What `routing-exec` counts by the `metrics` crate has one recorder a process: several gateways in one process
//! share those figures. What is a gateway's own is written by hand after it, under other names.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::book::{TTFT_BOUNDS, Totals};
use super::shared::Shared;
use super::state;

/// Installs the process's recorder, once. If the program has one of its own already, that one keeps the figures.
pub(super) fn install() -> Option<&'static PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    RECORDER
        .get_or_init(|| {
            let builder = PrometheusBuilder::new().set_buckets(&TTFT_BOUNDS).ok()?;
            let handle = builder.install_recorder().ok()?;
            routing_exec::observe::describe();
            Some(handle)
        })
        .as_ref()
}

/// The page.
pub(super) fn text(shared: &Arc<Shared>) -> String {
    let mut text = install().map(PrometheusHandle::render).unwrap_or_default();
    let mut out = Text(&mut text);
    // The last decisions are not gathered: whoever asks here every few seconds wants figures.
    let (pods, totals) = (state::pods(shared), shared.book.totals());
    out.family("pods", "gauge", "Pods of the fleet.");
    out.line("pods", &[], pods.len() as f64);
    out.family("pod_healthy", "gauge", "Whether a pod answers its health checks.");
    out.pods("pod_healthy", &pods, |pod| f64::from(u8::from(pod.healthy)));
    out.family("pod_circuit_open", "gauge", "Whether a pod's circuit is open.");
    out.pods("pod_circuit_open", &pods, |pod| f64::from(u8::from(pod.circuit == "open")));
    out.family("pod_in_flight", "gauge", "Requests under way on a pod, from this gateway.");
    out.pods("pod_in_flight", &pods, |pod| f64::from(pod.in_flight));
    out.family("pod_queued_tokens", "gauge", "Tokens of prompts that a pod has yet to compute for this gateway.");
    out.pods("pod_queued_tokens", &pods, |pod| pod.queued_tokens as f64);
    out.family("pod_index_blocks", "gauge", "Blocks that the index knows a pod to hold.");
    out.pods("pod_index_blocks", &pods, |pod| pod.blocks as f64);
    out.family("pod_events_live", "gauge", "Whether all that a pod announced of its cache is in the index.");
    out.pods("pod_events_live", &pods, |pod| f64::from(u8::from(pod.events.state == "live")));
    out.family("pod_event_batches_total", "counter", "Batches of events taken from a pod.");
    out.pods("pod_event_batches_total", &pods, |pod| pod.events.batches as f64);
    out.family("pod_event_gaps_total", "counter", "Times that something was missing of a pod's events.");
    out.pods("pod_event_gaps_total", &pods, |pod| pod.events.gaps as f64);
    out.family("pod_event_lost_total", "counter", "Batches of a pod's events that never came.");
    out.pods("pod_event_lost_total", &pods, |pod| pod.events.lost as f64);
    out.family("in_flight", "gauge", "Requests under way.");
    out.line("in_flight", &[], *shared.in_flight.borrow() as f64);
    out.family("index_blocks", "gauge", "Distinct blocks in the index.");
    out.line("index_blocks", &[], shared.plugin_state.index.stats().blocks as f64);
    requests(&mut out, shared, &totals);
    text
}

fn requests(out: &mut Text<'_>, shared: &Shared, totals: &Totals) {
    let counters = [
        ("requests_total", "Requests that were decided on.", totals.requests),
        ("requests_completed_total", "Requests that a pod answered.", totals.completed),
        ("requests_failed_total", "Requests that ended in an error.", totals.failed),
        ("requests_cancelled_total", "Requests whose client left.", totals.cancelled),
        ("requests_refused_total", "Requests that no pod was asked for.", totals.refused),
        ("prompt_tokens_total", "Tokens of all prompts.", totals.prompt_tokens),
        ("cached_tokens_total", "Tokens of prompts that the chosen pod was known to hold.", totals.cached_tokens),
        // Relaxed: counts that publish nothing.
        (
            "tokenize_failures_total",
            "Prompts without tokens.",
            shared.plugin_state.tokenize_failures.load(Ordering::Relaxed),
        ),
        ("bad_reloads_total", "Configurations that were refused.", shared.bad_reloads.load(Ordering::Relaxed)),
    ];
    for (name, help, value) in counters {
        out.family(name, "counter", help);
        out.line(name, &[], value as f64);
    }
    out.family("decisions_total", "counter", "Decisions by profile.");
    for (profile, count) in &totals.decisions {
        out.line("decisions_total", &[("profile", profile)], *count as f64);
    }
    out.family("ttft_seconds", "histogram", "How long clients waited for a first byte.");
    let mut sum = 0;
    for (bound, count) in TTFT_BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]).zip(totals.ttft) {
        sum += count;
        out.line("ttft_seconds_bucket", &[("le", &bound)], sum as f64);
    }
    out.line("ttft_seconds_sum", &[], totals.ttft_micros as f64 / 1e6);
    out.line("ttft_seconds_count", &[], sum as f64);
}

/// A page under way.
struct Text<'t>(&'t mut String);

impl Text<'_> {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // A string takes whatever is written.
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
