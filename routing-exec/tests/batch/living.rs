//! A batch whose pods live: bounds, order, retries, back-pressure, progress.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use routing_core::batch::{BatchPlan, Cohort, PodPlan};
use routing_exec::batch::{BatchRunner, BatchRunnerConfig, CohortStart, ConcurrencyLimit, ResultOrder};
use routing_exec::{RetryOn, TransportExecutor};

use crate::executor_world::{Act, Clock, block_on, chunk, dispatch_config, events, head, pods};
use crate::world::*;

fn config() -> BatchRunnerConfig {
    BatchRunnerConfig::default()
}

fn together(requests: u32) -> BatchRunnerConfig {
    config().limit(ConcurrencyLimit::default().requests(requests).tokens(None)).cohort_start(CohortStart::Together)
}

#[test]
fn no_pod_has_more_than_its_bound() {
    for (limit, most) in [
        (ConcurrencyLimit::default().requests(4).tokens(None), 4),
        (ConcurrencyLimit::default().requests(100).tokens(Some(50)), 3),
        // Larger than what there is room for, and sent alone.
        (ConcurrencyLimit::default().requests(100).tokens(Some(5)), 1),
    ] {
        let (clock, pods) = (Clock::default(), pods(3));
        let fleet = Fleet::new(&clock, 3, |_, index, _| answers(index, u64::from(index * 7919 % 50)));
        let config = together(0).limit(limit);
        let mut runner = runner(&clock, &fleet, &pods, 60, Made::new(5), config);
        let (results, error) = run_all(&clock, &mut runner);
        assert_eq!((results.len(), error), (60, None));
        assert_eq!(fleet.log.most(), [most; 3], "as many as may be, and no more");
    }
}

#[test]
fn a_pod_may_have_a_bound_of_its_own() {
    let (clock, pods) = (Clock::default(), pods(2));
    let fleet = Fleet::new(&clock, 2, |_, index, _| answers(index, 10));
    let mut runner = runner(&clock, &fleet, &pods, 40, Made::new(5), together(4))
        .limit(pods[1], ConcurrencyLimit::default().requests(2).tokens(None));
    assert_eq!(run_all(&clock, &mut runner).0.len(), 40);
    assert_eq!(fleet.log.most(), [4, 2]);
}

#[test]
fn requests_are_begun_in_the_order_of_the_plan() {
    for in_flight in [1, 5] {
        let (clock, pods) = (Clock::default(), pods(2));
        let fleet = Fleet::new(&clock, 2, |_, index, _| answers(index, u64::from(index * 31 % 17)));
        let mut plan = BatchPlan::default();
        let orders: [Vec<u32>; 2] = [(0..20).map(|n| n * 7 % 20).collect(), (0..20).map(|n| 20 + n * 3 % 20).collect()];
        for (pod, order) in pods.iter().zip(&orders) {
            plan.pods.push(PodPlan::new(*pod, order.chunks(4).map(|part| Cohort::new(1, part.to_vec(), 0)).collect()));
        }
        let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
        let mut runner = BatchRunner::new(executor, clock.clone(), dispatch_config(), Made::new(4), 40, plan)
            .config(together(in_flight).work_stealing(false));
        assert_eq!(run_all(&clock, &mut runner).0.len(), 40);
        for (pod, order) in pods.iter().zip(&orders) {
            assert_eq!(fleet.log.sent_to(*pod), *order);
        }
    }
}

