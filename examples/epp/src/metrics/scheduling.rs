//! Decisions under llm-d's names: how long they took, what came of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman::ApiError;

use super::histogram::Histogram;
use super::page::Page;
use super::requests::{OTHER, bounded};

/// Decisions about requests with a body.
#[derive(Debug)]
pub(crate) struct SchedulingMetrics {
    /// Without waits: nothing is in it where requests wait for room.
    decision: Mutex<Histogram>,
    /// From a request's headers to its decision.
    processing: Mutex<Histogram>,
    attempts: Mutex<BTreeMap<Attempt, u64>>,
    /// Of requests that may have waited, by outcome and priority.
    flows: Mutex<BTreeMap<(&'static str, i32), u64>>,
    rewrites: Mutex<BTreeMap<Rewrite, u64>>,
}

/// A model that took another's place: the resource that said so, the model that was named, and the one that is.
type Rewrite = [Arc<str>; 3];

/// What came of a decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attempt {
    pub(crate) target: Arc<str>,
    /// The pod's name, with `namespace/` before it or not, and its port; none where no pod was found.
    pub(crate) pod: Option<(Box<str>, Box<str>)>,
}

impl Attempt {
    /// What it is counted under beyond the bound: whether a pod was found is still told.
    fn of_the_rest(self) -> Self {
        Self { target: OTHER.into(), pod: self.pod.map(|_| (OTHER.into(), "".into())) }
    }
}

impl Default for SchedulingMetrics {
    fn default() -> Self {
        let (decision, processing) = (Histogram::new(&DECISION), Histogram::new(&PROCESSING));
        Self {
            decision: Mutex::new(decision),
            processing: Mutex::new(processing),
            attempts: Mutex::default(),
            flows: Mutex::default(),
            rewrites: Mutex::default(),
        }
    }
}

impl SchedulingMetrics {
    pub(super) fn decided(&self, took: Duration) {
        self.decision.lock().record(took.as_secs_f64());
    }

    pub(crate) fn processed(&self, took: Duration) {
        self.processing.lock().record(took.as_secs_f64());
    }

    pub(crate) fn attempted(&self, attempt: Attempt) {
        let attempt = Attempt { target: bounded(attempt.target), ..attempt };
        let mut attempts = self.attempts.lock();
        let is_known = attempts.len() < MOST_ATTEMPTS || attempts.contains_key(&attempt);
        // Pods come and go, and models are what clients say.
        *attempts.entry(if is_known { attempt } else { attempt.of_the_rest() }).or_default() += 1;
    }

    /// A request of flow control goes, or does not.
    pub(super) fn flowed<T>(&self, admitted: &Result<T, ApiError>, priority: i32) {
        let outcome = match admitted.as_ref().map_err(|error| error.code) {
            Ok(_) => "Dispatched",
            Err("band_full" | "queue_full" | "displaced" | "too_large") => "RejectedCapacity",
            Err("expired") => "EvictedTTL",
            Err("no_endpoints" | "no_pod_available") => "RejectedNoEndpoints",
            Err(_) => "RejectedOther",
        };
        *self.flows.lock().entry((outcome, priority)).or_default() += 1;
    }

    /// A rule took a model's place.
    pub(crate) fn rewritten(&self, [resource, model, target]: Rewrite) {
        let rewrite = [resource, bounded(model), target];
        let mut rewrites = self.rewrites.lock();
        let is_known = rewrites.len() < MOST_ATTEMPTS || rewrites.contains_key(&rewrite);
        let [resource, _, target] = &rewrite;
        let key = if is_known { rewrite } else { [Arc::clone(resource), OTHER.into(), Arc::clone(target)] };
        *rewrites.entry(key).or_default() += 1;
    }

