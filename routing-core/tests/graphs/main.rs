//! Whatever plugins are thrown together: what builds runs, and what does not build says why and how to fix it.

mod data;
mod fix;
mod plugins;
mod truth;

use std::collections::BTreeSet;
use std::time::Instant;

use kv_index::{Config, Index};
use proptest::prelude::*;
use routing_core::{BuildError, DecideError, Fault, Fleet, PodInfo, Request, RoutingInput, RoutingPlan, Workflow};

use crate::data::Flow;

#[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
fn now() -> Instant {
    Instant::now()
}

fn fleet() -> Fleet {
    let index: Index = Index::new(Config::default());
    Fleet::new(1, ["a", "b", "c"].map(|name| PodInfo::new(index.join(name).expect("room for three"), name)))
}

/// A fault as what it says, apart from the order of two names and from hints.
fn key(fault: &Fault) -> String {
    match fault {
        Fault::SlotNameClash { slot, first, second } => {
            format!("clash of {slot}: {} and {}", first.min(second), first.max(second))
        }
        Fault::UnknownStep { reader, step, .. } => format!("{reader} reads unknown {step}"),
        other => format!("{other:?}"),
    }
}

fn keys<'f>(faults: impl IntoIterator<Item = &'f Fault>) -> BTreeSet<String> {
    faults.into_iter().map(key).collect()
}

/// Whether a fault is a broken order among plugins of a circle that is reported: fixing that comes first.
fn is_covered(fault: &Fault, reported: &[Fault]) -> bool {
    let (a, b) = match fault {
        Fault::WriterAfterReader { reader, writer, .. } => (reader, writer),
        Fault::OrderBroken { first, second, .. } => (first, second),
        _ => return false,
    };
    reported.iter().any(|other| matches!(other, Fault::Cycle { path } if path.contains(a) && path.contains(b)))
}

/// Every fault that is reported is there, and every fault that is there is reported.
fn reports_the_truth(flow: &Flow, error: Option<&BuildError>) -> Result<(), TestCaseError> {
    let reported = error.map_or(&[][..], BuildError::faults);
    let truth = truth::faults(flow);
    let (circles, plain): (Vec<_>, Vec<_>) = reported.iter().partition(|fault| matches!(fault, Fault::Cycle { .. }));
    let (said, there) = (keys(plain), keys(&truth));
    prop_assert!(said.is_subset(&there), "not there: {:#?}", &said - &there);
    let open = keys(truth.iter().filter(|fault| !is_covered(fault, reported)));
    prop_assert!(open.is_subset(&said), "not reported: {:#?}", &open - &said);
    circles_are_true(flow, &circles)
}

fn circles_are_true(flow: &Flow, circles: &[&Fault]) -> Result<(), TestCaseError> {
    let order = flow.in_order();
    let name = |at: usize| truth::name(flow, order[at]);
    let waits = truth::waits(flow);
    let mut reaches = vec![vec![false; order.len()]; order.len()];
    waits.iter().for_each(|(first, second)| reaches[*first][*second] = true);
    for via in 0..order.len() {
        for from in 0..order.len() {
            for to in 0..order.len() {
                reaches[from][to] |= reaches[from][via] && reaches[via][to];
            }
        }
    }
    let mut inside = BTreeSet::new();
    for circle in circles {
        let Fault::Cycle { path } = circle else { continue };
        prop_assert!(!path.is_empty());
        for (first, second) in path.iter().zip(path.iter().cycle().skip(1)) {
            let waits = waits.iter().any(|(a, b)| name(*a) == *first && name(*b) == *second);
            prop_assert!(waits, "{first} need not run before {second}");
        }
        inside.extend(path);
    }
    for at in (0..order.len()).filter(|at| reaches[*at][*at]) {
        prop_assert!(inside.contains(&name(at)), "{} waits for itself", name(at));
    }
    Ok(())
}

/// Decides with all conditions true, all false, and some of each.
fn runs(workflow: &Workflow, flow: &Flow) -> Result<(), TestCaseError> {
    let fleet = fleet();
    let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
    for seed in [u64::MAX, 0, 0x5555, 0xaaaa, 0x3333, 1, 2, 4] {
        let decided =
            workflow.decide(&mut workspace, RoutingInput::new(&Request::new("m", now()).seed(seed), &fleet), &mut plan);
        let taken = |at: usize| flow.steps[at].condition.is_none() || seed >> at & 1 == 1;
        let any = (0..flow.steps.len()).any(taken);
        prop_assert_eq!(&decided, &if any { Ok(()) } else { Err(DecideError::NoStepTaken) }, "seed {:x}", seed);
        let expected: Vec<_> = (0..flow.steps.len()).filter(|at| taken(*at)).map(|at| &*flow.steps[at].name).collect();
        let mut order = expected.clone();
        if let Some(executed) = &flow.executed {
            order.sort_by_key(|name| executed.iter().position(|other| other == name));
        }
        prop_assert_eq!(plan.steps().iter().map(|step| &*step.name).collect::<Vec<_>>(), order);
    }
    Ok(())
}

/// Whether a fault makes one name stand for two things.
fn is_ambiguity(fault: &Fault) -> bool {
    matches!(fault, Fault::DuplicatePlugin { .. } | Fault::DuplicateStep { .. } | Fault::SlotNameClash { .. })
}

/// How often a fault of this text is there.
fn count(error: &BuildError, fault: &Fault) -> usize {
    error.faults().iter().filter(|other| key(other) == key(fault)).count()
}

/// Rounds an operator follows the texts before they remove what is in the way, and rounds that must suffice.
const PATIENCE: usize = 100;
const ROUNDS: usize = 200;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Faults are reported all, and only those that are there; fixed one by one they go; what is left runs.
    #[test]
    fn what_builds_runs_and_what_does_not_can_be_mended(flow in data::flow(), which in any::<u64>()) {
        let mut flow = flow;
        let mut draw = which;
        for round in 0.. {
            prop_assert!(round < ROUNDS, "no end of faults: {flow:#?}");
            let error = match plugins::build(&flow) {
                Ok(workflow) => {
                    reports_the_truth(&flow, None)?;
                    runs(&workflow, &flow)?;
                    break;
                }
                Err(error) => error,
            };
            prop_assert!(!error.faults().is_empty());
            reports_the_truth(&flow, Some(&error))?;
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let fault = &error.faults()[(draw >> 33) as usize % error.faults().len()];
            if round >= PATIENCE {
                fix::give_up_on(&mut flow, fault);
                continue;
            }
            fix::fix(&mut flow, fault);
            // Where names are ambiguous a fix may hit the namesake.
            if error.faults().iter().any(is_ambiguity) && !is_ambiguity(fault) {
                continue;
            }
            if let Err(after) = plugins::build(&flow) {
                prop_assert!(count(&after, fault) < count(&error, fault), "still there: {fault}\n{flow:#?}");
            }
        }
    }
}
