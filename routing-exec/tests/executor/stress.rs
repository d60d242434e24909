//! Ten thousand dispatches at once over a fleet where everything goes wrong: every client gets one end, and all comes to rest.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::executor_world::*;
use http_body::Body;
use pointsman_test_support::SplitMix64;
use routing_core::{FailurePolicy, OpenBreakers, PlanStep, Pod, Role, RoutingPlan};
use routing_exec::handoff::Plain;
use routing_exec::{
    BreakerConfig, Breakers, Dispatch, DispatchOutcome, Executor, RetryBudget, Timer, TransportExecutor,
};

const RUNS: usize = 10_000;

fn millis(rng: &mut SplitMix64, most: usize) -> Duration {
    Duration::from_millis(rng.below(most) as u64)
}

/// What a pod does this time.
fn acts(rng: &mut SplitMix64) -> Vec<Act> {
    let mut acts = vec![Act::Wait(millis(rng, 500))];
    match rng.below(20) {
        0 => return vec![Act::Refuse],
        1 => acts.push(Act::Hang),
        2 => acts.push(Act::Cut),
        _ => {}
    }
    acts.push(match rng.below(20) {
        0 => head(500, "application/json"),
        1 => head(429, "application/json"),
        2 => head(400, "application/json"),
        3..=6 => head(200, "application/json"),
        _ => events(),
    });
    for at in 0..rng.below(12) {
        match rng.below(60) {
            0 => acts.push(Act::Cut),
            1 => acts.push(Act::Hang),
            2 => acts.push(Act::Wait(Duration::from_secs(rng.below(60) as u64))),
            3 => acts.push(chunk("")),
            4 => acts.push(chunk("data: half")),
            _ => acts.push(Act::Yield),
        }
        acts.push(Act::Wait(millis(rng, 50)));
        acts.push(chunk(&format!("data: {at}\n\n")));
    }
    acts
}

/// How a client saw its request end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    Broken,
    Left,
}

/// A client that reads, at its own pace, and may leave.
async fn client<B: Body<Data = bytes::Bytes> + Unpin>(
    answer: impl Future<Output = http::Response<B>>,
    clock: Clock,
    mut rng: SplitMix64,
) -> End {
    let leaves = (rng.below(5) == 0).then(|| clock.now() + millis(&mut rng, 2_000));
    let slow = rng.below(10) == 0;
    let reading = async {
        let mut body = answer.await.into_body();
        loop {
            match std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                None => return End::Complete,
                Some(Err(_)) => return End::Broken,
                Some(Ok(_)) if slow => sleep(&clock, clock.now() + millis(&mut rng, 5_000)).await,
                Some(Ok(_)) => {}
            }
        }
    };
    let Some(leaves) = leaves else { return reading.await };
    let (mut reading, mut leaving) = (Box::pin(reading), Box::pin(sleep(&clock, leaves)));
    std::future::poll_fn(move |cx| match reading.as_mut().poll(cx) {
        Poll::Ready(end) => Poll::Ready(end),
        Poll::Pending => leaving.as_mut().poll(cx).map(|()| End::Left),
    })
    .await
}

type Queue = Arc<Mutex<VecDeque<usize>>>;

struct Task(usize, Queue);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push_back(self.0);
    }
}

type Job = Pin<Box<dyn Future<Output = End> + Send>>;

/// Runs all to their ends, each only when it was woken; time passes when nobody is.
fn run_all(clock: &Clock, jobs: Vec<Job>) -> Vec<End> {
    let queue = Queue::default();
    queue.lock().unwrap().extend(0..jobs.len());
    let wakers: Vec<Waker> = (0..jobs.len()).map(|at| Arc::new(Task(at, Arc::clone(&queue))).into()).collect();
    let mut ends = vec![None; jobs.len()];
    let mut jobs: Vec<Option<Job>> = jobs.into_iter().map(Some).collect();
    let mut left = jobs.len();
    while left > 0 {
        let next = queue.lock().unwrap().pop_front();
        let Some(at) = next else {
            assert!(clock.advance_to_next(), "{left} runs will never end");
            continue;
        };
        let Some(job) = &mut jobs[at] else { continue };
        if let Poll::Ready(end) = job.as_mut().poll(&mut Context::from_waker(&wakers[at])) {
            assert!(ends[at].replace(end).is_none(), "one end");
            jobs[at] = None;
            left -= 1;
        }
    }
    ends.into_iter().flatten().collect()
}

