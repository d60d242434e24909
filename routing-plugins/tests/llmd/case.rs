//! A case, and small fleets to run it on.

use std::sync::Arc;
use std::time::Instant;

use kv_index::{Config, Index, PodId};
use routing_core::{Fleet, PodInfo, ProfileBuilder, Request, RoutingInput, RoutingPlan, Selector, Trace};
use serde_json::Value;

/// One case: what a plugin is given and what it answers.
#[derive(Clone, Debug, serde::Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) plugin: String,
    pub(crate) kind: String,
    pub(crate) params: Value,
    pub(crate) input: Value,
    pub(crate) expected: Value,
    #[serde(default = "exact")]
    pub(crate) tolerance: f64,
}

fn exact() -> f64 {
    1e-6
}

impl Case {
    /// Whether it asks only if parameters are taken or refused.
    pub(crate) fn is_of_parameters(&self) -> bool {
        self.kind == "config" || self.expected["error"].is_boolean()
    }
}

/// What came of a case.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// It is of a plugin that another module stands for.
    NotMine,
    Passed,
    Failed(String),
}

impl Verdict {
    /// Passed, or failed with a reason.
    pub(crate) fn of(result: Result<(), String>) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Passed)
    }
}

pub(crate) fn read(text: &str) -> Vec<Case> {
    let mut file: Value = serde_json::from_str(text).expect("a file of cases");
    let cases: Vec<Case> = serde_json::from_value(file["cases"].take()).expect("cases");
    assert_eq!(Some(cases.len() as u64), file["count"].as_u64(), "every case that the file counts");
    cases
}

/// A file of the same form in the folder that `POINTSMAN_VECTORS` names, if it does.
#[expect(clippy::disallowed_methods, reason = "a test is configured by its environment")]
pub(crate) fn further(name: &str) -> Option<String> {
    let folder = std::env::var_os("POINTSMAN_VECTORS")?;
    std::fs::read_to_string(std::path::Path::new(&folder).join(name)).ok()
}

/// A fleet of so many pods, `pod-0` on, each as `info` makes it.
pub(crate) fn fleet(pods: usize, info: impl Fn(usize, PodInfo) -> PodInfo) -> (Arc<Index>, Fleet) {
    let index: Arc<Index> = Arc::new(Index::new(Config::default()));
    let infos = (0..pods).map(|at| {
        let name = format!("pod-{at}");
        info(at, PodInfo::new(index.join(&name).expect("room"), &name))
    });
    let fleet = Fleet::new(1, infos.collect::<Vec<_>>());
    (index, fleet)
}

#[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
pub(crate) fn request() -> Request<'static> {
    Request::new("m", Instant::now())
}

/// Decides by a profile and returns why.
pub(crate) fn trace(
    profile: ProfileBuilder,
    request: &Request<'_>,
    fleet: &Fleet,
) -> Result<(Selector, RoutingPlan, Trace), String> {
    let workflow = profile.build().map_err(|error| error.to_string())?;
    let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
    workflow
        .decide(&mut workflow.workspace(), RoutingInput::new(request, fleet).traced(&mut trace), &mut plan)
        .map_err(|error| error.to_string())?;
    Ok((workflow, plan, trace))
}

/// The scores that the first scorer of a trace gave, by pod.
pub(crate) fn scores(trace: &Trace) -> Vec<f64> {
    let scorer = &trace.steps[0].scorers[0];
    let mut scores = vec![0.0; scorer.scores.iter().map(|(pod, _)| pod.index() + 1).max().unwrap_or_default()];
    scorer.scores.iter().for_each(|(pod, score): &(PodId, f32)| scores[pod.index()] = f64::from(*score));
    scores
}

/// Whether numbers are as expected.
pub(crate) fn close(found: &[f64], expected: &Value, tolerance: f64) -> Result<(), String> {
    let expected: Option<Vec<f64>> = expected.as_array().and_then(|list| list.iter().map(Value::as_f64).collect());
    let expected = expected.ok_or("unknown: no list of numbers is expected")?;
    // Ours are singles.
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance.max(1e-6);
    let equal = found.len() == expected.len() && found.iter().zip(&expected).all(near);
    if equal { Ok(()) } else { Err(format!("found {found:?}, expected {expected:?}")) }
}
