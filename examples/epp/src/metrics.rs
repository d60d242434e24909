//! What a picker counted, as a page of metrics.

mod histogram;
mod llmd_pool;
mod llmd_requests;
mod page;
mod requests;
mod scheduling;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pointsman::exec::{BreakerState, Failure};
use pointsman::index::engine::{FollowerState, FollowerStatus};
use pointsman::{ApiError, RegisteredPod, Router};

use page::Page;
pub(crate) use requests::{RequestLabels, RequestMeter, RequestMetrics};
pub(crate) use scheduling::{Attempt, SchedulingMetrics};

/// Counters of a picker. All of them are statistics, which publish nothing: relaxed.
#[derive(Debug, Default)]
pub struct Metrics {
    decisions: AtomicU64,
    read_nanos: AtomicU64,
    decision_nanos: AtomicU64,
    ended: AtomicU64,
    cancelled: AtomicU64,
    reloads: AtomicU64,
    reload_failures: AtomicU64,
    /// By what answers failed of, and by why requests were refused: few of either.
    failed: Mutex<BTreeMap<&'static str, u64>>,
    refused: Mutex<BTreeMap<(u16, &'static str), u64>>,
    pub(crate) requests: RequestMetrics,
    pub(crate) scheduling: SchedulingMetrics,
}

/// What a page tells beside what was counted.
#[derive(Clone, Copy)]
pub(crate) struct PageContext<'p> {
    pub(crate) router: &'p Router,
    pub(crate) events: &'p BTreeMap<String, FollowerStatus>,
    /// The pool's name.
    pub(crate) pool: &'p str,
    /// How full it is.
    pub(crate) saturation: f64,
}

impl Metrics {
    pub(crate) fn read(&self, took: Duration) {
        self.read_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// A request was decided about, which took so long. With flow control it may have waited.
    pub(crate) fn decided<T>(&self, decision: &Result<T, ApiError>, took: Duration, flow: Option<i32>) {
        self.decisions.fetch_add(1, Ordering::Relaxed);
        self.decision_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        match flow {
            Some(priority) => self.scheduling.flowed(decision, priority),
            None => self.scheduling.decided(took),
        }
    }

    pub(crate) fn refused(&self, error: &ApiError, labels: RequestLabels) {
        self.requests.refused(labels, error);
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

    pub(crate) fn certificate_reloaded(&self, is_good: bool) {
        let count = if is_good { &self.reloads } else { &self.reload_failures };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Certificates that were taken over from changed files, and those that were not, being broken.
    #[must_use]
    pub fn certificate_reloads(&self) -> (u64, u64) {
        (self.reloads.load(Ordering::Relaxed), self.reload_failures.load(Ordering::Relaxed))
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

    /// The page, in the text format of Prometheus: our own names, and beside them those of llm-d's picker where they mean the same.
    pub(crate) fn page(&self, about: &PageContext<'_>) -> String {
        let PageContext { router, events, pool, saturation } = *about;
        let mut page = Page::default();
        self.own(&mut page);
        pods(&mut page, router);
        followed(&mut page, events);
        llmd_requests::write(&mut page, &self.requests.all());
        llmd_pool::write(&mut page, router, pool);
        self.scheduling.write(&mut page, pool);
        if router.flow_band(0).is_some() {
            llmd_pool::write_flow_control(&mut page, router, pool, saturation);
        }
        page.finish()
    }

    fn own(&self, page: &mut Page) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let seconds = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed)).as_secs_f64();
        let mut counter = |name: &str, help: &str, value| page.single(&own(name), "counter", help, value);
        counter("decisions_total", "Requests that were decided about.", count(&self.decisions));
        let help = "Time that decisions took, waits for room included.";
        counter("decision_seconds_total", help, seconds(&self.decision_nanos));
        let help = "Time that reading bodies took, tokenizing included.";
        counter("read_seconds_total", help, seconds(&self.read_nanos));
        counter("answers_total", "Answers that ended.", count(&self.ended));
        let help = "Answers that did not come to their end: clients left, or pods died.";
        counter("answers_cancelled_total", help, count(&self.cancelled));
        counter("certificate_reloads_total", "Changed certificates that were taken over.", count(&self.reloads));
        let help = "Changed certificates that were not taken over, being broken.";
        counter("certificate_reload_failures_total", help, count(&self.reload_failures));
        let name = own("answers_failed_total");
        page.family(&name, "counter", "Answers that a pod failed, by how.");
        for (failure, count) in &*self.failed.lock() {
            page.sample(&name, &[("failure", failure)], *count as f64);
        }
        let name = own("refused_total");
        page.family(&name, "counter", "Requests that were answered in the pods' place, by status and reason.");
        for ((status, code), count) in &*self.refused.lock() {
            page.sample(&name, &[("status", &status.to_string()), ("reason", code)], *count as f64);
        }
    }
}

fn pods(page: &mut Page, router: &Router) {
    let pods = router.pods();
    let mut rows = |name: &str, help: &str, of: &dyn Fn(&RegisteredPod) -> f64| {
        let name = own(name);
        page.family(&name, "gauge", help);
        pods.iter().for_each(|pod| page.sample(&name, &[("pod", &pod.spec.name)], of(pod)));
    };
    rows("pod_healthy", "Whether a pod passes its health checks.", &|pod| f64::from(u8::from(pod.healthy)));
    rows("pod_in_flight", "Requests that were sent to a pod and have not ended.", &|pod| {
        f64::from(router.plugin_state().load.in_flight(pod.pod.id()).requests)
    });
    rows("pod_breaker_open", "Whether a pod's circuit breaker keeps requests away.", &|pod| {
        f64::from(u8::from(pod.breaker.state != BreakerState::Closed))
    });
    rows("pod_blocks", "Blocks that a pod is known, or guessed, to hold.", &|pod| {
        router.index().pod_stats(pod.pod).map_or(0, |stats| stats.blocks) as f64
    });
    let name = own("waiting");
    page.family(&name, "gauge", "Requests that wait for a pod to have room, by band.");
    for band in router.flow_status(0) {
        page.sample(&name, &[("band", &band.name)], band.requests as f64);
    }
}

/// Whether engines' events arrive, of pods that are followed.
fn followed(page: &mut Page, events: &BTreeMap<String, FollowerStatus>) {
    let mut rows = |name: &str, kind: &str, help: &str, of: &dyn Fn(&FollowerStatus) -> f64| {
        let name = own(name);
        page.family(&name, kind, help);
        events.iter().for_each(|(pod, status)| page.sample(&name, &[("pod", pod)], of(status)));
    };
    let is_live = |status: &FollowerStatus| f64::from(u8::from(status.state == FollowerState::Live));
    rows("pod_events_live", "gauge", "Whether a pod's cache events are followed without a gap.", &is_live);
    let batches = |status: &FollowerStatus| status.batches as f64;
    rows("pod_events_batches_total", "counter", "Batches of a pod's events that were taken in.", &batches);
    let dropped = |status: &FollowerStatus| status.dropped as f64;
    let help = "A pod's events that could not be used: another block size, for one.";
    rows("pod_events_dropped_total", "counter", help, &dropped);
    let lost = |status: &FollowerStatus| status.lost as f64;
    let help = "Times that a pod's events were lost for good, and its cache forgotten.";
    rows("pod_events_lost_total", "counter", help, &lost);
}

/// A name of our own.
fn own(name: &str) -> String {
    format!("pointsman_epp_{name}")
}
