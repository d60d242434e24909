//! Requests under llm-d's names: those of today (`llm_d_epp_…`), and those of the Gateway API inference extension that llm-d writes
//! beside them (`inference_objective_…`), which have fewer labels.

use std::collections::BTreeMap;

use super::histogram::Histogram;
use super::page::{Labels, Page};
use super::requests::{RequestLabels, Series};

/// A family, by both of its names.
struct Family {
    older: Option<(&'static str, By)>,
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Samples,
}

/// What a family has of a series.
enum Samples {
    One(fn(&Series) -> f64),
    Histogram(fn(&Series) -> &Histogram),
    /// By the code of an error.
    Errors,
    /// By whether answers are streamed.
    FirstToken,
}

/// The labels that tell samples apart.
#[derive(Clone, Copy)]
enum By {
    Model,
    Target,
    Priority,
    Fairness,
}

pub(super) fn write(page: &mut Page, all: &[(RequestLabels, Series)]) {
    for family in families() {
        let names = family.older.into_iter().chain([(family.name, By::Fairness)]);
        for (name, by) in names {
            page.family(name, family.kind, family.help);
            for (labels, series) in grouped(all, by) {
                let priority = labels.priority.to_string();
                family.samples.write(page, name, &by.labels(&labels, &priority), &series);
            }
        }
    }
}

/// Series by labels of which some are left out.
fn grouped(all: &[(RequestLabels, Series)], by: By) -> BTreeMap<RequestLabels, Series> {
    let mut grouped = BTreeMap::<_, Series>::new();
    for (labels, series) in all {
        grouped.entry(by.of(labels)).or_default().add(series);
    }
    grouped
}

impl By {
    /// What stays of labels.
    fn of(self, labels: &RequestLabels) -> RequestLabels {
        let RequestLabels { model, target, fairness, priority } = labels.clone();
        match self {
            Self::Model => RequestLabels { model, ..RequestLabels::default() },
            Self::Target => RequestLabels { model, target, ..RequestLabels::default() },
            Self::Priority => RequestLabels { model, target, priority, ..RequestLabels::default() },
            Self::Fairness => RequestLabels { model, target, fairness, priority },
        }
    }

    fn labels<'l>(self, labels: &'l RequestLabels, priority: &'l str) -> Vec<(&'l str, &'l str)> {
        let all = [
            ("model_name", &*labels.model),
            ("target_model_name", &*labels.target),
            ("priority", priority),
            ("fairness_id", &*labels.fairness),
        ];
        let most = match self {
            Self::Model => 1,
            Self::Target => 2,
            Self::Priority => 3,
            Self::Fairness => 4,
        };
        all.into_iter().take(most).collect()
    }
}

impl Samples {
    fn write(&self, page: &mut Page, name: &str, labels: Labels<'_>, series: &Series) {
        match self {
            Self::One(value) => page.sample(name, labels, value(series)),
            Self::Histogram(of) => page.histogram(name, labels, of(series)),
            Self::Errors => {
                for (code, count) in &series.errors {
                    page.sample(name, &[labels, &[("error_code", code)]].concat(), *count as f64);
                }
            }
            Self::FirstToken => {
                let kinds = ["true", "false"].into_iter().zip(&series.first_token);
                for (streaming, histogram) in kinds.filter(|(_, histogram)| histogram.count() > 0) {
                    page.histogram(name, &[labels, &[("streaming", streaming)]].concat(), histogram);
                }
            }
        }
    }
}

fn histogram(
    older: Option<&'static str>,
    name: &'static str,
    help: &'static str,
    of: fn(&Series) -> &Histogram,
) -> Family {
    let older = older.map(|older| (older, By::Target));
    Family { older, name, kind: "histogram", help, samples: Samples::Histogram(of) }
}

fn families() -> [Family; 12] {
    [
        Family {
            older: Some(("inference_objective_request_total", By::Priority)),
            name: "llm_d_epp_request_total",
            kind: "counter",
            help: "Requests that were sent on.",
            samples: Samples::One(|series| series.requests as f64),
        },
        Family {
            older: Some(("inference_objective_request_error_total", By::Target)),
            name: "llm_d_epp_request_error_total",
            kind: "counter",
            help: "Requests that were refused, or that a pod failed.",
            samples: Samples::Errors,
        },
        Family {
            older: Some(("inference_objective_running_requests", By::Model)),
            name: "llm_d_epp_request_running",
            kind: "gauge",
            help: "Requests that were sent on and have not ended.",
            samples: Samples::One(|series| series.running as f64),
        },
        histogram(
            Some("inference_objective_request_duration_seconds"),
            "llm_d_epp_request_duration_seconds",
            "From a request's headers to the end of its answer.",
            |series| &series.duration,
        ),
        histogram(
            Some("inference_objective_request_sizes"),
            "llm_d_epp_request_size_bytes",
            "Bytes of requests' bodies.",
            |series| &series.request_bytes,
        ),
        histogram(
            Some("inference_objective_response_sizes"),
            "llm_d_epp_response_size_bytes",
            "Bytes of answers' bodies.",
            |series| &series.response_bytes,
        ),
        histogram(
            Some("inference_objective_input_tokens"),
            "llm_d_epp_request_input_tokens",
            "Tokens of prompts, as answers tell them.",
            |series| &series.input_tokens,
        ),
        histogram(
            Some("inference_objective_output_tokens"),
            "llm_d_epp_request_output_tokens",
            "Tokens of answers, as they tell them.",
            |series| &series.output_tokens,
        ),
        histogram(
            Some("inference_objective_prompt_cached_tokens"),
            "llm_d_epp_request_cached_tokens",
            "Tokens of prompts that were cached, as answers tell them.",
            |series| &series.cached_tokens,
        ),
        histogram(
            Some("inference_objective_normalized_time_per_output_token_seconds"),
            "llm_d_epp_request_ntpot_seconds",
            "Duration by tokens of the answer.",
            |series| &series.time_per_token,
        ),
        histogram(
            None,
            "llm_d_epp_request_streaming_tpot_seconds",
            "Time of a token after the first, of answers that are streamed.",
            |series| &series.streaming_time_per_token,
        ),
        Family {
            older: None,
            name: "llm_d_epp_request_ttft_seconds",
            kind: "histogram",
            help: "From a request's headers to the first of its answer's body.",
            samples: Samples::FirstToken,
        },
    ]
}
