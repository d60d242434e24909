//! What the executor promises of one dispatch: who is read when, what is let go when, and what the client's body says of itself.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

mod body;
mod deadlines;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use crate::executor_world::*;
use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Body;
use routing_core::{FailurePolicy, OpenBreakers, PlanStep, Pod, Role, RoutingPlan};
use routing_exec::{
    AttemptOutcome, BreakerConfig, Breakers, Dispatch, DispatchOutcome, DispatchPolicy, DispatchReport, Executor,
    Failure, Timer, Transport, TransportExecutor,
};

fn executor<T: Transport, C: Timer>(transport: T, timer: C) -> TransportExecutor<T, C> {
    TransportExecutor::new(transport, timer)
}

/// An answer of these acts: its head, what its body was, and the one report.
fn carried_out(acts: Vec<Act>) -> (Response<()>, Whole, DispatchReport) {
    let clock = Clock::default();
    let world = Pods::new(&clock, move |_, _| acts.clone());
    let keeper = Keeper::default();
    let (head, body) = block_on(&clock, async {
        let answer = executor(world.clone(), clock.clone()).execute(dispatch(&pods(1)), keeper.clone()).await;
        let (head, body) = answer.into_parts();
        (Response::from_parts(head, ()), read(body).await)
    });
    assert_eq!((world.seen.live.load(SeqCst), clock.asleep(), keeper.0.holds.load(SeqCst)), (0, 0, 0));
    let mut reports = keeper.0.reports.lock().unwrap();
    assert_eq!(reports.len(), 1);
    (head, body, reports.remove(0))
}

#[test]
fn a_pod_is_read_only_when_the_client_asks_and_one_chunk_is_held() {
    let clock = Clock::default();
    let acts: Vec<Act> = [events()].into_iter().chain((0..100).map(|at| chunk(&format!("data: {at}\n\n")))).collect();
    let world = Pods::new(&clock, move |_, _| acts.clone());
    let mut answer = executor(world.clone(), clock).execute(dispatch(&pods(1)), ());
    assert_eq!(world.seen.acts.load(SeqCst), 0, "nothing is sent before it is polled");
    let Poll::Ready(answer) = poll(&mut answer) else { panic!("nothing waits") };
    assert_eq!(world.seen.acts.load(SeqCst), 2, "the head, and the first byte that lets it go out");
    let mut body = answer.into_body();
    for asked in 1..=100 {
        assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(_)))));
        assert_eq!(world.seen.acts.load(SeqCst), 1 + asked, "as many chunks as the client asked for");
    }
    assert!(!body.is_end_stream());
    assert!(matches!(poll_frame(&mut body), Poll::Ready(None)));
    assert!(body.is_end_stream());
}

#[test]
fn a_chunk_is_forwarded_where_it_lies() {
    let clock = Clock::default();
    let chunks = [Bytes::from("data: one\n\n".repeat(9)), Bytes::from("data: two\n\n".repeat(9))];
    let acts = vec![events(), Act::Chunk(chunks[0].clone()), Act::Chunk(chunks[1].clone())];
    let world = Pods::new(&clock, move |_, _| acts.clone());
    let Poll::Ready(answer) = poll(&mut executor(world, clock).execute(dispatch(&pods(1)), ())) else { panic!() };
    let mut body = answer.into_body();
    for sent in &chunks {
        let Poll::Ready(Some(Ok(frame))) = poll_frame(&mut body) else { panic!("nothing waits") };
        let got = frame.into_data().unwrap();
        assert_eq!((got.as_ptr(), got.len()), (sent.as_ptr(), sent.len()));
    }
}

/// Polls a dispatch to its end, or drops it after so many polls; then nothing of it is left, and its host was told once.
fn dropped_after(polls: usize, plan: &RoutingPlan, script: fn(Pod) -> Vec<Act>) -> bool {
    let clock = Clock::default();
    let world = Pods::new(&clock, move |pod, _| script(pod));
    let keeper = Keeper::default();
    let open_breakers = Arc::new(OpenBreakers::new());
    let config = BreakerConfig::default().failure_threshold(1);
    let breakers: Arc<Breakers> = Arc::new(Breakers::new(config, open_breakers));
    let executor = TransportExecutor::with_breakers(world.clone(), clock.clone(), Arc::clone(&breakers));
    let dispatch = Dispatch::new(dispatch_config(), request(), plan.clone(), Vec::new());
    let (mut left, mut ended) = (polls, false);
    let mut next = || {
        left = left.checked_sub(1)?;
        clock.advance(Duration::from_millis(1));
        Some(())
    };
    {
        let mut answer = executor.execute(dispatch, keeper.clone());
        let mut body = None;
        while next().is_some() {
            match &mut body {
                None => {
                    if let Poll::Ready(answer) = poll(&mut answer) {
                        body = Some(answer.into_body());
                    }
                }
                Some(body) => match poll_frame(body) {
                    Poll::Ready(None | Some(Err(_))) => {
                        ended = true;
                        break;
                    }
                    Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
                },
            }
        }
    }
    let left = (world.seen.live.load(SeqCst), clock.asleep(), keeper.0.holds.load(SeqCst));
    assert_eq!(left, (0, 0, 0), "attempts, sleeps and holds after {polls} polls");
    let reports = keeper.0.reports.lock().unwrap();
    assert_eq!(reports.len(), 1, "one report after {polls} polls");
    assert!(
        reports[0].attempts.iter().all(|attempt| attempt.outcome != AttemptOutcome::Pending && attempt.ended.is_some())
    );
    assert_eq!(Arc::strong_count(&breakers), 2, "no permit is left after {polls} polls: ours and the executor's");
    ended
}

