//! Each fault and each warning: its exact value, and a text that names plugins, slot and fix.

#[path = "../common/mod.rs"]
mod common;
mod paths;
mod picks;
mod warnings;

use common::{Best, plugin};
use kv_index::PodSet;
use routing_core::{
    Condition, Declare, Fault, Filter, OnEmpty, Picker, PluginError, PrepareContext, Preparer, ProfileBuilder, Ranking,
    RoutingContext, Scorer, Scores, Slot, StepBuilder, Totals, Warning, WorkflowBuilder,
};

struct A;
struct B;
struct FalseA;

impl Slot for A {
    type Value = u64;
    const NAME: &'static str = "slot.a";
}

impl Slot for B {
    type Value = u64;
    const NAME: &'static str = "slot.b";
}

impl Slot for FalseA {
    type Value = u64;
    const NAME: &'static str = "slot.a";
}

/// A plugin of every stage that does nothing: only what is declared matters here.
struct Idle;

impl Preparer for Idle {
    fn prepare(&self, _: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

impl Filter for Idle {
    fn filter(&self, _: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
        Ok(candidates)
    }
}

impl Scorer for Idle {
    fn score(&self, _: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

impl Picker for Idle {
    fn pick(&self, _: &RoutingContext<'_>, _: &Totals<'_>, _: &mut Ranking) -> Result<(), PluginError> {
        Ok(())
    }
}

impl Condition for Idle {
    fn holds(&self, _: &RoutingContext<'_>) -> Result<bool, PluginError> {
        Ok(true)
    }
}

/// A filter for health, so that a step is warned of nothing else.
fn health(declare: &mut Declare<'_>) -> Idle {
    declare.filters_health();
    Idle
}

/// A plugin that declares so much.
fn that(declare: fn(&mut Declare<'_>)) -> impl FnOnce(&mut Declare<'_>) -> Idle + Send + 'static {
    move |d| {
        declare(d);
        Idle
    }
}

fn reads_a(d: &mut Declare<'_>) {
    d.reads::<A>();
}

fn tries_a(d: &mut Declare<'_>) {
    d.tries::<A>();
}

fn writes_a(d: &mut Declare<'_>) {
    d.writes::<A>();
}

fn profile() -> ProfileBuilder {
    ProfileBuilder::new("s").picker("best", Best::declare)
}

fn step(name: &str, profile: ProfileBuilder) -> StepBuilder {
    StepBuilder::new(name, profile)
}

/// This fault, alone, in these words.
#[track_caller]
fn refused(workflow: WorkflowBuilder, fault: Fault, text: &str) {
    let error = workflow.build().expect_err("it has a fault");
    assert_eq!(error.faults(), [fault]);
    let (path, _) = error.placed().next().expect("it has a path");
    assert!(!path.is_whole());
    assert_eq!(error.to_string(), format!("1 fault\n  - {path}: {text}"));
}

#[track_caller]
fn profile_refused(profile: ProfileBuilder, fault: Fault, text: &str) {
    refused(WorkflowBuilder::new().step(step("s", profile)), fault, text);
}

#[test]
fn a_slot_that_nothing_writes() {
    profile_refused(
        profile().scorer("near", 1.0, that(reads_a)),
        Fault::NoWriter { reader: plugin("s", "near"), slot: "slot.a" },
        "`s/near` reads slot `slot.a`, which nothing writes: add a preparer that writes it before `s/near`",
    );
}

#[test]
fn a_writer_after_its_reader() {
    profile_refused(
        profile().preparer("late", that(reads_a)).preparer("early", that(writes_a)),
        Fault::WriterAfterReader { reader: plugin("s", "late"), writer: plugin("s", "early"), slot: "slot.a" },
        "`s/late` reads slot `slot.a` before `s/early` writes it: move `s/early` before `s/late`",
    );
}

#[test]
fn an_optional_read_before_the_writer_is_a_fault_too() {
    let (reader, writer) = (plugin("s", "late"), plugin("s", "early"));
    profile_refused(
        profile().preparer("late", that(tries_a)).preparer("early", that(writes_a)),
        Fault::WriterAfterReader { reader, writer, slot: "slot.a" },
        "`s/late` reads slot `slot.a` before `s/early` writes it: move `s/early` before `s/late`",
    );
}

#[test]
fn a_writer_in_a_step_that_may_be_skipped() {
    let conditional = step("s", profile().preparer("w", that(writes_a))).when("if", that(|_| {}));
    refused(
        WorkflowBuilder::new().step(conditional).step(step("t", profile().scorer("near", 1.0, that(reads_a)))),
        Fault::WriterMayBeSkipped { reader: plugin("t", "near"), writer: plugin("s", "w"), slot: "slot.a" },
        "`t/near` reads slot `slot.a`, which only `s/w` writes, in a step that may be skipped: \
         move `s/w` to an unconditional step, or read it optionally",
    );
}

#[test]
fn a_writer_that_may_be_skipped_is_no_fault_beside_one_that_may_not() {
    let conditional = step("s", profile().preparer("w", that(writes_a))).when("if", that(|_| {}));
    let sure = step("t", profile().preparer("w", that(writes_a)).scorer("near", 1.0, that(reads_a)));
    refused(
        WorkflowBuilder::new().step(conditional).step(sure),
        Fault::TwoWriters { slot: "slot.a", first: plugin("s", "w"), second: plugin("t", "w") },
        "slot `slot.a` is written by `s/w` and by `t/w`: remove one of them",
    );
}

#[test]
fn two_writers() {
    profile_refused(
        profile().preparer("one", that(writes_a)).preparer("two", that(writes_a)),
        Fault::TwoWriters { slot: "slot.a", first: plugin("s", "one"), second: plugin("s", "two") },
        "slot `slot.a` is written by `s/one` and by `s/two`: remove one of them",
    );
}

#[test]
fn a_filter_that_writes() {
    profile_refused(
        profile().filter("f", OnEmpty::Fail, that(writes_a)),
        Fault::WriteOutsidePrepare { plugin: plugin("s", "f"), slot: "slot.a" },
        "`s/f` declares to write slot `slot.a` but is no preparer: only preparers write, so let one do it",
    );
}

#[test]
fn a_circle_with_its_path() {
    let swap = |d: &mut Declare<'_>| {
        d.reads::<B>();
        d.writes::<A>();
    };
    let back = |d: &mut Declare<'_>| {
        d.reads::<A>();
        d.writes::<B>();
    };
    profile_refused(
        profile().preparer("x", that(swap)).preparer("y", that(back)),
        Fault::Cycle { path: vec![plugin("s", "x"), plugin("s", "y")] },
        "`s/x` → `s/y` → `s/x` wait for each other: break the circle by removing one of them",
    );
}

#[test]
fn a_plugin_that_is_required_and_not_there() {
    profile_refused(
        profile().scorer("near", 1.0, that(|d| d.requires("geo"))),
        Fault::MissingDependency { plugin: plugin("s", "near"), requires: "geo".into() },
        "`s/near` requires `geo`, which is not in its step: add it, or remove `s/near`",
    );
}

#[test]
fn a_type_serves_where_a_name_is_required() {
    let near = profile().scorer("near", 1.0, that(|d| d.requires("geo")));
    near.preparer("anything", that(|_| {})).of_type("geo").build().unwrap();
}

#[test]
fn plugins_that_exclude_each_other() {
    profile_refused(
        profile().scorer("near", 1.0, that(|d| d.conflicts("far"))).scorer("x", 1.0, that(|_| {})).of_type("far"),
        Fault::Conflict { plugin: plugin("s", "near"), other: plugin("s", "x") },
        "`s/near` conflicts with `s/x`: remove one of them",
    );
}

#[test]
fn plugins_in_the_wrong_order() {
    let broken =
        |by| Fault::OrderBroken { first: plugin("s", "one"), second: plugin("s", "two"), declared_by: plugin("s", by) };
    let text = |by| {
        format!(
            "`s/one` must run before `s/two`, as `s/{by}` declares: swap them, or remove `s/{by}` where stages forbid that"
        )
    };
    let after = profile().preparer("two", that(|d| d.after("one"))).preparer("one", that(|_| {}));
    profile_refused(after, broken("two"), &text("two"));
    let before = profile().preparer("two", that(|_| {})).preparer("one", that(|d| d.before("two")));
    profile_refused(before, broken("one"), &text("one"));
}

#[test]
fn two_plugins_of_one_name() {
    profile_refused(
        profile().scorer("best", 1.0, that(|_| {})),
        Fault::DuplicatePlugin { plugin: plugin("s", "best") },
        "two plugins are called `s/best`: rename one of them",
    );
}

#[test]
fn two_steps_of_one_name() {
    refused(
        WorkflowBuilder::new().step(step("s", profile())).step(step("s", profile())),
        Fault::DuplicateStep { step: "s".into() },
        "two steps are called `s`: rename one of them",
    );
}

#[test]
fn no_step() {
    refused(WorkflowBuilder::new(), Fault::NoStep, "the workflow has no step: add one");
}

#[test]
fn no_picker() {
    profile_refused(ProfileBuilder::new("s"), Fault::NoPicker { step: "s".into() }, "step `s` has no picker: add one");
}

#[test]
fn a_second_picker() {
    profile_refused(
        profile().picker("worst", that(|_| {})),
        Fault::SecondPicker { picker: plugin("s", "worst") },
        "step `s` has a second picker, `worst`: remove it",
    );
}

#[test]
fn weights_that_are_none() {
    for weight in [-1.0, f64::INFINITY, 1e39] {
        profile_refused(
            profile().scorer("near", weight, that(|_| {})),
            Fault::BadWeight { scorer: plugin("s", "near"), weight },
            &format!("the weight of `s/near` is {weight}: give it a finite number from 0 on, of at most 3e38"),
        );
    }
    let error = profile().scorer("near", f64::NAN, that(|_| {})).build().unwrap_err();
    let [Fault::BadWeight { scorer, weight }] = error.faults() else { panic!("{error}") };
    assert_eq!(*scorer, plugin("s", "near"));
    assert!(weight.is_nan());
}

#[test]
fn weights_that_are_all_zero() {
    profile_refused(
        profile().scorer("near", 0.0, that(|_| {})).scorer("idle", -0.0, that(|_| {})),
        Fault::ZeroWeights { step: "s".into() },
        "all scorers of step `s` have weight 0: give one of them some",
    );
}

#[test]
fn two_slots_of_one_name() {
    let (first, second) = (std::any::type_name::<A>(), std::any::type_name::<FalseA>());
    let tries = |d: &mut Declare<'_>| {
        d.tries::<A>();
        d.tries::<FalseA>();
    };
    profile_refused(
        profile().scorer("near", 1.0, that(tries)),
        Fault::SlotNameClash { slot: "slot.a", first, second },
        &format!("slot name `slot.a` stands for two types, `{first}` and `{second}`: rename one of the slots"),
    );
}

#[test]
fn an_order_of_execution_that_forgets_repeats_or_invents() {
    let flow = |order: &[&str]| {
        WorkflowBuilder::new().step(step("a", profile())).step(step("b", profile())).executed_in(order).build()
    };
    let odd = |name: &str| Fault::ExecutionOrder { step: name.into() };
    assert_eq!(flow(&["a"]).unwrap_err().faults(), [odd("b")]);
    assert_eq!(flow(&["a", "b", "a"]).unwrap_err().faults(), [odd("a")]);
    let error = flow(&["a", "b", "c"]).unwrap_err();
    assert_eq!(error.faults(), [odd("c")]);
    let text = "1 fault\n  - executed_in[2]: the order of execution does not name step `c` exactly once: name every step, once";
    assert_eq!(error.to_string(), text);
}

#[test]
fn everything_that_is_wrong_is_listed_at_once() {
    let profile = <ProfileBuilder>::new("s").preparer("w", that(reads_a)).scorer("near", -1.0, that(|_| {}));
    let error = profile.build().unwrap_err();
    let none = Fault::NoPicker { step: "s".into() };
    let weight = Fault::BadWeight { scorer: plugin("s", "near"), weight: -1.0 };
    let slot = Fault::NoWriter { reader: plugin("s", "w"), slot: "slot.a" };
    assert_eq!(error.faults(), [none, weight, slot]);
    assert!(error.to_string().starts_with("3 faults\n  - "));
}

#[test]
fn a_slot_that_nothing_reads_is_worth_a_warning() {
    let profile = || profile().filter("health", OnEmpty::Fail, health);
    let workflow = profile().preparer("w", that(writes_a)).build().unwrap();
    assert_eq!(workflow.warnings(), [Warning::UnreadSlot { writer: plugin("s", "w"), slot: "slot.a" }]);
    assert_eq!(workflow.warnings()[0].to_string(), "`s/w` writes slot `slot.a`, which nothing reads");
    let read = profile().preparer("w", that(writes_a)).scorer("near", 1.0, that(reads_a)).build().unwrap();
    assert_eq!(read.warnings(), []);
    let held = |d: &mut Declare<'_>| {
        d.writes::<routing_core::PrefixMatches>();
    };
    assert_eq!(profile().preparer("search", that(held)).build().unwrap().warnings(), [], "plans hint at it");
}

#[test]
fn a_plugin_that_no_stage_uses_is_named() {
    let warning = Warning::UnusedPlugin { plugin: "near".into() };
    assert_eq!(warning.to_string(), "plugin `near` is defined, and no stage uses it");
}