    pub(super) fn write(&self, page: &mut Page, pool: &str) {
        for name in ["inference_extension_scheduler_e2e_duration_seconds", "llm_d_epp_scheduler_e2e_duration_seconds"] {
            page.family(name, "histogram", "Time that decisions took.");
            page.histogram(name, &[], &self.decision.lock());
        }
        let name = "llm_d_epp_request_processing_duration_seconds";
        page.family(name, "histogram", "From a request's headers to its decision, waits for room included.");
        page.histogram(name, &[], &self.processing.lock());
        let twins = [
            ("inference_extension_scheduler_attempts_total", "pod_name"),
            ("llm_d_epp_scheduler_attempts_total", "endpoint_name"),
        ];
        for (name, pod_label) in twins {
            page.family(name, "counter", "Decisions, by the pod that was picked.");
            for (Attempt { target, pod }, count) in &*self.attempts.lock() {
                let status = if pod.is_some() { "success" } else { "failure" };
                let (full, port) = pod.as_ref().map_or(("", ""), |(name, port)| (name, port));
                let (namespace, pod) = full.split_once('/').unwrap_or(("", full));
                let labels = [
                    ("status", status),
                    ("target_model_name", target),
                    (pod_label, pod),
                    ("namespace", namespace),
                    ("port", port),
                ];
                page.sample(name, &labels, *count as f64);
            }
        }
        let twins = ["inference_extension_model_rewrite_decisions_total", "llm_d_epp_model_rewrite_decisions_total"];
        for name in twins {
            page.family(
                name,
                "counter",
                "Models that took the place of others, by the InferenceModelRewrite that says so.",
            );
            for ([resource, model, target], count) in &*self.rewrites.lock() {
                let labels = [("model_rewrite_name", &**resource), ("model_name", model), ("target_model", target)];
                page.sample(name, &labels, *count as f64);
            }
        }
        let flows = self.flows.lock();
        if !flows.is_empty() {
            let name = "llm_d_epp_flow_control_requests_total";
            page.family(name, "counter", "Requests of flow control, by what became of them.");
            for ((outcome, priority), count) in &*flows {
                let priority = priority.to_string();
                let labels = [("outcome", *outcome), ("priority", &priority), ("inference_pool", pool)];
                page.sample(name, &labels, *count as f64);
            }
        }
    }
}

/// Rows of attempts at most.
const MOST_ATTEMPTS: usize = 1_024;

// Upper bounds of buckets, both llm-d's.
const DECISION: [f64; 10] = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1];
const PROCESSING: [f64; 16] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(target: &str, is_found: bool) -> Attempt {
        Attempt { target: target.into(), pod: is_found.then(|| ("pod".into(), "8000".into())) }
    }

    fn page(metrics: &SchedulingMetrics) -> String {
        let mut page = Page::default();
        metrics.write(&mut page, "pool");
        page.finish()
    }

    #[test]
    fn a_name_as_long_as_a_body_is_not_kept() {
        let (metrics, long) = (SchedulingMetrics::default(), "x".repeat(10_000));
        metrics.attempted(attempt(&long, false));
        metrics.attempted(attempt(&long, true));
        metrics.rewritten(["rule".into(), long.as_str().into(), "v2".into()]);
        let page = page(&metrics);
        assert!(!page.contains(&long));
        for row in [
            r#"attempts_total{status="failure",target_model_name="other","#,
            r#"attempts_total{status="success",target_model_name="other",pod_name="pod","#,
            r#"decisions_total{model_rewrite_name="rule",model_name="other",target_model="v2"} 1"#,
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
    }

    #[test]
    fn what_is_beyond_the_bound_is_still_a_success_or_a_failure() {
        let metrics = SchedulingMetrics::default();
        (0..MOST_ATTEMPTS).for_each(|n| metrics.attempted(attempt(&n.to_string(), false)));
        (0..3).for_each(|_| metrics.attempted(attempt("found", true)));
        (0..2).for_each(|_| metrics.attempted(attempt("not found", false)));
        let page = page(&metrics);
        let rest = |status: &str, pod: &str| {
            format!(
                r#"inference_extension_scheduler_attempts_total{{status="{status}",target_model_name="other",pod_name="{pod}",namespace="",port=""}}"#
            )
        };
        assert!(page.contains(&format!("{} 3\n", rest("success", "other"))), "{page}");
        assert!(page.contains(&format!("{} 2\n", rest("failure", ""))), "{page}");
    }
}
