//! Decision traces as JSON, with names in place of ids.
//!
//! A client gets them in a header, `x-pointsman-trace`: a header arrives before the first token and every client shows it,
//! while trailers are dropped by most clients and proxies. The price is a bound: what is longer than [`MAX_BYTES`] is
//! shortened and marked, since servers and proxies reject long headers.

use std::collections::BTreeMap;

use routing_core::flow::{FlowTrace, Waited};
use routing_core::{Fleet, StepTrace, Trace};
use serde::Serialize;

/// The trace of one step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepReasons {
    /// Its name.
    pub step: String,
    /// The first candidate; none if the step was skipped.
    pub picked: Option<String>,
    /// A summary.
    pub reason: String,
    /// Every candidate, or the best of them.
    pub pods: Vec<PodReasons>,
    /// How many were left out.
    #[serde(skip_serializing_if = "is_none")]
    pub left_out: usize,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// The trace of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PodReasons {
    /// Its name.
    pub name: String,
    /// The filter that removed it.
    pub removed_by: Option<String>,
    /// Its scores.
    pub scores: Vec<ScoreReason>,
    /// Its weighted total; none if it was removed.
    pub total: Option<f64>,
    /// Its rank from 1, if it was ranked.
    pub rank: Option<usize>,
}

/// One score.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScoreReason {
    /// The scorer.
    pub scorer: String,
    /// Its weight.
    pub weight: f64,
    /// The score.
    pub score: f64,
    /// What explains it: what was learned of the pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<&'static str, f64>,
}

/// What flow control did to a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FlowReasons {
    /// Its band.
    pub band: String,
    /// Its key.
    pub key: String,
    /// Why it waited: `no`, `saturated`, `behind` others, for room for its `program`, or for a pod that holds its prompt (`affinity`).
    pub waited: &'static str,
    /// How long.
    pub waited_ms: f64,
    /// Requests that waited when it came.
    pub ahead: usize,
    /// Why it was shed, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shed: Option<&'static str>,
    /// What its program's turn was decided by, where requests wait in the order of attained service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramReasons>,
}

/// Where a request stood by its program's attained service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProgramReasons {
    /// Tokens that its program was served.
    pub service: u64,
    /// The level of that.
    pub level: u32,
    /// Turns that follow it, as its client tells.
    pub remaining: u32,
    /// Whether it was the last of several of its program that waited.
    pub is_last: bool,
}

impl FlowReasons {
    pub(super) fn of(trace: &FlowTrace) -> Self {
        let waited = match trace.why {
            Waited::No => "no",
            Waited::Saturated => "saturated",
            Waited::Behind => "behind",
            Waited::Program => "program",
            _ => "affinity",
        };
        let (band, key) = (trace.band.to_string(), trace.key.to_string());
        let program = trace.program.map(|standing| ProgramReasons {
            service: standing.service,
            level: standing.level,
            remaining: standing.remaining,
            is_last: standing.is_last,
        });
        Self { band, key, waited, waited_ms: trace.waited.as_secs_f64() * 1e3, ahead: trace.ahead, shed: None, program }
    }
}

/// The trace of a decision.
pub(super) fn reasons(trace: &Trace, fleet: &Fleet) -> Vec<StepReasons> {
    trace.steps.iter().map(|step| step_reasons(step, fleet)).collect()
}

/// The trace as a header value of at most [`MAX_BYTES`].
///
/// Where they do not fit, pods of the lowest ranks are left out, then all scores; `shortened` says so.
pub(super) fn header(trace: &Trace, fleet: &Fleet) -> String {
    let flow = trace.flow.as_ref().map(FlowReasons::of);
    shortened(&reasons(trace, fleet), flow.as_ref())
}

/// The same of a request that was shed before anything was decided for good.
pub(super) fn shed_header(trace: &FlowTrace, why: &'static str) -> String {
    shortened(&[], Some(&FlowReasons { shed: Some(why), ..FlowReasons::of(trace) }))
}

fn shortened(steps: &[StepReasons], flow: Option<&FlowReasons>) -> String {
    let json = |steps: &[StepReasons]| {
        let mut json = serde_json::json!({ "steps": steps });
        if let Some(flow) = flow {
            json["flow"] = serde_json::json!(flow);
        }
        json
    };
    let whole = ascii(&json(steps).to_string());
    if whole.len() <= MAX_BYTES {
        return whole;
    }
    let mut short = steps.to_vec();
    for most in [16, 8, 4, 1, 0] {
        for step in &mut short {
            step.pods.retain(|pod| pod.rank.is_some() || most > 4);
            step.pods.sort_by_key(|pod| pod.rank.unwrap_or(usize::MAX));
            step.pods.truncate(most);
        }
        let mut text = json(&short);
        text["shortened"] = true.into();
        let text = ascii(&text.to_string());
        if text.len() <= MAX_BYTES {
            return text;
        }
    }
    r#"{"steps":[],"shortened":true}"#.to_owned()
}

/// Longest header value.
const MAX_BYTES: usize = 4096;

