//! Handles open for the plugin that declared them and for nobody else.

use std::sync::{Arc, Mutex};

use routing_core::{
    Condition, DEFAULT_POD_WORDS, DecideError, Declare, Filter, OnEmpty, PlanStep, PluginError, PodSet, ProfileBuilder,
    Read, ReadPick, Recorder, RoutingContext, Scorer, Scores, SlotError, StepBuilder, WorkflowBuilder, Write,
};

use super::profile;
use crate::common::{Best, By, Number, Put, decide, fleet, plugin, request};

type Handles = (Read<Number>, Write<Number>);

struct Peek(Read<Number>);

impl Scorer for Peek {
    fn score(&self, context: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        context.read(self.0)?;
        Ok(())
    }
}

#[test]
fn a_handle_of_another_workflow_opens_nothing() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(1);
    let kept: Arc<Mutex<Option<Handles>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let first = profile::<DEFAULT_POD_WORDS>()
        .preparer("put", |declare: &mut Declare<'_>| Put(declare.writes(), 1))
        .scorer("keeps", 1.0, move |declare: &mut Declare<'_>| {
            *keep.lock().unwrap() = Some((declare.reads(), declare.writes()));
            By(|_| 0.0)
        });
    assert!(first.build().is_err(), "a scorer that writes");
    let (read, write) = kept.lock().unwrap().take().unwrap();
    let own = |declare: &mut Declare<'_>| Put(declare.writes(), 1);
    let foreign = |name| DecideError::Plugin {
        plugin: plugin("s", name),
        source: PluginError::Slot(SlotError::Foreign("number")),
    };
    let reads = profile().preparer("put", own).scorer("peek", 1.0, move |_: &mut Declare<'_>| Peek(read));
    assert_eq!(decide(&reads.build().unwrap().into(), &request(), &fleet), Err(foreign("peek")));
    let writes = profile().preparer("put", own).preparer("poke", move |_: &mut Declare<'_>| Put(write, 2));
    assert_eq!(decide(&writes.build().unwrap().into(), &request(), &fleet), Err(foreign("poke")));
}

/// Reads by a handle, whatever its stage.
struct Borrowed(Read<Number>);

impl Filter for Borrowed {
    fn filter(&self, context: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
        context.read(self.0)?;
        Ok(candidates)
    }
}

impl Scorer for Borrowed {
    fn score(&self, context: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        context.read(self.0)?;
        Ok(())
    }
}

impl Recorder for Borrowed {
    fn record(&self, context: &RoutingContext<'_>, _: &PlanStep) -> Result<(), PluginError> {
        context.read(self.0)?;
        Ok(())
    }
}

fn foreign(name: &str, slot: &'static str) -> DecideError {
    DecideError::Plugin { plugin: plugin("s", name), source: PluginError::Slot(SlotError::Foreign(slot)) }
}

/// A plugin passes its handle on to another one of its workflow, which uses it without having declared anything.
#[test]
fn a_handle_that_is_passed_on_in_one_workflow_opens_nothing() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(1);
    // Each time the filter declares to read, and hands its handle to somebody else besides using it.
    let lend = || {
        let lent: Arc<Mutex<Option<Read<Number>>>> = Arc::default();
        let lender = Arc::clone(&lent);
        let profile = profile::<DEFAULT_POD_WORDS>()
            .preparer("put", |declare: &mut Declare<'_>| Put(declare.writes(), 1))
            .filter("owner", OnEmpty::Fail, move |declare: &mut Declare<'_>| {
                let handle = declare.reads();
                *lender.lock().unwrap() = Some(handle);
                Borrowed(handle)
            });
        (profile, move |_: &mut Declare<'_>| Borrowed(lent.lock().unwrap().take().unwrap()))
    };
    let decided = |profile: ProfileBuilder| decide(&profile.build().unwrap().into(), &request(), &fleet);
    assert!(decided(lend().0).is_ok(), "the owner itself reads");
    let (profile, borrow) = lend();
    assert_eq!(decided(profile.filter("borrows", OnEmpty::Fail, borrow)), Err(foreign("borrows", "number")));
    let (profile, borrow) = lend();
    assert_eq!(decided(profile.scorer("borrows", 1.0, borrow)), Err(foreign("borrows", "number")));
    let (profile, borrow) = lend();
    assert_eq!(decided(profile.recorder("borrows", borrow)), Err(foreign("borrows", "number")));
}

#[test]
fn a_write_handle_that_is_passed_on_writes_nothing() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(1);
    let lent: Arc<Mutex<Option<Write<Number>>>> = Arc::default();
    let lender = Arc::clone(&lent);
    let profile = profile::<DEFAULT_POD_WORDS>()
        .preparer("owner", move |declare: &mut Declare<'_>| {
            let handle = declare.writes();
            *lender.lock().unwrap() = Some(handle);
            Put(handle, 1)
        })
        .preparer("borrows", move |_: &mut Declare<'_>| Put(lent.lock().unwrap().take().unwrap(), 2));
    let decided = decide(&profile.build().unwrap().into(), &request(), &fleet);
    assert_eq!(decided, Err(foreign("borrows", "number")));
}

struct Follows(ReadPick);

impl Condition for Follows {
    fn holds(&self, context: &RoutingContext<'_>) -> Result<bool, PluginError> {
        context.pick(self.0).map(|_| true).map_err(Into::into)
    }
}

impl Scorer for Follows {
    fn score(&self, context: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        context.pick(self.0)?;
        Ok(())
    }
}

#[test]
fn neither_does_the_handle_of_a_pick() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(1);
    let lent: Arc<Mutex<Option<ReadPick>>> = Arc::default();
    let lender = Arc::clone(&lent);
    let second =
        ProfileBuilder::new("s")
            .picker("best", Best::declare)
            .scorer("borrows", 1.0, move |_: &mut Declare<'_>| Follows(lent.lock().unwrap().take().unwrap()));
    let second = StepBuilder::new("s", second).when("owner", move |declare: &mut Declare<'_>| {
        let handle = declare.reads_pick("first");
        *lender.lock().unwrap() = Some(handle);
        Follows(handle)
    });
    let workflow = WorkflowBuilder::new().step(StepBuilder::new("first", profile())).step(second).build().unwrap();
    assert_eq!(decide(&workflow, &request(), &fleet), Err(foreign("borrows", "pick of a step")));
}
