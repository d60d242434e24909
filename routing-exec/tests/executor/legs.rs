//! More than one pod in one dispatch: legs that meet, pods that are refused, and a host that decides anew.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;

use crate::executor_world::*;
use http_body::Body;
use routing_core::{FailurePolicy, OpenBreakers, PlanStep, Pod, Role, RoutingPlan};
use routing_exec::{
    BreakerConfig, BreakerSample, Breakers, Dispatch, DispatchPolicy, Executor, Failure, Timer, Transport,
    TransportExecutor,
};

fn executor<T: Transport, C: Timer>(transport: T, timer: C) -> TransportExecutor<T, C> {
    TransportExecutor::new(transport, timer)
}

/// A dispatch of a prefill and a decode that meet each other.
fn meeting(pods: &[Pod]) -> Dispatch {
    let prefill = PlanStep::new("prefill", Role::Prefill, &pods[..1]);
    let plan = RoutingPlan::new(1, [prefill, PlanStep::new("decode", Role::Decode, &pods[1..])]);
    let mut dispatch_config = dispatch_config();
    dispatch_config.handoff = Arc::new(Meeting);
    dispatch_config.policy = Arc::new(DispatchPolicy::default().fail_open(false));
    Dispatch::new(dispatch_config, request(), plan, Vec::new())
}

#[test]
fn a_pod_whose_circuit_is_open_is_not_contacted() {
    let clock = Clock::default();
    let pods = pods(2);
    let sick = pods[0];
    let world = Pods::new(
        &clock,
        move |pod, _| {
            if pod == sick { vec![Act::Refuse] } else { vec![events(), chunk("data: a\n\n")] }
        },
    );
    let config = BreakerConfig::default().failure_threshold(1);
    let breakers: Arc<Breakers> = Arc::new(Breakers::new(config, Arc::new(OpenBreakers::new())));
    let executor = TransportExecutor::with_breakers(world.clone(), clock.clone(), breakers);
    for sent in [2, 3] {
        let keeper = Keeper::default();
        let answer = block_on(&clock, executor.execute(dispatch(&pods), keeper.clone()));
        assert_eq!(answer.status(), 200);
        drop(answer);
        assert_eq!(world.seen.sent.load(SeqCst), sent, "the second time only the other pod is asked");
        assert_eq!(keeper.0.holds.load(SeqCst), 0);
    }
}

#[test]
fn a_leg_whose_other_one_is_refused_is_never_sent() {
    let clock = Clock::default();
    let pods = pods(2);
    let world = Pods::new(&clock, |_, _| vec![Act::Hang]);
    let config = BreakerConfig::default().failure_threshold(1);
    for sick in [0, 1] {
        let breakers: Arc<Breakers> = Arc::new(Breakers::new(config.clone(), Arc::new(OpenBreakers::new())));
        let admitted = breakers.admit(pods[sick], clock.now()).unwrap().admission();
        breakers.record(admitted, &BreakerSample::Failure(Failure::FirstByteTimeout), clock.now());
        let executor = TransportExecutor::with_breakers(world.clone(), clock.clone(), breakers);
        let before = world.seen.sent.load(SeqCst);
        assert_eq!(block_on(&clock, executor.execute(meeting(&pods), ())).status(), 503);
        assert_eq!(world.seen.live.load(SeqCst), 0);
        let sent = world.seen.sent.load(SeqCst) - before;
        assert_eq!(sent, sick, "legs are sent in order, and none after one that was refused");
    }
}

#[test]
fn when_one_leg_fails_the_client_is_answered_and_the_other_cancelled_at_once() {
    for fails in [0, 1] {
        let clock = Clock::default();
        let world =
            Pods::new(
                &clock,
                move |pod, _| {
                    if pod.id().index() == fails { vec![Act::Refuse] } else { vec![events(), Act::Hang] }
                },
            );
        let keeper = Keeper::default();
        let answer = poll(&mut executor(world.clone(), clock.clone()).execute(meeting(&pods(2)), keeper.clone()));
        let Poll::Ready(answer) = answer else { panic!("nobody is waited for") };
        assert_eq!(answer.status(), 502);
        let left = (world.seen.live.load(SeqCst), clock.asleep(), keeper.0.holds.load(SeqCst));
        assert_eq!(left, (0, 0, 0), "before the client has read anything of it");
        assert_eq!(keeper.0.reports.lock().unwrap().len(), 1);
    }
}

#[test]
fn a_stream_that_breaks_off_lets_go_before_the_client_has_read_how() {
    let clock = Clock::default();
    let world = Pods::new(&clock, |pod, _| match pod.id().index() {
        0 => vec![head(200, "application/json"), Act::Hang],
        _ => vec![events(), chunk("data: a\n\n"), Act::Cut],
    });
    let keeper = Keeper::default();
    let answer = poll(&mut executor(world.clone(), clock).execute(meeting(&pods(2)), keeper.clone()));
    let Poll::Ready(answer) = answer else { panic!("nothing waits") };
    let mut body = answer.into_body();
    assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(_)))));
    assert_eq!((world.seen.live.load(SeqCst), keeper.0.holds.load(SeqCst)), (2, 2));
    assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(_)))), "the event that says so");
    assert!(body.is_end_stream());
    assert_eq!((world.seen.live.load(SeqCst), keeper.0.holds.load(SeqCst)), (0, 0));
}

#[test]
fn a_host_decides_anew_for_its_own_request() {
    let clock = Clock::default();
    let pods = pods(2);
    let sick = pods[0];
    let world = Pods::new(
        &clock,
        move |pod, _| {
            if pod == sick { vec![Act::Refuse] } else { vec![events(), chunk("data: a\n\n")] }
        },
    );
    let plan = RoutingPlan::new(1, [PlanStep::new("serve", Role::Both, &pods[..1]).on_failure(FailurePolicy::Replan)]);
    let keeper = Keeper(Arc::default(), Some(serve(&pods[1..])));
    let dispatch = Dispatch::new(dispatch_config(), request(), plan, Vec::new());
    let answer = block_on(&clock, executor(world, clock.clone()).execute(dispatch, keeper));
    assert_eq!(answer.status(), 200);
}