fn step_reasons(step: &StepTrace, fleet: &Fleet) -> StepReasons {
    let name = |pod| fleet.pod(pod).map_or_else(|| "?".to_owned(), |info| info.name.to_string());
    let picked = step.ranking.first().map(|pick| name(pick.pod));
    let pods = step.offered.iter().map(|pod| {
        let of = |list: &[(routing_core::PodId, f32)]| {
            list.iter().find(|(known, _)| *known == pod).map(|(_, score)| rounded(*score))
        };
        let removed = step.filters.iter().find(|filter| !filter.passed_over && filter.removed.contains(pod));
        let scores = step.scorers.iter().filter_map(|scorer| {
            let score = of(&scorer.scores)?;
            let figures =
                scorer.figures.iter().find(|(known, _)| *known == pod).into_iter().flat_map(|(_, figures)| figures);
            let figures = figures.map(|(name, value)| (*name, rounded(*value as f32))).collect();
            Some(ScoreReason { scorer: scorer.scorer.to_string(), weight: rounded(scorer.weight), score, figures })
        });
        PodReasons {
            name: name(pod),
            removed_by: removed.map(|filter| filter.filter.to_string()),
            scores: scores.collect(),
            total: of(&step.totals),
            rank: step.ranking.iter().position(|pick| pick.pod == pod).map(|at| at + 1),
        }
    });
    StepReasons { step: step.step.to_string(), pods: pods.collect(), left_out: 0, reason: reason(step), picked }
}

fn reason(step: &StepTrace) -> String {
    if !step.taken {
        return "left out: its condition says no".to_owned();
    }
    let Some(picker) = &step.picker else { return "no pod is left".to_owned() };
    let kept = step.totals.len();
    let passed: Vec<&str> =
        step.filters.iter().filter(|filter| filter.passed_over).map(|filter| &*filter.filter).collect();
    let passed = if passed.is_empty() { String::new() } else { format!(", {} passed over", passed.join(", ")) };
    let last = step.last_resort.len();
    let last = if last == 0 { String::new() } else { format!(", {last} tried last, as failing now and then") };
    format!("{picker} of {kept} of {} pods{passed}{last}", step.offered.len())
}

/// Three digits are enough to compare by.
fn rounded(score: f32) -> f64 {
    (f64::from(score) * 1000.0).round() / 1000.0
}

/// The same JSON in letters that a header may have.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() {
            text.push(letter);
        } else {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use kv_index::{BlockSize, Index};
    use routing_core::{PodInfo, Request, RoutingInput, RoutingPlan};
    use routing_plugins::{Hashing, PluginState, profiles};

    use super::*;

    fn decided(pods: usize, name: &str) -> Vec<StepReasons> {
        let index: Arc<Index> = Arc::new(Index::new(kv_index::Config::default()));
        let plugin_state = PluginState::new(Arc::clone(&index), Hashing::Native(BlockSize::new(16).unwrap()));
        let infos: Vec<PodInfo> = (0..pods)
            .map(|at| {
                let pod = format!("{name}-{at}");
                let info = PodInfo::new(index.join(&pod).unwrap(), &pod);
                if at == 0 { info.unhealthy() } else { info }
            })
            .collect();
        let fleet = Fleet::new(1, infos);
        let workflow = profiles::cache_aware(&plugin_state).build().unwrap();
        let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
        let tokens: Vec<u32> = (0..64).collect();
        let request = Request::new("m", Instant::now()).tokens(&tokens);
        workflow
            .decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet).traced(&mut trace), &mut plan)
            .unwrap();
        reasons(&trace, &fleet)
    }

    #[test]
    fn reasons_name_pods_filters_and_scorers() {
        let steps = decided(3, "pod");
        let [step] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!(step.pods[0].removed_by.as_deref(), Some("health"));
        assert_eq!(step.pods[0].total, None);
        let first = step.pods.iter().find(|pod| pod.rank == Some(1)).unwrap();
        assert_eq!(step.picked.as_ref(), Some(&first.name));
        assert_eq!(first.scores.iter().map(|score| &*score.scorer).collect::<Vec<_>>(), ["cache", "load", "kv"]);
        assert_eq!(step.reason, "best of 2 of 3 pods");
    }

    #[test]
    fn a_header_is_bounded_and_says_so() {
        let steps = decided(3, "pod");
        let json: serde_json::Value = serde_json::from_str(&shortened(&steps, None)).unwrap();
        assert_eq!((json["steps"][0]["pods"].as_array().map(Vec::len), json.get("shortened")), (Some(3), None));
        let steps = decided(200, "pöd");
        let text = shortened(&steps, None);
        assert!(text.len() <= MAX_BYTES && text.is_ascii());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["shortened"], true);
        assert_eq!(json["steps"][0]["picked"], *steps[0].picked.as_ref().unwrap());
        assert_eq!(json["steps"][0]["pods"][0]["rank"], 1, "the best are kept");
        assert!(shortened(&decided(3, &"x".repeat(5000)), None).len() <= MAX_BYTES);
    }
}
