//! A batch whose pods die and come to life.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use proptest::prelude::*;
use routing_exec::batch::{BatchError, BatchRunner, BatchRunnerConfig, CohortStart, ConcurrencyLimit, ResultOrder};
use routing_exec::{BreakerConfig, Breakers, RetryBudget, TransportExecutor};

use crate::executor_world::{Act, Clock, block_on, chunk, dispatch_config, head, pods};
use crate::world::*;

fn config() -> BatchRunnerConfig {
    BatchRunnerConfig::default().limit(ConcurrencyLimit::default().requests(4).tokens(None))
}

/// Pod 1 answers so many requests, then cuts what it has and is gone.
fn dies_after(clock: &Clock, number: usize, pods: usize, answered: usize) -> Fleet {
    let count = AtomicUsize::new(0);
    Fleet::new(clock, pods, move |pod, index, _| {
        if pod != number {
            return answers(index, 20);
        }
        match count.fetch_add(1, SeqCst) {
            nth if nth < answered => answers(index, 20),
            nth if nth < answered + 4 => vec![Act::Wait(Duration::from_millis(5)), Act::Cut],
            _ => vec![Act::Refuse],
        }
    })
}

#[test]
fn a_dead_pods_remainder_is_done_by_the_others_once() {
    let (clock, pods) = (Clock::default(), pods(3));
    let (fleet, source) = (dies_after(&clock, 1, 3, 6), Made::new(5));
    // Or else others take over what it has while it is tried again.
    let config = config().cohort_start(CohortStart::Together).work_stealing(false);
    let mut runner = runner(&clock, &fleet, &pods, 90, source.clone(), config);
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!((results.len(), error), (90, None));
    assert!(results.iter().all(|result| result.is_success()));
    let replans = source.replans.lock().unwrap();
    let (rest, living) = &replans[0];
    assert_eq!(*living, [pods[0], pods[2]]);
    assert_eq!(*rest, (36..60).collect::<Vec<_>>(), "all that it had not answered, what was under way included");
    let indices: Vec<u32> = essence(&results).into_iter().map(|(index, _)| index).collect();
    assert_eq!(indices, (0..90).collect::<Vec<_>>());
    assert!(!runner.progress().pods[1].is_up);
}

#[test]
fn a_pod_that_answers_now_and_then_is_not_dead() {
    let (clock, pods) = (Clock::default(), pods(2));
    let fleet = Fleet::new(&clock, 2, |_, index, before| match (index % 3, before) {
        (0, _) => answers(index, 3),
        (_, 0) => vec![Act::Refuse],
        _ => answers(index, 3),
    });
    let one = config().limit(ConcurrencyLimit::default().requests(1).tokens(None));
    let mut runner = runner(&clock, &fleet, &pods, 30, Made::new(5), one);
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!((results.len(), error, runner.progress().replans), (30, None, 0));
}

#[test]
fn a_pod_whose_circuit_is_open_is_dead_at_once() {
    let (clock, pods) = (Clock::default(), pods(2));
    // Its errors are answers, so it would not be dead by itself.
    let fleet = Fleet::new(&clock, 2, |pod, index, _| if pod == 1 { says(500) } else { answers(index, 20) });
    let breaker = BreakerConfig::default().failure_threshold(4);
    let breakers: Arc<Breakers> = Arc::new(Breakers::new(breaker, Arc::default()));
    let executor: TransportExecutor<_, _> = TransportExecutor::with_breakers(fleet.clone(), clock.clone(), breakers);
    let plan = split(&(0..40).collect::<Vec<_>>(), &pods, 5);
    let source = Made::new(5);
    let never = config().probe_interval(None).max_attempts(8);
    let mut runner =
        BatchRunner::new(executor, clock.clone(), dispatch_config(), source.clone(), 40, plan).config(never);
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!((results.len(), error), (40, None));
    assert!(results.iter().all(|result| result.is_success()));
    assert_eq!(source.replans.lock().unwrap()[0].1, [pods[0]]);
    assert!(fleet.log.sent_to(pods[1]).len() < 12);
}

