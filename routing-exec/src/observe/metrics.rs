//! Counters and histograms by the `metrics` crate.

use std::sync::{Arc, OnceLock};

use http::HeaderMap;
use metrics::{
    Counter, Histogram, Label, SharedString, Unit, counter, describe_counter, describe_histogram, histogram,
};
use parking_lot::RwLock;
use routing_core::{PlanStep, Pod, RoutingPlan};

use super::names::{RequestLabels, duration, error_type};
use crate::executor::DispatchHost;
use crate::report::DispatchReport;

/// Exports a dispatch's report as metrics, around another host.
///
/// | name | kind | labels |
/// |---|---|---|
/// | `gen_ai_server_request_duration_seconds` | histogram | `gen_ai_operation_name`, `gen_ai_request_model`, `error_type` |
/// | `gen_ai_server_time_to_first_token_seconds` | histogram | `gen_ai_operation_name`, `gen_ai_request_model` |
/// | `pointsman_exec_dispatches_total` | counter | `outcome` |
/// | `pointsman_exec_attempts_total` | counter | `step`, `outcome` |
/// | `pointsman_exec_attempt_duration_seconds` | histogram | `step`, `outcome` |
/// | `pointsman_exec_skipped_steps_total` | counter | `step` |
/// | `pointsman_exec_replans_total`, `pointsman_exec_dropped_handoffs_total` | counter | |
/// | `pointsman_exec_forwarded_bytes_total` | counter | |
///
/// The names are OpenTelemetry's, in Prometheus' spelling. The first token is taken to be in the first byte, and an error has none. A
/// complete response that is an error is a `client_error` or a `server_error`, not `completed`.
#[derive(Debug)]
pub struct MeteredHost<H> {
    host: H,
    meters: Arc<RequestMeters>,
}

impl<H: DispatchHost> MeteredHost<H> {
    /// Wraps a host.
    pub fn new(host: H, labels: RequestLabels) -> Self {
        Self::with_meters(host, Arc::new(RequestMeters::new(labels)))
    }

    /// Wraps the host of a request that is labelled as others are, whose metrics need not be looked up again.
    pub fn with_meters(host: H, meters: Arc<RequestMeters>) -> Self {
        Self { host, meters }
    }
}

impl<H: DispatchHost> DispatchHost for MeteredHost<H> {
    type Guard = H::Guard;

    fn begin_attempt(&mut self, pod: Pod, step: &PlanStep) -> H::Guard {
        self.host.begin_attempt(pod, step)
    }

    fn before_send(&mut self, pod: Pod, headers: &mut HeaderMap) {
        self.host.before_send(pod, headers);
    }

    fn replan(&mut self, excluded: &[Pod]) -> Option<RoutingPlan> {
        self.host.replan(excluded)
    }

    fn finished(&mut self, report: DispatchReport) {
        self.meters.record(&report);
        self.host.finished(report);
    }
}

/// Describes the metrics to the recorder. To be called once, after the recorder is installed.
pub fn describe() {
    let seconds = Unit::Seconds;
    describe_histogram!(DURATION, seconds, "Duration of requests, to the end of their responses.");
    describe_histogram!(FIRST_TOKEN, seconds, "Time to first token of clients; responses without tokens do not count.");
    describe_counter!(DISPATCHES, "Dispatches by outcome.");
    describe_counter!(ATTEMPTS, "Requests sent to pods, by step and outcome.");
    describe_histogram!(ATTEMPT_DURATION, seconds, "Duration of requests to pods.");
    describe_counter!(SKIPPED, "Steps that were skipped because their pods failed.");
    describe_counter!(REPLANS, "New plans that were requested.");
    describe_counter!(DROPPED, "Handoffs that were dropped because a prefill response lacked parameters.");
    describe_counter!(BYTES, Unit::Bytes, "Bytes forwarded to clients.");
}

/// The metrics of requests that are labelled alike. What nearly all requests change is looked up in the recorder once, by the first of them.
///
/// To be made after the recorder is installed, which must not forget metrics that are idle: whoever holds one would go on counting what
/// nobody exports. Where that cannot be had, [`MeteredHost::new`] looks them up for each request.
#[derive(Debug)]
pub struct RequestMeters {
    labels: RequestLabels,
    succeeded: OnceLock<Histogram>,
    first_token: OnceLock<Histogram>,
    sums: OnceLock<Sums>,
    attempts: RwLock<Vec<Arc<AttemptMeter>>>,
}