fn plan(rng: &mut SplitMix64, pods: &[Pod]) -> RoutingPlan {
    let mut pick = |count: usize| -> Vec<Pod> {
        let first = rng.below(pods.len());
        (0..count).map(|nth| pods[(first + nth) % pods.len()]).collect()
    };
    let (prefill, decode) = (pick(2), pick(3));
    let policy = match rng.below(4) {
        0 => FailurePolicy::NextCandidate,
        1 => FailurePolicy::Skip,
        2 => FailurePolicy::Replan,
        _ => FailurePolicy::Fail,
    };
    let prefill = PlanStep::new("prefill", Role::Prefill, &prefill).on_failure(policy);
    let decode = PlanStep::new("decode", Role::Decode, &decode);
    if rng.below(2) == 0 { RoutingPlan::new(1, [decode]) } else { RoutingPlan::new(1, [prefill, decode]) }
}

#[test]
fn ten_thousand_dispatches_each_end_once_and_everything_comes_to_rest() {
    let clock = Clock::default();
    let pods = pods(32);
    let drawn = AtomicU64::new(0);
    let world = Pods::new(&clock, move |_, _| acts(&mut SplitMix64::new(drawn.fetch_add(1, SeqCst))));
    let open_breakers = Arc::new(OpenBreakers::new());
    let breakers: Arc<Breakers> = Arc::new(Breakers::new(BreakerConfig::default(), Arc::clone(&open_breakers)));
    let executor = TransportExecutor::with_breakers(world.clone(), clock.clone(), Arc::clone(&breakers));
    let mut dispatch_config = dispatch_config();
    dispatch_config.retry_budget = Some(Arc::new(RetryBudget::default()));
    let keeper = Keeper::default();
    let mut rng = SplitMix64::new(11);
    let jobs = (0..RUNS).map(|_| {
        let deadline = clock.now() + Duration::from_secs(20) + millis(&mut rng, 200_000);
        dispatch_config.handoff = match rng.below(3) {
            0 => Arc::new(Plain::default()),
            1 => Arc::new(OneUse),
            _ => Arc::new(Meeting),
        };
        let dispatch =
            Dispatch::new(dispatch_config.clone(), request().deadline(deadline), plan(&mut rng, &pods), Vec::new());
        let replanned = Some(plan(&mut rng, &pods)).filter(|_| rng.below(2) == 0);
        let answer = executor.execute(dispatch, Keeper(Arc::clone(&keeper.0), replanned));
        let (clock, rng, begins) = (clock.clone(), rng.fork(), clock.now() + millis(&mut rng, 3_000));
        let job: Job = Box::pin(async move {
            sleep(&clock, begins).await;
            client(answer, clock, rng).await
        });
        job
    });
    let jobs = jobs.collect();
    let ends = run_all(&clock, jobs);

    assert_eq!(ends.len(), RUNS);
    let reports = keeper.0.reports.lock().unwrap();
    assert_eq!(reports.len(), RUNS, "one report for each");
    assert_eq!(keeper.0.holds.load(SeqCst), 0, "nothing is held");
    assert!(keeper.0.held_ever.load(SeqCst) > RUNS / 2);
    assert_eq!((world.seen.live.load(SeqCst), clock.asleep()), (0, 0), "nothing is under way");
    let left = ends.iter().filter(|end| **end == End::Left).count();
    let gone = reports.iter().filter(|report| report.outcome == DispatchOutcome::ClientDisconnected).count();
    assert!(left > RUNS / 20 && gone.abs_diff(left) < RUNS / 100, "{left} left, {gone} were seen to");
    for end in [End::Complete, End::Broken] {
        assert!(ends.contains(&end), "{end:?} happened");
    }
    // No permit is left: ours and the executor's are the last to know of the breakers.
    assert_eq!(Arc::strong_count(&breakers), 2);
    // Given time, every circuit lets a pod be tried out, as many at once as were never tried, and closes.
    clock.advance(Duration::from_secs(3_600));
    for _ in 0..2 {
        for pod in &pods {
            let permit = breakers.admit(*pod, clock.now()).expect("a free place");
            breakers.record(
                permit.admission(),
                &routing_exec::BreakerSample::Success(Some(Duration::from_millis(1))),
                clock.now(),
            );
            drop(permit);
        }
    }
    assert!(open_breakers.opened().is_empty());
}