#[test]
fn a_cohort_waits_for_its_first_answer_and_others_pass_it() {
    let (clock, pods) = (Clock::default(), pods(1));
    // Three cohorts of three. The first one's leader takes longest.
    let fleet = Fleet::new(&clock, 1, |_, index, _| answers(index, if index == 0 { 100 } else { 10 }));
    let config = together(8).cohort_start(CohortStart::LeaderFirst);
    let mut ahead = runner(&clock, &fleet, &pods, 9, Made::new(3), config);
    assert_eq!(run_all(&clock, &mut ahead).0.len(), 9);
    assert_eq!(fleet.log.indices(), [0, 3, 6, 4, 5, 7, 8, 1, 2]);

    let fleet = Fleet::new(&clock, 1, |_, index, _| answers(index, 10));
    assert_eq!(run_all(&clock, &mut runner(&clock, &fleet, &pods, 9, Made::new(3), together(8))).0.len(), 9);
    assert_eq!(fleet.log.indices(), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_streams_first_piece_is_enough_for_its_cohort() {
    let (clock, pods) = (Clock::default(), pods(1));
    let fleet = Fleet::new(&clock, 1, |_, index, _| {
        let piece = || chunk("data: {}\n\n");
        vec![events(), piece(), Act::Wait(Duration::from_secs(u64::from(3 - index))), piece()]
    });
    let config = together(8).cohort_start(CohortStart::LeaderFirst);
    let (results, _) = run_all(&clock, &mut runner(&clock, &fleet, &pods, 3, Made::new(3), config));
    let order: Vec<u32> = results.iter().map(|result| result.index).collect();
    assert_eq!(order, [2, 1, 0], "all were under way at once");
}

#[test]
fn a_cohort_whose_first_fails_for_good_has_another_go_ahead() {
    let (clock, pods) = (Clock::default(), pods(1));
    let fleet = Fleet::new(&clock, 1, |_, index, _| if index == 0 { says(400) } else { answers(index, 10) });
    let config = together(8).cohort_start(CohortStart::LeaderFirst);
    assert_eq!(run_all(&clock, &mut runner(&clock, &fleet, &pods, 4, Made::new(4), config)).0.len(), 4);
    assert_eq!(fleet.log.most(), [2], "0, then 1, then 2 and 3");
}

#[test]
fn what_fails_for_good_is_a_result() {
    let (clock, pods) = (Clock::default(), pods(2));
    let fleet = Fleet::new(&clock, 2, |_, index, before| match index {
        3 => says(500),
        5 => says(400),
        7 if before < 2 => says(429),
        9 => vec![head(200, "application/json"), Act::Chunk(vec![b' '; 2_000].into())],
        _ => answers(index, 5),
    });
    let config = together(4).max_attempts(3).max_response_bytes(1_000);
    let mut runner = runner(&clock, &fleet, &pods, 12, Made::new(4), config);
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!(error, None);
    let of = |index: u32| results.iter().find(|result| result.index == index).unwrap();
    let status =
        |index: u32| of(index).outcome.as_ref().map(|answer| answer.status).map_err(|why| why.code.to_string());
    assert_eq!((status(3), of(3).attempts), (Ok(500), 3));
    assert_eq!((status(5), of(5).attempts), (Ok(400), 1), "wrong everywhere");
    assert_eq!((status(7), of(7).attempts), (Ok(200), 3));
    assert_eq!((status(9), of(9).attempts), (Err("response_too_large".to_owned()), 1));
    assert!(results.iter().all(|result| result.is_success() != [3, 5, 9].contains(&result.index)));
    let progress = runner.progress();
    assert_eq!((progress.succeeded, progress.failed, progress.retries), (9, 3, 4));
    assert_eq!((progress.in_flight, progress.queued, progress.buffered, progress.replans), (0, 0, 0, 0));
}

#[test]
fn which_failures_are_tried_again_is_the_hosts_to_say() {
    let (clock, pods) = (Clock::default(), pods(1));
    let fleet = Fleet::new(&clock, 1, |_, index, before| match index {
        0 if before == 0 => says(500),
        1 if before == 0 => says(429),
        _ => answers(index, 1),
    });
    let retry_on = RetryOn::default().server_error(false);
    let mut runner = runner(&clock, &fleet, &pods, 2, Made::new(2), together(1).retry_on(retry_on));
    let results = essence(&run_all(&clock, &mut runner).0);
    assert_eq!(results[0].1.as_ref().unwrap().0, 500);
    assert_eq!(results[1].1.as_ref().unwrap().0, 200);
}

#[test]
fn what_a_plan_leaves_out_is_a_result_too() {
    let (clock, pods) = (Clock::default(), pods(1));
    let fleet = Fleet::new(&clock, 1, |_, index, _| answers(index, 1));
    // Out of bounds, twice, and one that is missing.
    let mut plan = BatchPlan::default();
    plan.pods.push(PodPlan::new(pods[0], vec![Cohort::new(0, vec![2, 0, 9, 2], 0)]));
    let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
    let mut runner = BatchRunner::new(executor, clock.clone(), dispatch_config(), Made::new(1), 3, plan);
    let results = essence(&run_all(&clock, &mut runner).0);
    assert_eq!(results.len(), 3);
    assert_eq!(results[1].1, Err("unplanned".to_owned()));
    assert_eq!(fleet.log.indices(), [2, 0]);
}

#[test]
fn a_consumer_that_stops_stops_the_sends() {
    let (clock, pods) = (Clock::default(), pods(2));
    let fleet = Fleet::new(&clock, 2, |_, index, _| answers(index, 1));
    let config = together(4).max_outstanding(8);
    let mut runner = runner(&clock, &fleet, &pods, 100, Made::new(5), config);
    for taken in 1..=20 {
        assert!(block_on(&clock, runner.next()).unwrap().is_ok());
        let progress = runner.progress();
        assert!(progress.in_flight + progress.buffered <= 8, "{progress:?}");
        assert!(fleet.log.indices().len() <= taken + 8);
    }
    let sent = fleet.log.indices().len();
    clock.advance(Duration::from_secs(60));
    assert_eq!(fleet.log.indices().len(), sent, "nobody polls, nothing is sent");
    let rest = run_all(&clock, &mut runner).0;
    assert_eq!(rest.len(), 80);
}

/// Polled, but never rid of a result: what is ready stays with it. A host may poll several runners in turn.
#[test]
fn dropping_it_cancels_what_is_under_way() {
    let (clock, pods) = (Clock::default(), pods(1));
    let fleet = Fleet::new(&clock, 1, |_, index, _| answers(index, 1_000));
    let mut runner = runner(&clock, &fleet, &pods, 10, Made::new(5), together(3));
    assert!(runner.poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(clock.asleep() > 0);
    drop(runner);
    assert_eq!(clock.asleep(), 0);
}

#[test]
fn progress_counts_and_foresees() {
    let (clock, pods) = (Clock::default(), pods(2));
    // The second is four times as slow: it is done last.
    let fleet = Fleet::new(&clock, 2, |pod, index, _| answers(index, if pod == 0 { 1_000 } else { 4_000 }));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let config = together(1).work_stealing(false);
    let mut runner = runner(&clock, &fleet, &pods, 40, Made::new(1), config)
        .on_progress(move |progress| told.lock().unwrap().push(progress.clone()));
    assert_eq!(runner.progress().eta, None, "nobody knows yet");
    assert_eq!(run_all(&clock, &mut runner).0.len(), 40);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.iter().map(|progress| progress.completed()).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
    for progress in seen.iter().filter(|progress| progress.pods[1].succeeded > 0) {
        let whole = (progress.elapsed + progress.eta.unwrap()).as_secs_f64();
        // As sure as there are answers: of the one under way nobody knows how far it is.
        let unsure = 80.0 / progress.pods[1].succeeded as f64;
        assert!((80.0 - whole).abs() <= unsure, "20 of 4 s each: {whole}");
    }
    let last = seen.last().unwrap();
    assert_eq!((last.prompt_tokens, last.cached_tokens, last.output_tokens), (400, 320, 200));
    assert_eq!((last.elapsed, last.eta), (Duration::from_secs(80), Some(Duration::ZERO)));
    let busy: Vec<u64> = last.pods.iter().map(|pod| pod.busy.as_secs()).collect();
    assert_eq!(busy, [20, 80]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the plan's order, what it leaves out and the pods' speed, results come in order and no more of them are held
    /// than may be. What a plan leaves out has its results at once, whatever the max_outstanding.
    #[test]
    fn in_order_holds_no_more_than_its_window(
        max_outstanding in 1_usize..12,
        order in Just((0..40_u32).collect::<Vec<_>>()).prop_shuffle(),
        left_out in prop::collection::btree_set(0..40_u32, 0..20),
        times in prop::collection::vec(0_u64..20, 40),
        cohort_start in prop_oneof![Just(CohortStart::LeaderFirst), Just(CohortStart::Together)],
    ) {
        let (clock, pods) = (Clock::default(), pods(2));
        let fleet = Fleet::new(&clock, 2, move |_, index, _| answers(index, times[index as usize]));
        let mut plan = BatchPlan::default();
        let order: Vec<u32> = order.into_iter().filter(|index| !left_out.contains(index)).collect();
        let most = max_outstanding.max(left_out.len() + 1);
        for (pod, part) in pods.iter().zip(order.chunks(20)) {
            plan.pods.push(PodPlan::new(*pod, part.chunks(3).map(|part| Cohort::new(1, part.to_vec(), 0)).collect()));
        }
        let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
        let config = together(3).max_outstanding(max_outstanding).cohort_start(cohort_start).order(ResultOrder::Index);
        let mut runner = BatchRunner::new(executor, clock.clone(), dispatch_config(), Made::new(3), 40, plan).config(config);
        for index in 0..40 {
            let result = block_on(&clock, async {
                std::future::poll_fn(|cx| {
                    let polled = runner.poll_next(cx);
                    let progress = runner.progress();
                    let taken = usize::from(polled.is_ready());
                    assert!(progress.in_flight + progress.buffered + taken <= most, "{progress:?}");
                    polled
                }).await
            });
            let result = result.unwrap().unwrap();
            prop_assert_eq!((result.index, result.is_success()), (index, !left_out.contains(&index)));
        }
        prop_assert!(matches!(runner.poll_next(&mut Context::from_waker(Waker::noop())), Poll::Ready(None)));
        prop_assert!(fleet.log.most().iter().all(|most| *most <= 3));
    }
}
