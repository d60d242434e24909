//! Counters and histograms by the `metrics` crate.

use metrics::{Label, SharedString, Unit, counter, describe_counter, describe_histogram, histogram};
use routing_core::{PlanStep, Pod, RoutingPlan};

use super::names::{About, duration, error, fate, first_byte, outcome};
use crate::driver::Host;
use crate::record::Report;

/// A host that counts what becomes of its run, around another.
///
/// | name | kind | labels |
/// |---|---|---|
/// | `gen_ai.server.request.duration` | histogram, seconds | `gen_ai.operation.name`, `gen_ai.request.model`, `error.type` |
/// | `gen_ai.server.time_to_first_token` | histogram, seconds | `gen_ai.operation.name`, `gen_ai.request.model` |
/// | `pointsman_exec_runs_total` | counter | `outcome` |
/// | `pointsman_exec_attempts_total` | counter | `step`, `outcome` |
/// | `pointsman_exec_attempt_duration_seconds` | histogram | `step`, `outcome` |
/// | `pointsman_exec_skipped_steps_total` | counter | `step` |
/// | `pointsman_exec_replans_total`, `pointsman_exec_handoffs_dropped_total` | counter | |
/// | `pointsman_exec_forwarded_bytes_total` | counter | |
///
/// The first token is taken to be in the first byte.
#[derive(Debug)]
pub struct Counted<H> {
    host: H,
    about: About,
}

impl<H: Host> Counted<H> {
    /// Counts a run of this request.
    pub fn new(host: H, about: About) -> Self {
        Self { host, about }
    }
}

impl<H: Host> Host for Counted<H> {
    type Hold = H::Hold;

    fn hold(&mut self, pod: Pod, step: &PlanStep) -> H::Hold {
        self.host.hold(pod, step)
    }

    fn replan(&mut self, without: &[Pod]) -> Option<RoutingPlan> {
        self.host.replan(without)
    }

    fn finished(&mut self, report: Report) {
        count(&self.about, &report);
        self.host.finished(report);
    }
}

/// Tells the recorder what the metrics are. To be called once, after the recorder is installed.
pub fn describe() {
    let seconds = Unit::Seconds;
    describe_histogram!(DURATION, seconds, "How long requests took, to the end of their answers.");
    describe_histogram!(FIRST_TOKEN, seconds, "How long clients waited for a first byte.");
    describe_counter!(RUNS, "Requests that ended, by how they did.");
    describe_counter!(ATTEMPTS, "Requests sent to pods, by step and what became of them.");
    describe_histogram!(ATTEMPT_DURATION, seconds, "How long requests to pods took.");
    describe_counter!(SKIPPED, "Steps that were left out because their pods failed.");
    describe_counter!(REPLANS, "New plans that were asked for.");
    describe_counter!(DROPPED, "Handoffs that were dropped because a pod did not give all that they take.");
    describe_counter!(BYTES, Unit::Bytes, "Bytes that went to clients.");
}

fn count(about: &About, report: &Report) {
    let labels = |error: Option<SharedString>| {
        let model = about.model.clone().map(|model| Label::new("gen_ai.request.model", model));
        let error = error.map(|error| Label::new("error.type", error));
        let operation = Label::new("gen_ai.operation.name", about.operation.clone());
        [Some(operation), model, error].into_iter().flatten().collect::<Vec<_>>()
    };
    if let Some(took) = duration(report) {
        let error = error(&report.outcome).map(SharedString::from);
        histogram!(DURATION, labels(error)).record(took);
    }
    if let Some(waited) = first_byte(report) {
        histogram!(FIRST_TOKEN, labels(None)).record(waited);
    }
    counter!(RUNS, "outcome" => outcome(&report.outcome)).increment(1);
    for attempt in &report.attempts {
        let labels = vec![Label::new("step", attempt.step.to_string()), Label::new("outcome", fate(&attempt.fate))];
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

const DURATION: &str = "gen_ai.server.request.duration";
const FIRST_TOKEN: &str = "gen_ai.server.time_to_first_token";
const RUNS: &str = "pointsman_exec_runs_total";
const ATTEMPTS: &str = "pointsman_exec_attempts_total";
const ATTEMPT_DURATION: &str = "pointsman_exec_attempt_duration_seconds";
const SKIPPED: &str = "pointsman_exec_skipped_steps_total";
const REPLANS: &str = "pointsman_exec_replans_total";
const DROPPED: &str = "pointsman_exec_handoffs_dropped_total";
const BYTES: &str = "pointsman_exec_forwarded_bytes_total";
