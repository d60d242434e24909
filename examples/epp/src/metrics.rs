//! What a picker counted, as a page of metrics.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pointsman::exec::Failure;
use pointsman::index::engine::FollowerState;
use pointsman::zmq::SubscriberStatus;
use pointsman::{ApiError, Router};

/// Counters of a picker. All of them are statistics, which publish nothing: relaxed.
#[derive(Debug, Default)]
pub struct Metrics {
    decisions: AtomicU64,
    read_nanos: AtomicU64,
    decision_nanos: AtomicU64,
    ended: AtomicU64,
    cancelled: AtomicU64,
    /// By what answers failed of, and by why requests were refused: few of either.
    failed: Mutex<BTreeMap<&'static str, u64>>,
    refused: Mutex<BTreeMap<(u16, &'static str), u64>>,
}

impl Metrics {
    pub(crate) fn read(&self, took: Duration) {
        self.read_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn decided(&self, took: Duration) {
        self.decisions.fetch_add(1, Ordering::Relaxed);
        self.decision_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self, error: &ApiError) {
        *self.refused.lock().entry((error.status.as_u16(), error.code)).or_default() += 1;
    }

    pub(crate) fn ended(&self, answer: &Result<(), Failure>) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        if let Err(failure) = answer {
            *self.failed.lock().entry(failure.name()).or_default() += 1;
        }
    }

    pub(crate) fn cancelled(&self) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    /// Decisions so far, and how long they took in all, waits included.
    #[must_use]
    pub fn decisions(&self) -> (u64, Duration) {
        let nanos = self.decision_nanos.load(Ordering::Relaxed);
        (self.decisions.load(Ordering::Relaxed), Duration::from_nanos(nanos))
    }

    /// Answers that ended, and how many of them failed.
    #[must_use]
    pub fn answers(&self) -> (u64, u64) {
        (self.ended.load(Ordering::Relaxed), self.failed.lock().values().sum())
    }

    /// The page, in the text format of Prometheus.
    pub(crate) fn page(&self, router: &Router, events: &BTreeMap<String, SubscriberStatus>) -> String {
        let (decisions, took) = self.decisions();
        let mut page = String::new();
        family(&mut page, "decisions_total", "counter", "Requests that were decided about.");
        line(&mut page, "decisions_total", "", decisions as f64);
        family(&mut page, "decision_seconds_total", "counter", "Time that decisions took, waits for room included.");
        line(&mut page, "decision_seconds_total", "", took.as_secs_f64());
        family(&mut page, "read_seconds_total", "counter", "Time that reading bodies took, tokenizing included.");
        let read = Duration::from_nanos(self.read_nanos.load(Ordering::Relaxed));
        line(&mut page, "read_seconds_total", "", read.as_secs_f64());
        family(&mut page, "answers_total", "counter", "Answers that ended.");
        line(&mut page, "answers_total", "", self.ended.load(Ordering::Relaxed) as f64);
        family(
            &mut page,
            "answers_cancelled_total",
            "counter",
            "Answers that did not come to their end: clients left, or pods died.",
        );
        line(&mut page, "answers_cancelled_total", "", self.cancelled.load(Ordering::Relaxed) as f64);
        family(&mut page, "answers_failed_total", "counter", "Answers that a pod failed, by how.");
        for (failure, count) in &*self.failed.lock() {
            line(&mut page, "answers_failed_total", &format!("failure=\"{failure}\""), *count as f64);
        }
        family(
            &mut page,
            "refused_total",
            "counter",
            "Requests that were answered in the pods' place, by status and reason.",
        );
        for ((status, code), count) in &*self.refused.lock() {
            line(&mut page, "refused_total", &format!("status=\"{status}\",reason=\"{code}\""), *count as f64);
        }
        pods(&mut page, router);
        followed(&mut page, events);
        page
    }
}

fn pods(page: &mut String, router: &Router) {
    let pods = router.pods();
    let healthy = |healthy: bool| if healthy { 1.0 } else { 0.0 };
    family(page, "pod_healthy", "gauge", "Whether a pod passes its health checks.");
    for pod in &pods {
        line(page, "pod_healthy", &label(&pod.spec.name), healthy(pod.healthy));
    }
    family(page, "pod_in_flight", "gauge", "Requests that were sent to a pod and have not ended.");
    for pod in &pods {
        let in_flight = router.plugin_state().load.in_flight(pod.pod.id());
        line(page, "pod_in_flight", &label(&pod.spec.name), f64::from(in_flight.requests));
    }
    family(page, "pod_breaker_open", "gauge", "Whether a pod's circuit breaker keeps requests away.");
    for pod in &pods {
        let is_open = pod.breaker.state != pointsman::exec::BreakerState::Closed;
        line(page, "pod_breaker_open", &label(&pod.spec.name), healthy(is_open));
    }
    family(page, "pod_blocks", "gauge", "Blocks that a pod is known, or guessed, to hold.");
    for pod in &pods {
        let blocks = router.index().pod_stats(pod.pod).map_or(0, |stats| stats.blocks);
        line(page, "pod_blocks", &label(&pod.spec.name), blocks as f64);
    }
    family(page, "waiting", "gauge", "Requests that wait for a pod to have room, by band.");
    for band in router.flow_status(0) {
        line(page, "waiting", &format!("band=\"{}\"", escaped(&band.name)), band.requests as f64);
    }
}

/// Whether engines' events arrive, of pods that are followed.
fn followed(page: &mut String, events: &BTreeMap<String, SubscriberStatus>) {
    let mut rows = |name: &str, kind: &str, help: &str, of: &dyn Fn(&SubscriberStatus) -> f64| {
        family(page, name, kind, help);
        events.iter().for_each(|(pod, status)| line(page, name, &label(pod), of(status)));
    };
    let is_live = |status: &SubscriberStatus| f64::from(u8::from(status.get().state == FollowerState::Live));
    rows("pod_events_live", "gauge", "Whether a pod's cache events are followed without a gap.", &is_live);
    let batches = |status: &SubscriberStatus| status.get().batches as f64;
    rows("pod_events_batches_total", "counter", "Batches of a pod's events that were taken in.", &batches);
    let dropped = |status: &SubscriberStatus| status.get().dropped as f64;
    rows(
        "pod_events_dropped_total",
        "counter",
        "A pod's events that could not be used: another block size, for one.",
        &dropped,
    );
    let lost = |status: &SubscriberStatus| status.get().lost as f64;
    rows(
        "pod_events_lost_total",
        "counter",
        "Times that a pod's events were lost for good, and its cache forgotten.",
        &lost,
    );
}

fn family(page: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a text does not fail.
    let _ = writeln!(page, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}");
}

fn line(page: &mut String, name: &str, labels: &str, value: f64) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(page, "{PREFIX}{name}{labels} {value}");
}

fn label(pod: &str) -> String {
    format!("pod=\"{}\"", escaped(pod))
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

const PREFIX: &str = "pointsman_epp_";
