//! A plugin that panics costs its request and nothing else, where the host asks for that.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use routing_core::{
    DEFAULT_POD_WORDS, DecideError, Declare, OnEmpty, PlanStep, PluginError, PodSet, PrepareContext, Preparer,
    ProfileBuilder, Recorder, RoutingContext, RoutingInput, RoutingPlan, Slot, Workflow, Write,
};

use super::profile;
use crate::common::{By, Keep, Put, fleet, plugin, request};

const EXPECTED: &str = "every third request";

/// What a test panics with on purpose is not printed.
fn quietly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<&str>().copied();
            if text != Some(EXPECTED) && info.payload().downcast_ref::<String>().is_none_or(|text| text != "pod 2") {
                usual(info);
            }
        }));
    });
}

/// Counts the requests since the workspace was made, since nothing clears it.
struct Uncleared;

impl Slot for Uncleared {
    type Value = u64;
    const NAME: &'static str = "uncleared";

    fn clear(_: &mut u64) {}
}

/// Panics on every third request, in the midst of what it writes.
struct Third(Write<Uncleared>, AtomicU64);

impl Preparer for Third {
    fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        let (_, value) = context.write(self.0)?;
        *value += 1;
        assert!(*value <= 3, "nothing of a request that panicked shows");
        if self.1.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
            std::panic::panic_any(EXPECTED);
        }
        Ok(())
    }
}

fn good() -> ProfileBuilder {
    profile().filter("few", OnEmpty::Fail, |_: &mut Declare<'_>| Keep(|pods: PodSet| pods)).scorer(
        "by",
        1.0,
        |_: &mut Declare<'_>| By(|pod| pod as f32 / 10.0),
    )
}

#[test]
fn a_plugin_that_panics_every_third_time_costs_every_third_request() {
    quietly();
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(5);
    let bad = good().preparer("third", |d: &mut Declare<'_>| Third(d.writes(), AtomicU64::new(0)));
    let (bad, good): (Workflow, Workflow) = (bad.build().unwrap().into(), good().build().unwrap().into());
    let (mut bad_space, mut good_space) = (bad.workspace(), good.workspace());
    let (mut plan, mut expected) = (RoutingPlan::default(), RoutingPlan::default());
    for seed in 0..30 {
        let request = request().seed(seed);
        good.decide(&mut good_space, RoutingInput::new(&request, &fleet), &mut expected).unwrap();
        let decided = bad.decide_catching(&mut bad_space, RoutingInput::new(&request, &fleet), &mut plan);
        if seed % 3 == 2 {
            let message = EXPECTED.into();
            assert_eq!(decided, Err(DecideError::PluginPanicked { plugin: plugin("s", "third"), message }));
            assert!(plan.steps().is_empty(), "half a plan is none");
        } else {
            assert_eq!(decided, Ok(()));
            assert_eq!(plan, expected, "the others are decided as ever");
        }
    }
}

struct Records;

impl Recorder for Records {
    fn record(&self, _: &RoutingContext<'_>, step: &PlanStep) -> Result<(), PluginError> {
        let pod = step.candidates[0].pod.id().index();
        if pod == 2 {
            std::panic::panic_any(format!("pod {pod}"));
        }
        Ok(())
    }
}

#[test]
fn whichever_stage_panics_is_named() {
    quietly();
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(3);
    let panics = || -> f32 { std::panic::panic_any(EXPECTED) };
    let cases: [(&str, &str, ProfileBuilder); 3] = [
        ("bad", EXPECTED, good().scorer("bad", 1.0, move |_: &mut Declare<'_>| By(move |_| panics()))),
        (
            "bad",
            EXPECTED,
            good().filter("bad", OnEmpty::Fail, |_: &mut Declare<'_>| {
                Keep(|_: PodSet| -> PodSet { std::panic::panic_any(EXPECTED) })
            }),
        ),
        ("notes", "pod 2", good().recorder("notes", |_: &mut Declare<'_>| Records)),
    ];
    for (name, message, profile) in cases {
        let profile = profile.preparer("put", |d: &mut Declare<'_>| Put(d.writes(), 1)).build().unwrap();
        let (mut workspace, mut plan) = (profile.workspace(), RoutingPlan::default());
        for _ in 0..2 {
            let decided = profile.decide_catching(&mut workspace, RoutingInput::new(&request(), &fleet), &mut plan);
            let panicked = DecideError::PluginPanicked { plugin: plugin("s", name), message: message.into() };
            assert_eq!(decided, Err(panicked));
        }
    }
}

#[test]
fn errors_are_errors_as_ever() {
    let (_, fleet) = fleet::<DEFAULT_POD_WORDS>(0);
    let profile = good().build().unwrap();
    let (mut workspace, mut plan) = (profile.workspace(), RoutingPlan::default());
    let decided = profile.decide_catching(&mut workspace, RoutingInput::new(&request(), &fleet), &mut plan);
    assert_eq!(decided, Err(DecideError::NoneOffered { step: "s".into() }));
}