#[test]
fn dropped_after_any_poll_it_lets_go_of_everything_once_and_reports_once() {
    fn fails_over(pod: Pod) -> Vec<Act> {
        let wait = || Act::Wait(Duration::from_millis(2));
        match pod.id().index() {
            0 => vec![wait(), Act::Refuse],
            1 => vec![wait(), events(), wait(), Act::Cut],
            2 => vec![wait(), head(200, "application/json"), wait(), chunk("{}"), wait()],
            _ => vec![wait(), events(), wait(), chunk("data: a\n\n"), Act::Yield, chunk("data: b\n\n"), wait()],
        }
    }
    let pods = pods(4);
    let prefill = PlanStep::new("prefill", Role::Prefill, &pods[..3]).on_failure(FailurePolicy::Skip);
    let plan = RoutingPlan::new(1, [prefill, PlanStep::new("decode", Role::Decode, &pods[3..])]);
    let polls = (0..1_000).find(|polls| dropped_after(*polls, &plan, fails_over)).expect("it ends");
    assert!(polls > 20, "{polls} polls to its end");
}

#[test]
fn a_client_that_reads_slowly_is_not_held_against_the_pod() {
    let clock = Clock::default();
    let idle = DispatchPolicy::default().idle_timeout;
    let acts = vec![events(), chunk("data: a\n\n"), Act::Wait(idle / 2), chunk("data: b\n\n"), Act::Hang];
    let world = Pods::new(&clock, move |_, _| acts.clone());
    let keeper = Keeper::default();
    let Poll::Ready(answer) = poll(&mut executor(world, clock.clone()).execute(dispatch(&pods(1)), keeper.clone()))
    else {
        panic!("nothing waits")
    };
    let mut body = answer.into_body();
    assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(_)))));
    clock.advance(idle * 3);
    assert!(poll_frame(&mut body).is_pending(), "the pod has its whole time from here");
    clock.advance(idle / 2);
    assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(_)))));
    // The pod's own silence is another matter.
    assert!(poll_frame(&mut body).is_pending());
    clock.advance(idle - Duration::from_millis(1));
    assert!(poll_frame(&mut body).is_pending());
    clock.advance(Duration::from_millis(1));
    assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(_)))), "an event that says so");
    assert_eq!(keeper.0.reports.lock().unwrap()[0].attempts[0].outcome, AttemptOutcome::Failed(Failure::IdleTimeout));
}

#[test]
fn a_deadline_ends_a_pod_that_always_has_more() {
    let clock = Clock::default();
    let acts: Vec<Act> = [events()].into_iter().chain((0..10_000).map(|_| chunk("data: a\n\n"))).collect();
    let world = Pods::new(&clock, move |_, _| acts.clone());
    let request = request().deadline(clock.now() + Duration::from_millis(50));
    let dispatch = Dispatch::new(dispatch_config(), request, serve(&pods(1)), Vec::new());
    let Poll::Ready(answer) = poll(&mut executor(world, clock.clone()).execute(dispatch, ())) else {
        panic!("nothing waits")
    };
    let mut body = answer.into_body();
    let mut frames = 0;
    while let Poll::Ready(Some(Ok(_))) = poll_frame(&mut body) {
        frames += 1;
        clock.advance(Duration::from_millis(1));
    }
    assert!((50..=52).contains(&frames), "{frames}");
}

#[test]
fn timers_are_moved_and_never_pile_up() {
    let clock = Clock::default();
    let step = DispatchPolicy::default().idle_timeout / 3 * 2;
    let acts: Vec<Act> =
        [events()].into_iter().chain((0..60).flat_map(|_| [Act::Wait(step), chunk("data: a\n\n")])).collect();
    let world = Pods::new(&clock, move |_, _| acts.clone());
    let request = request().deadline(clock.now() + step * 1_000);
    let dispatch = Dispatch::new(dispatch_config(), request, serve(&pods(1)), Vec::new());
    let most = AtomicUsize::new(0);
    block_on(&clock, async {
        let mut body = executor(world, clock.clone()).execute(dispatch, ()).await.into_body();
        loop {
            let frame = std::future::poll_fn(|cx| {
                let frame = std::pin::Pin::new(&mut body).poll_frame(cx);
                most.fetch_max(clock.asleep(), SeqCst);
                frame
            });
            if frame.await.is_none() {
                return;
            }
        }
    });
    assert_eq!(most.load(SeqCst), 3, "the deadline's, the attempt's and the pod's own");
}

