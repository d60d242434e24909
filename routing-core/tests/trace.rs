//! A decision's reasons, as data and as a table.

mod common;

use common::{Best, By, Keep, fleet, request};
use kv_index::{PodId, PodSet};
use routing_core::{
    Condition, DecideError, Declare, OnEmpty, PluginError, ProfileBuilder, RoutingContext, RoutingInput, RoutingPlan,
    Scorer, Scores, StepBuilder, Trace, Workflow, WorkflowBuilder,
};

struct Never;

impl Condition for Never {
    fn holds(&self, _: &RoutingContext<'_>) -> Result<bool, PluginError> {
        Ok(false)
    }
}

/// Explains the pods with odd ids.
struct Odd;

impl Scorer for Odd {
    fn score(&self, _: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.set_all(scores.candidates(), 1.0);
        Ok(())
    }

    fn explain(&self, _: &RoutingContext<'_>, pod: PodId) -> Vec<(&'static str, f64)> {
        if pod.index() % 2 == 1 { vec![("odd", pod.index() as f64)] } else { Vec::new() }
    }
}

#[test]
fn a_scorer_explains_candidates_of_traced_decisions() {
    let profile = ProfileBuilder::new("").scorer("odd", 1.0, |_: &mut Declare<'_>| Odd).picker("best", Best::declare);
    let workflow = WorkflowBuilder::new().step(StepBuilder::new("decode", profile)).build().expect("it fits together");
    let ((_, fleet), mut plan, mut trace) = (fleet(4), RoutingPlan::default(), Trace::default());
    workflow
        .decide(&mut workflow.workspace(), RoutingInput::new(&request(), &fleet).traced(&mut trace), &mut plan)
        .expect("a plan");
    let figures = &trace.steps[0].scorers[0].figures;
    assert_eq!(*figures, [1, 3].map(|pod| (PodId::new(pod), vec![("odd", f64::from(pod))])));
    let table = trace.table(&fleet).to_string();
    assert!(
        table.lines().filter(|line| line.contains("odd=")).count() == 2 && table.contains("odd=3.000\n"),
        "{table}"
    );
}

fn workflow() -> Workflow {
    let without = |pod: u16| move |pods: PodSet| pods.iter().filter(|other| *other != PodId::new(pod)).collect();
    let profile = ProfileBuilder::new("")
        .filter("not-1", OnEmpty::Fail, move |_: &mut Declare<'_>| Keep(without(1)))
        .filter("nobody", OnEmpty::KeepPrevious, |_: &mut Declare<'_>| Keep(|_: PodSet| PodSet::EMPTY))
        .scorer("up", 3.0, |_: &mut Declare<'_>| By(|pod| pod as f32 / 4.0))
        .scorer("high", 1.0, |_: &mut Declare<'_>| By(|pod| if pod == 0 { 9.0 } else { 0.0 }))
        .picker("best", Best::declare);
    let skipped = ProfileBuilder::new("").picker("best", Best::declare);
    WorkflowBuilder::new()
        .step(StepBuilder::new("decode", profile))
        .step(StepBuilder::new("prefill", skipped).when("never", |_: &mut Declare<'_>| Never))
        .build()
        .expect("it fits together")
}

fn traced() -> (RoutingPlan, Trace) {
    let (workflow, (_, fleet)) = (workflow(), fleet(5));
    let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
    workflow
        .decide(&mut workflow.workspace(), RoutingInput::new(&request(), &fleet).traced(&mut trace), &mut plan)
        .expect("a plan");
    (plan, trace)
}

#[test]
fn a_trace_has_removals_rows_weights_totals_and_the_ranking() {
    let (plan, trace) = traced();
    assert_eq!((trace.fleet, trace.steps.len()), (1, 2));
    let step = &trace.steps[0];
    assert_eq!((&*step.step, step.taken, step.offered.len()), ("decode", true, 5));
    let filters: Vec<_> = step.filters.iter().map(|f| (&*f.filter, f.removed.len(), f.passed_over)).collect();
    assert_eq!(filters, [("not-1", 1, false), ("nobody", 4, true)]);
    assert!(step.filters[0].removed.contains(PodId::new(1)));
    let scorers: Vec<_> = step.scorers.iter().map(|s| (&*s.scorer, s.weight)).collect();
    assert_eq!(scorers, [("up", 0.75), ("high", 0.25)]);
    let row = |list: &[(PodId, f32)]| list.iter().map(|(pod, score)| (pod.index(), *score)).collect::<Vec<_>>();
    assert_eq!(row(&step.scorers[0].scores), [(0, 0.0), (2, 0.5), (3, 0.75), (4, 1.0)]);
    assert_eq!(row(&step.scorers[1].scores), [(0, 1.0), (2, 0.0), (3, 0.0), (4, 0.0)], "as they counted");
    assert_eq!(row(&step.totals), [(0, 0.25), (2, 0.375), (3, 0.5625), (4, 0.75)]);
    assert_eq!(step.picker.as_deref(), Some("best"));
    let ranking: Vec<_> = step.ranking.iter().map(|pick| (pick.pod.index(), pick.score)).collect();
    assert_eq!(ranking, [(4, 0.75), (3, 0.5625), (2, 0.375)]);
    let planned: Vec<_> = plan.steps()[0].candidates.iter().map(|c| (c.pod.id().index(), c.score)).collect();
    assert_eq!(planned, ranking);
    assert!(!trace.steps[1].taken);
}

#[test]
fn an_operator_can_read_why_a_pod_won() {
    let (_, trace) = traced();
    let (_, fleet) = fleet(5);
    let expected = "\
step decode on fleet 1, 5 pods offered
  filter nobody wanted nobody left, and was passed over
  pod                         up×0.75      high×0.25    total  rank
  pod-0                         0.000          1.000   0.2500
  pod-1                removed by not-1
  pod-2                         0.500          0.000   0.3750     3
  pod-3                         0.750          0.000   0.5625     2
  pod-4                         1.000          0.000   0.7500     1
step prefill: skipped
";
    assert_eq!(trace.table(&fleet).to_string(), expected);
}

#[test]
fn a_trace_ends_where_the_decision_did() {
    let (_, fleet) = fleet(2);
    let workflow = ProfileBuilder::new("s")
        .filter("nobody", OnEmpty::Fail, |_: &mut Declare<'_>| Keep(|_: PodSet| PodSet::EMPTY))
        .scorer("up", 1.0, |_: &mut Declare<'_>| By(|_| 1.0))
        .picker("best", Best::declare)
        .build()
        .unwrap();
    let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
    let decided =
        workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request(), &fleet).traced(&mut trace), &mut plan);
    assert!(matches!(decided, Err(DecideError::AllFiltered { offered: 2, .. })));
    let step = &trace.steps[0];
    assert_eq!((step.filters.len(), step.filters[0].removed.len(), step.scorers.len()), (1, 2, 0));
    assert_eq!(step.picker, None);
}