/// Counters of all requests.
#[derive(Debug)]
struct Sums {
    completed: Counter,
    replans: Counter,
    dropped: Counter,
    bytes: Counter,
}

/// The metrics of attempts at a step with an outcome.
#[derive(Debug)]
struct AttemptMeter {
    step: Box<str>,
    outcome: &'static str,
    duration: Histogram,
    count: Counter,
}

/// Steps and outcomes whose metrics are kept: more than profiles have.
const MAX_ATTEMPT_METERS: usize = 64;

impl RequestMeters {
    /// Those of requests with such labels.
    #[must_use]
    pub fn new(labels: RequestLabels) -> Self {
        let (succeeded, first_token, sums) = Default::default();
        Self { labels, succeeded, first_token, sums, attempts: RwLock::default() }
    }

    fn record(&self, report: &DispatchReport) {
        if let Some(took) = duration(report) {
            match error_type(&report.outcome) {
                None => self.succeeded.get_or_init(|| histogram!(DURATION, self.labels(None))).record(took),
                Some(error) => histogram!(DURATION, self.labels(Some(error.into()))).record(took),
            }
        }
        if let Some(waited) = report.time_to_first_token() {
            self.first_token.get_or_init(|| histogram!(FIRST_TOKEN, self.labels(None))).record(waited);
        }
        let sums = self.sums.get_or_init(Sums::find);
        match report.outcome.name() {
            COMPLETED => sums.completed.increment(1),
            other => counter!(DISPATCHES, "outcome" => other).increment(1),
        }
        for attempt in &report.attempts {
            let meter = self.attempt_meter(&attempt.step, attempt.outcome_name());
            if let Some(ended) = attempt.ended {
                meter.duration.record(ended.saturating_duration_since(attempt.sent));
            }
            meter.count.increment(1);
        }
        for step in &report.skipped {
            counter!(SKIPPED, "step" => step.to_string()).increment(1);
        }
        sums.replans.increment(report.replans.into());
        sums.dropped.increment(report.handoffs_dropped.into());
        sums.bytes.increment(report.bytes);
    }

    fn labels(&self, error: Option<SharedString>) -> Vec<Label> {
        let model = self.labels.model.clone().map(|model| Label::new("gen_ai_request_model", model));
        let error = error.map(|error| Label::new("error_type", error));
        let operation = Label::new("gen_ai_operation_name", self.labels.operation.clone());
        [Some(operation), model, error].into_iter().flatten().collect()
    }

    fn attempt_meter(&self, step: &str, outcome: &'static str) -> Arc<AttemptMeter> {
        let is_meant = |meter: &&Arc<AttemptMeter>| *meter.step == *step && meter.outcome == outcome;
        if let Some(meter) = self.attempts.read().iter().find(is_meant) {
            return Arc::clone(meter);
        }
        let meter = Arc::new(AttemptMeter::find(step, outcome));
        let mut meters = self.attempts.write();
        // Two requests may look it up at once; the recorder gives both the same.
        if meters.len() < MAX_ATTEMPT_METERS && !meters.iter().any(|known| is_meant(&known)) {
            meters.push(Arc::clone(&meter));
        }
        meter
    }
}

impl Sums {
    fn find() -> Self {
        Self {
            completed: counter!(DISPATCHES, "outcome" => COMPLETED),
            replans: counter!(REPLANS),
            dropped: counter!(DROPPED),
            bytes: counter!(BYTES),
        }
    }
}

impl AttemptMeter {
    fn find(step: &str, outcome: &'static str) -> Self {
        let labels = vec![Label::new("step", step.to_owned()), Label::new("outcome", outcome)];
        let duration = histogram!(ATTEMPT_DURATION, labels.clone());
        Self { step: step.into(), outcome, duration, count: counter!(ATTEMPTS, labels) }
    }
}

/// The name of the outcome that most dispatches have.
const COMPLETED: &str = "completed";
const DURATION: &str = "gen_ai_server_request_duration_seconds";
const FIRST_TOKEN: &str = "gen_ai_server_time_to_first_token_seconds";
const DISPATCHES: &str = "pointsman_exec_dispatches_total";
const ATTEMPTS: &str = "pointsman_exec_attempts_total";
const ATTEMPT_DURATION: &str = "pointsman_exec_attempt_duration_seconds";
const SKIPPED: &str = "pointsman_exec_skipped_steps_total";
const REPLANS: &str = "pointsman_exec_replans_total";
const DROPPED: &str = "pointsman_exec_dropped_handoffs_total";
const BYTES: &str = "pointsman_exec_forwarded_bytes_total";