#[test]
fn when_no_pod_lives_it_waits_and_ends_with_an_error() {
    let (clock, pods) = (Clock::default(), pods(2));
    let fleet = Fleet::new(&clock, 2, |_, index, _| if index < 3 { answers(index, 1) } else { vec![Act::Refuse] });
    let mut runner = runner(&clock, &fleet, &pods, 20, Made::new(5), config());
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!(essence(&results).iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(error, Some(BatchError::NoPods { remaining: 17 }));
    let waited = runner.progress().elapsed;
    assert!(waited >= Duration::from_secs(300) && waited < Duration::from_secs(400), "{waited:?}");
    assert_eq!(clock.asleep(), 0);
    assert!(block_on(&clock, runner.next()).is_none());
}

#[test]
fn a_pod_that_comes_back_is_found_and_given_its_share() {
    let (clock, pods) = (Clock::default(), pods(2));
    let (is_down, sent) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let down = Arc::clone(&is_down);
    let fleet = Fleet::new(&clock, 2, move |pod, index, _| {
        // Down from the start, and back when the other one has done fifty.
        if pod == 0 && sent.fetch_add(1, SeqCst) == 50 {
            down.store(false, SeqCst);
        }
        if pod == 1 && down.load(SeqCst) { vec![Act::Refuse] } else { answers(index, 4_000) }
    });
    let mut runner = runner(&clock, &fleet, &pods, 200, Made::new(5), config());
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!((results.len(), error), (200, None));
    let progress = runner.progress();
    assert!(progress.pods[1].succeeded > 50, "{:?}", progress.pods);
    // It died, it was not there after half a minute, it was there after a whole one.
    assert!(progress.pods[1].is_up && progress.replans == 3, "{progress:?}");
}

#[test]
fn a_host_may_say_that_a_pod_has_come() {
    let (clock, pods) = (Clock::default(), pods(3));
    let fleet = Fleet::new(&clock, 3, |_, index, _| answers(index, 100));
    let mut runner = runner(&clock, &fleet, &pods[..1], 60, Made::new(5), config());
    for _ in 0..4 {
        assert!(block_on(&clock, runner.next()).unwrap().is_ok());
    }
    runner.join(pods[2]);
    assert_eq!(run_all(&clock, &mut runner).0.len(), 56);
    assert!(fleet.log.sent_to(pods[2]).len() > 20);
}

#[test]
fn a_pod_that_comes_before_the_first_poll_is_planned_for() {
    let (clock, pods) = (Clock::default(), pods(2));
    for known in [0, 1] {
        let fleet = Fleet::new(&clock, 2, |_, index, _| answers(index, 100));
        let source = Made::new(5);
        let mut runner = runner(&clock, &fleet, &pods[..known], 40, source.clone(), config());
        runner.join(pods[1]);
        let (results, error) = run_all(&clock, &mut runner);
        assert_eq!((results.len(), error), (40, None));
        assert!(results.iter().all(|result| result.is_success()));
        let living = if known == 0 { vec![pods[1]] } else { pods.clone() };
        assert_eq!(*source.replans.lock().unwrap(), [((0..40).collect(), living)]);
        assert_eq!(fleet.log.sent_to(pods[1]).len(), 40 / (known + 1));
    }
}

#[test]
fn a_pod_of_the_plan_that_joins_before_the_first_poll_changes_nothing() {
    let (clock, pods) = (Clock::default(), pods(2));
    let (fleet, source) = (Fleet::new(&clock, 2, |_, index, _| answers(index, 100)), Made::new(5));
    let mut runner = runner(&clock, &fleet, &pods, 40, source.clone(), config());
    runner.join(pods[1]);
    assert_eq!(run_all(&clock, &mut runner).0.len(), 40);
    assert!(source.replans.lock().unwrap().is_empty());
}

#[test]
fn a_request_that_kills_its_pods_is_given_up_before_the_fleet_is() {
    let (clock, pods) = (Clock::default(), pods(4));
    let fleet = Fleet::new(&clock, 4, |_, index, _| {
        if index == 7 {
            vec![head(200, "application/json"), chunk("{"), Act::Wait(Duration::from_secs(9)), Act::Cut]
        } else {
            answers(index, 20)
        }
    });
    let (results, error) = run_all(&clock, &mut runner(&clock, &fleet, &pods, 40, Made::new(1), config()));
    assert_eq!((results.len(), error), (40, None));
    let failed: Vec<_> = results.iter().filter(|result| !result.is_success()).collect();
    assert_eq!((failed.len(), failed[0].index, failed[0].attempts), (1, 7, 5));
    assert_eq!(&*failed[0].outcome.as_ref().unwrap_err().code, "response_truncated");
}

#[test]
fn retries_are_paid_for_if_there_is_a_budget() {
    let (clock, pods) = (Clock::default(), pods(1));
    let fleet = Fleet::new(&clock, 1, |_, _, _| says(500));
    let mut dispatch_config = dispatch_config();
    dispatch_config.retry_budget = Some(Arc::new(RetryBudget::new(0.5, 0.0, 100.0)));
    let plan = split(&(0..20).collect::<Vec<_>>(), &pods, 1);
    let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
    let mut runner =
        BatchRunner::new(executor, clock.clone(), dispatch_config, Made::new(1), 20, plan).config(config());
    let (results, _) = run_all(&clock, &mut runner);
    assert_eq!(results.len(), 20);
    // Every request pays for half a retry, and so does every retry.
    assert!((18..=20).contains(&runner.progress().retries), "{:?}", runner.progress());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever pods do, every request has one result, and what was answered well is the right answer.
    #[test]
    fn whatever_pods_do_every_request_has_one_result(
        acts in prop::collection::vec(0_u8..12, 1..200),
        requests in 1_u32..60,
        in_flight in 1_u32..6,
        max_outstanding in 1_usize..40,
        by_place in any::<bool>(),
        failure_threshold in 1_u32..4,
    ) {
        let (clock, pods) = (Clock::default(), pods(3));
        let nth = AtomicUsize::new(0);
        let fleet = Fleet::new(&clock, 3, move |_, index, _| {
            let nth = nth.fetch_add(1, SeqCst);
            match acts[nth % acts.len()] {
                // After a while they are well, or there would be no end.
                _ if nth > 400 => answers(index, 1),
                0 => vec![Act::Refuse],
                1 => vec![Act::Wait(Duration::from_millis(3)), Act::Cut],
                2 => vec![head(200, "application/json"), chunk("{"), Act::Cut],
                3 => says(500),
                4 => says(429),
                5 => says(400),
                6 => vec![Act::Hang],
                7 => vec![head(200, "application/json"), Act::Yield, chunk(&answer(index))],
                other => answers(index, u64::from(other)),
            }
        });
        let order = if by_place { ResultOrder::Index } else { ResultOrder::Completion };
        let limit = ConcurrencyLimit::default().requests(in_flight).tokens(None);
        let config = config().limit(limit).max_outstanding(max_outstanding).order(order).failure_threshold(failure_threshold).no_pods_timeout(Duration::from_secs(100_000));
        let mut runner = runner(&clock, &fleet, &pods, requests, Made::new(4), config);
        let (results, error) = run_all(&clock, &mut runner);
        prop_assert_eq!(error, None);
        let indices: Vec<u32> = essence(&results).into_iter().map(|(index, _)| index).collect();
        prop_assert_eq!(indices, (0..requests).collect::<Vec<_>>());
        if by_place {
            prop_assert!(results.iter().map(|result| result.index).is_sorted());
        }
        for result in results.iter().filter(|result| result.is_success()) {
            prop_assert_eq!(&result.outcome.as_ref().unwrap().body, &answer(result.index));
        }
        prop_assert!(fleet.log.most().iter().all(|most| *most <= in_flight as usize));
        prop_assert_eq!(clock.asleep(), 0, "all is at rest");
        let progress = runner.progress();
        prop_assert_eq!((progress.in_flight, progress.queued, progress.buffered), (0, 0, 0));
    }
}
