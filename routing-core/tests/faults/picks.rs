//! Faults of plugins that read what another step picked.

use routing_core::{Declare, Fault, WorkflowBuilder};

use crate::common::plugin;
use crate::{profile, refused, step, that};

fn reads_pick_of_decode(d: &mut Declare<'_>) {
    d.reads_pick("decode");
}

#[test]
fn the_pick_of_a_step_that_there_is_not() {
    refused(
        WorkflowBuilder::new()
            .step(step("decoed", profile()))
            .step(step("prefill", profile().scorer("near", 1.0, that(reads_pick_of_decode)))),
        Fault::UnknownStep {
            reader: plugin("prefill", "near"),
            step: "decode".into(),
            suggestion: Some("decoed".into()),
        },
        "`prefill/near` reads the pick of step `decode`, which there is not (did you mean `decoed`?): \
         name a step that is decided before",
    );
}

#[test]
fn the_pick_of_a_step_that_comes_later() {
    refused(
        WorkflowBuilder::new()
            .step(step("prefill", profile().scorer("near", 1.0, that(reads_pick_of_decode))))
            .step(step("decode", profile())),
        Fault::PickNotYet { reader: plugin("prefill", "near"), step: "decode".into() },
        "`prefill/near` reads the pick of step `decode`, which is not decided by then: \
         decide `decode` in an earlier step, or do not read it",
    );
}

#[test]
fn the_pick_of_a_step_that_may_be_skipped() {
    refused(
        WorkflowBuilder::new()
            .step(step("decode", profile()).when("if", that(|_| {})))
            .step(step("prefill", profile().scorer("near", 1.0, that(reads_pick_of_decode)))),
        Fault::PickMayBeMissing { reader: plugin("prefill", "near"), step: "decode".into() },
        "`prefill/near` relies on the pick of step `decode`, which may be skipped: read it optionally",
    );
}

#[test]
fn an_independent_step_that_reads_a_pick() {
    let tries = |d: &mut Declare<'_>| {
        d.tries_pick("decode");
    };
    refused(
        WorkflowBuilder::new()
            .step(step("decode", profile()).when("if", that(|_| {})))
            .step(step("prefill", profile().scorer("near", 1.0, that(tries))).independent()),
        Fault::NotIndependent { reader: plugin("prefill", "near"), step: "decode".into() },
        "step `prefill` is marked as independent, but `prefill/near` reads the pick of `decode`: remove the mark",
    );
}

/// Recorders run when all steps are decided.
#[test]
fn a_recorder_reads_the_pick_of_a_step_that_comes_later() {
    let with = |reads: fn(&mut Declare<'_>), conditional: bool| {
        let decode = step("decode", profile());
        WorkflowBuilder::new().step(step("prefill", profile().recorder("sent", that(reads)))).step(if conditional {
            decode.when("if", that(|_| {}))
        } else {
            decode
        })
    };
    let tries: fn(&mut Declare<'_>) = |d| {
        d.tries_pick("decode");
    };
    let relies: fn(&mut Declare<'_>) = |d| {
        d.reads_pick("decode");
    };
    assert!(with(relies, false).build().is_ok() && with(tries, true).build().is_ok());
    refused(
        with(relies, true),
        Fault::PickMayBeMissing { reader: plugin("prefill", "sent"), step: "decode".into() },
        "`prefill/sent` relies on the pick of step `decode`, which may be skipped: read it optionally",
    );
}
