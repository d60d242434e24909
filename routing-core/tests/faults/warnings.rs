//! Each warning, with its path; and strict builds, where warnings are faults.

use routing_core::{
    FailurePolicy, Fault, Memory, OnEmpty, PlanStep, PluginError, ProfileBuilder, Recorder, Role, RoutingContext,
    Warning, Workflow, WorkflowBuilder,
};

use crate::common::plugin;
use crate::{Idle, health, step, that};

struct Sent;

impl Memory for Sent {
    type Terms = u32;
    const NAME: &'static str = "work that was sent";
}

impl Recorder for Idle {
    fn record(&self, _: &RoutingContext<'_>, _: &PlanStep) -> Result<(), PluginError> {
        Ok(())
    }
}

/// A profile that nothing is to be said of.
fn sound() -> ProfileBuilder {
    crate::profile().filter("health", OnEmpty::Fail, health)
}

fn warnings(workflow: &Workflow) -> Vec<(String, Warning)> {
    workflow.placed_warnings().map(|(path, warning)| (path.to_string(), warning.clone())).collect()
}

/// This warning alone, there; and the same as a fault of a strict build.
fn alone(build: impl Fn() -> WorkflowBuilder, path: &str, warning: Warning, text: &str) {
    assert_eq!(warning.to_string(), text);
    assert_eq!(warnings(&build().build().expect("it works")), [(path.to_owned(), warning.clone())]);
    let error = build().build_strict().expect_err("it is strict");
    let faults: Vec<_> = error.placed().map(|(path, fault)| (path.to_string(), fault.clone())).collect();
    assert_eq!(faults, [(path.to_owned(), Fault::Warning(warning))]);
}

fn one(profile: impl Fn() -> ProfileBuilder) -> impl Fn() -> WorkflowBuilder {
    move || WorkflowBuilder::new().step(step("s", profile()))
}

#[test]
fn what_is_sound_builds_strictly() {
    let prefills = || sound().filter("role", OnEmpty::Fail, that(|d| d.filters_role(Role::Prefill)));
    let decodes = || sound().filter("role", OnEmpty::Fail, that(|d| d.filters_role(Role::Decode)));
    let workflow = WorkflowBuilder::new()
        .step(step("decode", decodes()).role(Role::Decode))
        .step(step("prefill", prefills()).role(Role::Prefill).on_failure(FailurePolicy::Skip))
        .executed_in(&["prefill", "decode"]);
    assert_eq!(warnings(&workflow.build_strict().expect("nothing is to be said")), []);
    let recorded =
        sound().scorer("by", 1.0, that(|d| d.recalls::<Sent>(3))).recorder("n", that(|d| d.records::<Sent>(3)));
    assert!(recorded.build_strict().is_ok());
}

#[test]
fn a_role_without_a_filter() {
    let warning = Warning::RoleNotFiltered { step: "s".into(), role: Role::Prefill };
    let text = "step `s` is to prefill, and no filter leaves out pods that do not: add a role filter";
    let other = || sound().filter("role", OnEmpty::Fail, that(|d| d.filters_role(Role::Decode)));
    let build = move || WorkflowBuilder::new().step(step("s", other()).role(Role::Prefill));
    alone(build, "steps[0].role", warning, text);
}

#[test]
fn no_filter_for_health() {
    let text = "step `s` has no filter for health: add one, or requests go to pods that are known to be ill";
    alone(one(crate::profile), "steps[0].filter", Warning::NoHealthFilter { step: "s".into() }, text);
}

#[test]
fn decode_before_prefill() {
    let filtered = |role| match role {
        Role::Prefill => sound().filter("role", OnEmpty::Fail, that(|d| d.filters_role(Role::Prefill))),
        _ => sound().filter("role", OnEmpty::Fail, that(|d| d.filters_role(Role::Decode))),
    };
    let build = move || {
        let of = |name, role| step(name, filtered(role)).role(role);
        WorkflowBuilder::new().step(of("d", Role::Decode)).step(of("p", Role::Prefill))
    };
    let warning = Warning::DecodeBeforePrefill { decode: "d".into(), prefill: "p".into() };
    alone(build, "steps[0].role", warning, "step `d` decodes before step `p` prefills: execute `p` first");
    assert_eq!(warnings(&build().executed_in(&["p", "d"]).build().expect("it works")), []);
}

#[test]
fn skipping_the_last_step() {
    let build = || WorkflowBuilder::new().step(step("s", sound()).on_failure(FailurePolicy::Skip));
    let text = "step `s` is to be skipped when it fails, but is executed last, and nothing is answered without it: \
                choose another failure policy";
    alone(build, "steps[0].on_failure", Warning::SkipOnLastStep { step: "s".into() }, text);
}

#[test]
fn scores_that_are_ignored() {
    let profile = || {
        let profile = ProfileBuilder::new("s").filter("health", OnEmpty::Fail, health);
        profile.scorer("by", 1.0, that(|_| {})).picker("turn", that(|d| d.ignores_scores()))
    };
    let text = "`s/turn` does not look at scores, and its step has 1 scorer: remove it, or take another picker";
    let warning = Warning::ScoresIgnored { picker: plugin("s", "turn"), scorers: 1 };
    alone(one(profile), "steps[0].score", warning, text);
}

#[test]
fn what_is_recalled_and_not_recorded() {
    let reader = plugin("s", "by");
    let profile = || sound().scorer("by", 1.0, that(|d| d.recalls::<Sent>(3)));
    let warning = Warning::NeverRecorded { reader: reader.clone(), memory: "work that was sent" };
    let text = "`s/by` goes by the work that was sent, which nothing records: add a recorder of it";
    alone(one(profile), "steps[0].score[0]", warning, text);

    let profile = move || profile().recorder("notes", that(|d| d.records::<Sent>(4)));
    let recorder = plugin("s", "notes");
    let warning = Warning::OtherTerms { reader, recorder, memory: "work that was sent" };
    let text =
        "`s/by` goes by the work that was sent, which `s/notes` records by other terms: give both the same parameters";
    alone(one(profile), "steps[0].score[0]", warning, text);
}

#[test]
fn empty_names() {
    let build = || WorkflowBuilder::new().step(step("", sound()));
    alone(build, "steps[0].name", Warning::EmptyName { what: "step" }, "the name of a step is empty: give it one");
    let profile = || sound().scorer("", 1.0, that(|_| {}));
    let text = "the name of a scorer is empty: give it one";
    alone(one(profile), "steps[0].score[0]", Warning::EmptyName { what: "scorer" }, text);
}
