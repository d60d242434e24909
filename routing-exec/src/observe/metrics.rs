//! Counters and histograms by the `metrics` crate.

use http::HeaderMap;
use metrics::{Label, SharedString, Unit, counter, describe_counter, describe_histogram, histogram};
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
    labels: RequestLabels,
}

impl<H: DispatchHost> MeteredHost<H> {
    /// Wraps a host.
    pub fn new(host: H, labels: RequestLabels) -> Self {
        Self { host, labels }
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
        record(&self.labels, &report);
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

fn record(request: &RequestLabels, report: &DispatchReport) {
    let labels = |error: Option<SharedString>| {
        let model = request.model.clone().map(|model| Label::new("gen_ai_request_model", model));
        let error = error.map(|error| Label::new("error_type", error));
        let operation = Label::new("gen_ai_operation_name", request.operation.clone());
        [Some(operation), model, error].into_iter().flatten().collect::<Vec<_>>()
    };
    if let Some(took) = duration(report) {
        let error = error_type(&report.outcome).map(SharedString::from);
        histogram!(DURATION, labels(error)).record(took);
    }
    if let Some(waited) = report.time_to_first_token() {
        histogram!(FIRST_TOKEN, labels(None)).record(waited);
    }
    counter!(DISPATCHES, "outcome" => report.outcome.name()).increment(1);
    for attempt in &report.attempts {
        let outcome = attempt.outcome_name();
        let labels = vec![Label::new("step", attempt.step.to_string()), Label::new("outcome", outcome)];
        if let Some(ended) = attempt.ended {
            let took = ended.saturating_duration_since(attempt.sent);
            histogram!(ATTEMPT_DURATION, labels.clone()).record(took);
        }
        counter!(ATTEMPTS, labels).increment(1);
    }
    for step in &report.skipped {
        counter!(SKIPPED, "step" => step.to_string()).increment(1);
    }
    counter!(REPLANS).increment(report.replans.into());
    counter!(DROPPED).increment(report.handoffs_dropped.into());
    counter!(BYTES).increment(report.bytes);
}

const DURATION: &str = "gen_ai_server_request_duration_seconds";
const FIRST_TOKEN: &str = "gen_ai_server_time_to_first_token_seconds";
const DISPATCHES: &str = "pointsman_exec_dispatches_total";
const ATTEMPTS: &str = "pointsman_exec_attempts_total";
const ATTEMPT_DURATION: &str = "pointsman_exec_attempt_duration_seconds";
const SKIPPED: &str = "pointsman_exec_skipped_steps_total";
const REPLANS: &str = "pointsman_exec_replans_total";
const DROPPED: &str = "pointsman_exec_dropped_handoffs_total";
const BYTES: &str = "pointsman_exec_forwarded_bytes_total";
