//! A batch whose requests are not of one size, or not of one size for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use routing_core::Pod;
use routing_core::batch::{BatchConfig, BatchCosts, BatchPlan, BatchPlanner, BatchPod, BatchRequest, ColdCaches};
use routing_exec::batch::{
    BatchError, BatchResult, BatchRunner, BatchRunnerConfig, BatchSource, CohortStart, ConcurrencyLimit, RequestSize,
    ResultOrder,
};
use routing_exec::{ClientRequest, Timer, TransportExecutor};

use crate::executor_world::{Act, Clock, dispatch_config, pods};
use crate::world::*;

fn config() -> BatchRunnerConfig {
    BatchRunnerConfig::default()
        .limit(ConcurrencyLimit::default().requests(4).tokens(None))
        .cohort_start(CohortStart::Together)
}

/// Says something else whenever it is asked.
struct Fickle(Made, Arc<AtomicU32>);

impl BatchSource for Fickle {
    fn size(&self, _: u32) -> RequestSize {
        let nth = self.1.fetch_add(1, SeqCst);
        RequestSize { prompt: nth * 7919 % 1_000, output: nth % 3 }
    }

    fn request(&mut self, index: u32) -> ClientRequest {
        self.0.request(index)
    }

    fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan> {
        self.0.replan(rest, living)
    }
}

#[test]
fn a_host_may_change_its_mind_about_sizes() {
    let (clock, pods) = (Clock::default(), pods(3));
    for order in [ResultOrder::Completion, ResultOrder::Index] {
        let nth = AtomicUsize::new(0);
        let fleet = Fleet::new(&clock, 3, move |pod, index, before| match (pod, nth.fetch_add(1, SeqCst)) {
            // One dies now and then, so that what waits and what is under way changes hands.
            (1, nth) if nth % 4 > 0 => vec![Act::Wait(Duration::from_millis(2)), Act::Cut],
            _ if before == 0 && index % 5 == 0 => says(500),
            _ => answers(index, 10),
        });
        let asked = Arc::<AtomicU32>::default();
        let plan = split(&(0..60).collect::<Vec<_>>(), &pods, 5);
        let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
        let source = Fickle(Made::new(5), Arc::clone(&asked));
        let config =
            config().order(order).max_attempts(100).limit(ConcurrencyLimit::default().requests(4).tokens(Some(2_000)));
        let mut runner = BatchRunner::new(executor, clock.clone(), dispatch_config(), source, 60, plan).config(config);
        let (results, error) = run_all(&clock, &mut runner);
        assert_eq!((results.len(), error), (60, None));
        assert!(asked.load(SeqCst) > 60 && runner.progress().replans > 0);
        let progress = runner.progress();
        assert_eq!((progress.in_flight, progress.queued), (0, 0));
    }
}

/// Every tenth request has room with one pod only.
struct Uneven {
    made: Made,
    large: Pod,
}

fn is_large(index: u32) -> bool {
    index % 10 == 3
}

/// Of an 8B model on one H200.
const COSTS: BatchCosts = BatchCosts::ZERO
    .prompt_token(28.8e-6)
    .attended_pair(8.51e-10)
    .step(17.1e-3)
    .output_token(60.7e-6)
    .context_token(3.34e-7);

/// The planner's own word, for pods of which one has room for all and the other for short ones.
fn uneven(rest: &[u32], living: &[Pod], large: Pod) -> BatchPlan {
    let room = |pod: Pod| if pod == large { 10_000 } else { 500 };
    let pods: Vec<BatchPod> = living.iter().map(|&pod| BatchPod { pod, kv_tokens: room(pod), speed: 1.0 }).collect();
    let request = |index: &u32| {
        let RequestSize { prompt, output } = size(*index);
        BatchRequest { chain: &[], prompt_tokens: prompt, output_tokens: output, deadline: None }
    };
    let requests: Vec<_> = rest.iter().map(request).collect();
    let mut plan =
        BatchPlanner::new(BatchConfig::new(COSTS)).plan(&requests, &pods, &mut ColdCaches).expect("it can be planned");
    let given = plan.pods.iter_mut().flat_map(|pod| &mut pod.cohorts).flat_map(|cohort| &mut cohort.requests);
    let refused = plan.infeasible.iter_mut().map(|infeasible| &mut infeasible.request);
    given.chain(refused).for_each(|index| *index = rest[*index as usize]);
    plan
}

fn size(index: u32) -> RequestSize {
    RequestSize { prompt: if is_large(index) { 1_000 } else { 10 + index }, output: 10 }
}

impl BatchSource for Uneven {
    fn size(&self, index: u32) -> RequestSize {
        size(index)
    }

    fn request(&mut self, index: u32) -> ClientRequest {
        self.made.request(index)
    }

    fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan> {
        Some(uneven(rest, living, self.large))
    }
}

/// Sixty requests over two pods of which the larger one is away until then, or for ever.
fn with_the_large_one_away(back: Option<Duration>, config: BatchRunnerConfig) -> (Vec<BatchResult>, Duration, Log) {
    let (clock, pods) = (Clock::default(), pods(2));
    let began = clock.now();
    let (is_back, time) = (back.map(|back| began + back), clock.clone());
    let fleet = Fleet::new(&clock, 2, move |pod, index, _| match pod {
        0 if is_back.is_none_or(|back: Instant| time.now() < back) => vec![Act::Refuse],
        1 if is_large(index) => says(400),
        _ => answers(index, 4_000),
    });
    let plan = uneven(&(0..60).collect::<Vec<_>>(), &pods, pods[0]);
    let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
    let source = Uneven { made: Made::new(5), large: pods[0] };
    let mut runner = BatchRunner::new(executor, clock.clone(), dispatch_config(), source, 60, plan).config(config);
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!((results.len(), error), (60, None));
    (results, clock.now() - began, fleet.log)
}