#[test]
fn the_timer_of_an_attempt_goes_with_it() {
    let clock = Clock::default();
    let world = Pods::new(&clock, |pod, _| if pod.id().index() < 2 { vec![Act::Refuse] } else { vec![Act::Hang] });
    let mut answer = executor(world, clock.clone()).execute(dispatch(&pods(3)), ());
    assert!(poll(&mut answer).is_pending());
    assert_eq!(clock.asleep(), 2, "the third attempt's, and that of the whole request");
}

#[test]
fn a_pod_that_chatters_without_end_does_not_keep_others_from_their_turn() {
    let clock = Clock::default();
    let acts: Vec<Act> = [events()].into_iter().chain((0..1_000).map(|_| chunk(""))).collect();
    let world = Pods::new(&clock, move |_, _| acts.clone());
    let alarm = Arc::new(Alarm::default());
    let mut answer = executor(world.clone(), clock).execute(dispatch(&pods(1)), ());
    let waker = std::task::Waker::from(Arc::clone(&alarm));
    let polled = std::pin::Pin::new(&mut answer).poll(&mut std::task::Context::from_waker(&waker));
    assert!(polled.is_pending() && world.seen.acts.load(SeqCst) < 100);
    assert_eq!(alarm.0.load(SeqCst), 1, "and it will be back");
}

#[test]
fn it_is_polled_no_more_often_than_something_happens() {
    let clock = Clock::default();
    let wait = || Act::Wait(Duration::from_secs(1));
    let acts: Vec<Act> =
        [wait(), events()].into_iter().chain((0..50).flat_map(|_| [wait(), chunk("data: a\n\n")])).collect();
    let world = Pods::new(&clock, move |_, _| acts.clone());
    block_on(&clock, async {
        read(executor(world.clone(), clock.clone()).execute(dispatch(&pods(1)), ()).await.into_body()).await
    });
    // Each act is asked for and waited for: two polls; a timer that has to be moved costs one more.
    let (polls, acts) = (world.seen.polls.load(SeqCst), world.seen.acts.load(SeqCst));
    assert!(polls <= 2 * acts + 8, "{polls} polls for {acts} acts");
}

#[test]
fn an_interim_answer_is_no_answer() {
    // A transport gives one head; should it give an interim one, what follows is taken for the body of none.
    let (head, ..) = carried_out(vec![head(100, "text/plain"), Act::Cut]);
    assert_eq!(head.status(), 502);
}

#[test]
fn no_candidates_is_answered_whole() {
    let clock = Clock::default();
    let world = Pods::new(&clock, |_, _| vec![]);
    let Poll::Ready(answer) = poll(&mut executor(world, clock).execute(dispatch(&[]), ())) else { panic!() };
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["retry-after"], "1");
    let length = answer.body().size_hint().exact().unwrap();
    let mut body = answer.into_body();
    let Poll::Ready(Some(Ok(frame))) = poll_frame(&mut body) else { panic!() };
    assert_eq!(frame.into_data().unwrap().len() as u64, length);
    assert!(body.is_end_stream());
}

#[test]
fn a_dispatch_and_its_body_may_move_between_threads() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let clock = Clock::default();
    let world = Pods::new(&clock, |_, _| vec![events(), chunk("data: a\n\n")]);
    let answer = is_send(executor(world, clock.clone()).execute(dispatch(&pods(1)), Keeper::default()));
    let body = is_send(block_on(&clock, answer).into_body());
    #[expect(clippy::disallowed_methods, reason = "the test is about threads")]
    let read = std::thread::scope(|scope| scope.spawn(|| block_on(&clock, read(body))).join().unwrap());
    assert_eq!(read.0, b"data: a\n\n");
}

#[test]
fn it_runs_on_tokio_on_many_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let clock = Clock::default();
        let world = Pods::new(&clock, |_, _| {
            let chunks = (0..50).flat_map(|_| [Act::Yield, chunk("data: a\n\n")]);
            [Act::Yield, events()].into_iter().chain(chunks).collect()
        });
        let (executor, pods) = (executor(world.clone(), clock.clone()), pods(3));
        let tasks: Vec<_> = (0..200)
            .map(|_| {
                let answer = executor.execute(dispatch(&pods), ());
                tokio::spawn(async move { read(answer.await.into_body()).await.0.len() })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), 50 * 9);
        }
        assert_eq!((world.seen.live.load(SeqCst), clock.asleep()), (0, 0));
    });
}
