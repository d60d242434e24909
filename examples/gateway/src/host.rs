//! Execution host of one request: the router's own, with a log of what happens.

use std::sync::Arc;

use http::HeaderMap;
use pointsman::AttemptGuard;
use pointsman::{Audited, RouterHost};
use routing_core::{InFlightGuard, PlanStep, Pod, Role, RoutingPlan};
use routing_exec::{DispatchHost, DispatchOutcome, DispatchReport};

use super::app_state::AppState;
use super::observers::RequestSpans;
use super::pod_metrics::{PodCounters, Purpose};
use super::request_log::Ended;
use super::request_record::{Arrival, RequestRecord, unix_ms};

/// The host of one request.
pub(super) struct RequestHost {
    app: Arc<AppState>,
    host: RouterHost,
    key: u64,
    /// Whether a prefill pod was used.
    prefilled: bool,
    /// Its attempts, in the order of their beginning.
    attempts: Vec<Begun>,
    /// Its spans, if traces are exported.
    spans: Option<RequestSpans>,
}

/// An attempt that was begun.
struct Begun {
    pod: Pod,
    name: Arc<str>,
    step: Arc<str>,
    purpose: Purpose,
    /// Its pod's.
    counters: Arc<PodCounters>,
}

impl RequestHost {
    pub(super) fn new(app: Arc<AppState>, host: RouterHost, key: u64, spans: Option<RequestSpans>) -> Self {
        Self { app, host, key, prefilled: false, attempts: Vec::new(), spans }
    }
}

impl DispatchHost for RequestHost {
    type Guard = LoadShare;

    fn begin_attempt(&mut self, pod: Pod, step: &PlanStep) -> LoadShare {
        let guard = self.host.begin_attempt(pod, step);
        let name: Arc<str> = self.host.fleet().pod(pod.id()).map_or_else(|| "?".into(), |info| (&*info.name).into());
        let purpose = if step.role == Role::Prefill { Purpose::Handoff } else { Purpose::Answer };
        let counters = self.app.pod_metrics.of(&name);
        self.attempts.push(Begun { pod, name: Arc::clone(&name), step: Arc::clone(&step.name), purpose, counters });
        self.app.request_log.record_dispatch(self.key, name, step.role, self.prefilled);
        self.prefilled |= step.role == Role::Prefill;
        let answers = (purpose == Purpose::Answer).then(|| (Arc::clone(&self.app), self.key));
        LoadShare { guard, answers }
    }

    fn before_send(&mut self, pod: Pod, headers: &mut HeaderMap) {
        self.host.before_send(pod, headers);
        let begun = self.attempts.iter().rev().find(|begun| begun.pod == pod);
        if let Some((spans, begun)) = self.spans.as_mut().zip(begun) {
            spans.attempt(pod, &begun.name, &begun.step, headers);
        }
    }

    fn replan(&mut self, failed: &[Pod]) -> Option<RoutingPlan> {
        self.host.replan(failed)
    }

    fn finished(&mut self, report: DispatchReport) {
        // Each attempt was begun, in the order of the report.
        for (begun, attempt) in self.attempts.iter().zip(&report.attempts) {
            if begun.pod == attempt.pod {
                begun.counters.record(attempt, begun.purpose);
            }
        }
        self.host.finished(report.clone());
        let audited = self.host.audited().get().cloned();
        let ended = self.app.request_log.record_outcome(self.key, &report, audited.clone());
        if let Some(spans) = self.spans.take() {
            spans.finish(&report);
        }
        let Some(ended) = ended else { return };
        self.app.observers.truncation_log.take(&ended.id, ended.pod.as_ref(), &report);
        if self.app.observers.wants_records() {
            self.app.observers.take(self.record(&report, ended, audited));
        }
    }
}

impl RequestHost {
    /// What the logs tell of the request.
    fn record(&self, report: &DispatchReport, ended: Ended, audited: Option<Audited>) -> RequestRecord {
        let parts = self.host.request().parts();
        RequestRecord {
            unix_ms: unix_ms(),
            id: ended.id.to_string(),
            client: parts.extensions.get::<Arrival>().and_then(|arrival| arrival.client),
            path: parts.uri.path().to_owned(),
            model: Some(self.host.model().to_owned()),
            profile: Some(self.host.profile().to_string()),
            status: match &report.outcome {
                DispatchOutcome::Completed(status) => *status,
                DispatchOutcome::Failed(error) => error.status().as_u16(),
                DispatchOutcome::ClientDisconnected => CLIENT_LEFT,
                _ => 503,
            },
            pods: self.host.expectations().iter().map(|expectation| expectation.name.to_string()).collect(),
            attempts: report.attempts.len(),
            prompt_tokens: self.host.request().tokens().len() as u64,
            expected_tokens: audited.as_ref().map(|audited| audited.observation.expected),
            cached_tokens: audited.as_ref().map(|audited| audited.observation.actual),
            cause: None,
            outcome: ended.outcome,
            ttft_ms: ended.ttft.map(|time| time.as_secs_f64() * 1e3),
            total_ms: ended.total.as_secs_f64() * 1e3,
            bytes: report.bytes,
            audited,
        }
    }
}

/// The status of a request whose client left before it had one, as nginx logs it.
const CLIENT_LEFT: u16 = 499;

/// A request's share of a pod's load.
pub(super) struct LoadShare {
    guard: AttemptGuard,
    /// The request whose first byte it is, if the pod's response is the client's.
    answers: Option<(Arc<AppState>, u64)>,
}

impl InFlightGuard for LoadShare {
    fn first_byte(&mut self) {
        self.guard.first_byte();
        if let Some((app, key)) = self.answers.take() {
            app.request_log.record_first_byte(key);
        }
    }
}