#[test]
fn what_only_a_pod_that_is_away_has_room_for_waits_for_it() {
    for order in [ResultOrder::Completion, ResultOrder::Index] {
        for (max_outstanding, seconds) in [(64, 20), (64, 80), (4, 20), (4, 200)] {
            let config = config().order(order).max_outstanding(max_outstanding);
            let (results, _, _) = with_the_large_one_away(Some(Duration::from_secs(seconds)), config);
            assert!(results.iter().all(|result| result.is_success()), "{order:?} {max_outstanding} {seconds}");
        }
    }
}

#[test]
fn a_pod_is_looked_after_with_the_smallest_request() {
    let (_, _, log) = with_the_large_one_away(Some(Duration::from_secs(20)), config());
    let sent = log.sent();
    let is_small = |at: usize| sent[at].0.id().index() == 1;
    let begun = |until: usize| (0..until).filter(|at| is_small(*at)).map(|at| sent[at].1);
    // It dies at once. The small one has begun more than its bound when it is looked after.
    let at = (0..sent.len()).find(|&at| !is_small(at) && begun(at).count() > 8).unwrap();
    let waiting = (0..60).filter(|index| begun(at).all(|begun| begun != *index));
    assert_eq!(sent[at].1, waiting.min_by_key(|index| size(*index).prompt).unwrap(), "{sent:?}");
}

#[test]
fn patience_ends_for_a_pod_that_stays_away() {
    let (results, duration, _) = with_the_large_one_away(None, config());
    let failed: Vec<u32> = results.iter().filter(|result| !result.is_success()).map(|result| result.index).collect();
    assert_eq!(failed, [3, 13, 23, 33, 43, 53]);
    assert!(results.iter().filter_map(|result| result.outcome.as_ref().err()).all(|why| &*why.code == "too_long"));
    assert!((300..400).contains(&duration.as_secs()), "{duration:?}");
    // If nobody looks after it, there is nothing to wait for.
    let (results, duration, _) = with_the_large_one_away(None, config().probe_interval(None));
    assert_eq!(results.iter().filter(|result| !result.is_success()).count(), 6);
    assert!(duration < Duration::from_secs(100), "{duration:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever pods do, every request has one result, also those that have room with one pod only; that one is not waited
    /// for without end.
    #[test]
    fn whatever_pods_do_large_requests_have_one_result_too(
        acts in prop::collection::vec(0_u8..8, 1..100),
        in_flight in 1_u32..6,
        max_outstanding in 1_usize..40,
        by_place in any::<bool>(),
        failure_threshold in 1_u32..4,
        no_pods_timeout in 0_u64..200,
    ) {
        let (clock, pods) = (Clock::default(), pods(3));
        let nth = AtomicUsize::new(0);
        let fleet = Fleet::new(&clock, 3, move |pod, index, _| {
            let nth = nth.fetch_add(1, SeqCst);
            match acts[nth % acts.len()] {
                0 | 1 if nth < 300 => vec![Act::Refuse],
                2 if nth < 300 => vec![Act::Wait(Duration::from_millis(3)), Act::Cut],
                3 if nth < 300 => says(500),
                _ if pod != 0 && is_large(index) => says(400),
                other => answers(index, u64::from(other) * 1_000),
            }
        });
        let plan = uneven(&(0..40).collect::<Vec<_>>(), &pods, pods[0]);
        let order = if by_place { ResultOrder::Index } else { ResultOrder::Completion };
        let (limit, no_pods_timeout) = (ConcurrencyLimit::default().requests(in_flight).tokens(None), Duration::from_secs(no_pods_timeout));
        let config = config().limit(limit).max_outstanding(max_outstanding).order(order).failure_threshold(failure_threshold).no_pods_timeout(no_pods_timeout);
        let source = Uneven { made: Made::new(5), large: pods[0] };
        let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
        let mut runner = BatchRunner::new(executor, clock.clone(), dispatch_config(), source, 40, plan).config(config);
        let (results, error) = run_all(&clock, &mut runner);
        let progress = runner.progress();
        match error {
            None => {
                let indices: Vec<u32> = essence(&results).into_iter().map(|(index, _)| index).collect();
                prop_assert_eq!(indices, (0..40).collect::<Vec<_>>());
                prop_assert_eq!((progress.in_flight, progress.queued, progress.buffered), (0, 0, 0));
            }
            Some(error) => {
                prop_assert!(matches!(error, BatchError::NoPods { .. }), "all were away for too long: {}", error);
                prop_assert_eq!((progress.in_flight, progress.completed() + progress.queued), (0, 40));
            }
        }
        let failed = results.iter().filter_map(|result| Some((result.index, &*result.outcome.as_ref().err()?.code)));
        prop_assert!(failed.filter(|(_, code)| *code == "too_long").all(|(index, _)| is_large(index)));
        prop_assert!(fleet.log.most().iter().all(|most| *most <= in_flight as usize));
        prop_assert_eq!(clock.asleep(), 0, "all is at rest");
    }
}
