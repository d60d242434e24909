//! Every fault of what is built in code has a path.

use routing_core::{Fault, OnEmpty, ProfileBuilder, StepBuilder, WorkflowBuilder};

use crate::common::Best;
use crate::{profile, reads_a, step, that, writes_a};

fn paths(workflow: WorkflowBuilder) -> Vec<(String, Fault)> {
    let error = workflow.build().expect_err("it has faults");
    assert!(error.to_string().contains(&format!("\n  - {}: ", error.placed().next().expect("a fault").0)));
    error.placed().map(|(path, fault)| (path.to_string(), fault.clone())).collect()
}

#[test]
fn every_fault_tells_where_it_is() {
    let first = profile()
        .preparer("w", that(writes_a))
        .preparer("w", that(writes_a))
        .scorer("good", 1.0, that(|_| {}))
        .scorer("bad", f64::NAN, that(|_| {}))
        .picker("second", Best::declare);
    let second = <ProfileBuilder>::new("t").filter("reads", OnEmpty::Fail, that(|d| d.requires("nobody")));
    let second = StepBuilder::new("t", second).when(
        "when",
        that(|d| {
            let _ = d.reads_pick("nowhere");
        }),
    );
    let third = step("s", profile().recorder("late", that(reads_a)).scorer("none", 0.0, that(|_| {})));
    let workflow = WorkflowBuilder::new().step(step("s", first)).step(second).step(third);
    let found = paths(workflow.executed_in(&["s", "s", "x"]));
    let expected = [
        "steps[2].name",
        "steps[0].prepare[1]",
        "steps[0].pick[1]",
        "steps[0].score[1].weight",
        "steps[1].pick",
        "steps[2].score",
        "steps[0].prepare[1]",
        "steps[1].filter[0]",
        "steps[1].when",
        "executed_in",
        "executed_in[2]",
    ];
    assert_eq!(found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), expected, "{found:#?}");
    assert_eq!(paths(WorkflowBuilder::new()), [("steps".to_owned(), Fault::NoStep)]);
}
