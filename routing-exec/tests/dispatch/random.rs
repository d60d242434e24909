//! Random plans, random events, random time: the rules hold, and every dispatch ends by its deadline.

use std::sync::Arc;
use std::time::Duration;

use crate::world::*;
use proptest::prelude::*;
use routing_core::{FailurePolicy, PlanStep};
use routing_exec::{Failure, Input, RetryBudget};

#[derive(Clone, Debug)]
enum Event {
    Head(u16),
    Stream,
    Chunk(&'static str),
    End,
    Fails(Failure),
    Refused(u64),
    Gone,
    Cancel,
    Time(u64),
    Replanned(Option<Vec<PlanStep>>),
}

fn steps() -> impl Strategy<Value = Vec<PlanStep>> {
    let step = |name: &'static str| {
        let policy = prop::sample::select(POLICIES.to_vec());
        // Pods of few numbers, so that they appear in several steps, and twice in one.
        (prop::collection::vec(0..6_usize, 1..5), policy)
            .prop_map(move |(pods, policy)| step(name, &pods).on_failure(policy))
    };
    prop_oneof![
        step("both").prop_map(|both| vec![both]),
        (step("prefill"), step("decode")).prop_map(|(prefill, decode)| vec![prefill, decode]),
        (step("encode"), step("prefill"), step("decode")).prop_map(|(e, p, d)| vec![e, p, d]),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let chunks =
        ["", "data: a\n\n", "data: ", "{\"error\":1}\n\n", "data: {\"error\":1}\n\n", "xxxxxxxxxxxxxxxxxxxxxxxxx"];
    let failures = [
        connect(),
        cut(),
        local(),
        local(),
        Failure::BreakerOpen,
        Failure::IdleTimeout,
        Failure::Status(400),
        Failure::ResponseTooLarge,
    ];
    prop_oneof![
        4 => prop::sample::select(vec![200, 200, 200, 100, 204, 302, 400, 404, 429, 500, 503, 600]).prop_map(Event::Head),
        3 => Just(Event::Stream),
        6 => prop::sample::select(chunks.to_vec()).prop_map(Event::Chunk),
        4 => Just(Event::End),
        3 => prop::sample::select(failures.to_vec()).prop_map(Event::Fails),
        2 => (0..5_u64).prop_map(Event::Refused),
        1 => prop_oneof![Just(Event::Gone), Just(Event::Cancel)],
        3 => (0..12_u64).prop_map(Event::Time),
        2 => prop::option::of(steps()).prop_map(Event::Replanned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_rules_hold_and_the_dispatch_ends(
        steps in steps(),
        dialect in prop::sample::select(vec![REUSABLE, ONE_USE, CONCURRENT]),
        events in prop::collection::vec((event(), any::<prop::sample::Index>(), 0..4_u8), 0..60),
        attempts in 0..5_u32,
        replans in 0..3_u32,
        total in prop::option::of(1..40_u64),
        saved in prop::option::of(0..4_u32),
        hook in prop::sample::select(vec!["", "", "", "prefill", "decode", "head", "chunk"]),
    ) {
        let fails = steps.iter().all(|step| step.on_failure == FailurePolicy::Fail);
        let mut setup = Setup::new(dialect, plan(steps)).deadline(60).hook(Refuses(hook, 451));
        setup = setup.config(|config| {
            (config.max_attempts, config.max_replans) = (attempts, replans);
            config.request_timeout = total.map_or(Duration::MAX, seconds);
        });
        setup.budget = saved.map(|saved| {
            let budget = RetryBudget::new(0.5, 0.1, 10.0);
            (0..saved).for_each(|_| budget.deposit(some_instant()));
            Arc::new(budget)
        });
        let mut world = setup.start();
        for (event, at, newest) in events {
            let count = world.sent.len();
            // Mostly what is under way; else any attempt there was, over or not.
            let at = if count == 0 { None } else if newest > 0 { Some(count - 1) } else { Some(at.index(count)) };
            match (event, at) {
                (Event::Head(status), Some(at)) => drop(world.head(at, status).told()),
                (Event::Stream, Some(at)) => drop(world.stream(at).told()),
                (Event::Chunk(chunk), Some(at)) => drop(world.chunk(at, chunk).told()),
                (Event::End, Some(at)) => drop(world.end(at).told()),
                (Event::Refused(wait), Some(at)) => drop(world.refused(at, wait).told()),
                (Event::Fails(failure), Some(at)) => drop(world.fails(at, failure).told()),
                (Event::Gone, _) => world.handle(Input::ClientDisconnected),
                (Event::Cancel, _) => world.handle(Input::Cancel),
                (Event::Time(time), _) => drop(world.pass(seconds(time)).told()),
                (Event::Replanned(steps), _) => world.replanned(steps.map(plan)),
                (_, None) => {}
            }
        }
        if fails && dialect.mode == routing_exec::handoff::HandoffMode::Serial {
            prop_assert!(world.pods().len() <= 3, "nobody is asked twice for a step that must not fail");
        }
        world.pass(seconds(60));
        prop_assert!(world.report.is_some());
    }
}
