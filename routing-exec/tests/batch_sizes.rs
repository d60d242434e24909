//! A batch whose requests are not of one size, or not of one size for long.

mod batch_world;
mod driver_world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use routing_core::Pod;
use routing_core::batch::{BatchConfig, BatchCosts, BatchPlan, BatchPlanner, BatchPod, BatchRequest, Nothing};
use routing_exec::batch::{BatchError, BatchResult, BatchRunConfig, BatchRunner, BatchWork, Bound, Lead, Order, Size};
use routing_exec::{ClientRequest, Driver, Timer};

use batch_world::*;
use driver_world::{Act, Clock, pods, settings};

fn config() -> BatchRunConfig {
    BatchRunConfig { bound: Bound { requests: 4, tokens: None }, lead: Lead::Together, ..BatchRunConfig::default() }
}

/// Says something else whenever it is asked.
struct Fickle(Made, Arc<AtomicU32>);

impl BatchWork for Fickle {
    fn size(&self, _: u32) -> Size {
        let nth = self.1.fetch_add(1, SeqCst);
        Size { prompt: nth * 7919 % 1_000, output: nth % 3 }
    }

    fn request(&mut self, place: u32) -> ClientRequest {
        self.0.request(place)
    }

    fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan> {
        self.0.replan(rest, living)
    }
}

#[test]
fn a_host_may_change_its_mind_about_sizes() {
    let (clock, pods) = (Clock::default(), pods(3));
    for order in [Order::AsTheyCome, Order::ByPlace] {
        let nth = AtomicUsize::new(0);
        let fleet = Fleet::new(&clock, 3, move |pod, place, before| match (pod, nth.fetch_add(1, SeqCst)) {
            // One dies now and then, so that what waits and what is under way changes hands.
            (1, nth) if nth % 4 > 0 => vec![Act::Wait(Duration::from_millis(2)), Act::Cut],
            _ if before == 0 && place % 5 == 0 => says(500),
            _ => answers(place, 10),
        });
        let asked = Arc::<AtomicU32>::default();
        let plan = split(&(0..60).collect::<Vec<_>>(), &pods, 5);
        let driver: Driver<_, _> = Driver::new(fleet.clone(), clock.clone());
        let work = Fickle(Made::new(5), Arc::clone(&asked));
        let config =
            BatchRunConfig { order, attempts: 100, bound: Bound { requests: 4, tokens: Some(2_000) }, ..config() };
        let mut runner = BatchRunner::new(driver, settings(), work, 60, plan).config(config);
        let (results, error) = run_all(&clock, &mut runner);
        assert_eq!((results.len(), error), (60, None));
        assert!(asked.load(SeqCst) > 120 && runner.progress().replans > 0);
        let progress = runner.progress();
        assert_eq!((progress.in_flight, progress.waiting), (0, 0));
    }
}

/// Every tenth request has room with one pod only.
struct Uneven {
    made: Made,
    large: Pod,
}

fn is_large(place: u32) -> bool {
    place % 10 == 3
}

/// Of an 8B model on one H200.
const COSTS: BatchCosts = BatchCosts {
    prompt_token: 28.8e-6,
    attended_pair: 8.51e-10,
    step: 17.1e-3,
    output_token: 60.7e-6,
    context_token: 3.34e-7,
};

/// The planner's own word, for pods of which one has room for all and the other for short ones.
fn uneven(rest: &[u32], living: &[Pod], large: Pod) -> BatchPlan {
    let room = |pod: Pod| if pod == large { 10_000 } else { 500 };
    let pods: Vec<BatchPod> = living.iter().map(|&pod| BatchPod { pod, kv_tokens: room(pod), speed: 1.0 }).collect();
    let request = |place: &u32| {
        let Size { prompt, output } = size(*place);
        BatchRequest { chain: &[], prompt_tokens: prompt, output_tokens: output, deadline: None }
    };
    let requests: Vec<_> = rest.iter().map(request).collect();
    let mut plan =
        BatchPlanner::new(BatchConfig::new(COSTS)).plan(&requests, &pods, &mut Nothing).expect("it can be planned");
    let given = plan.pods.iter_mut().flat_map(|pod| &mut pod.cohorts).flat_map(|cohort| &mut cohort.requests);
    let refused = plan.infeasible.iter_mut().map(|infeasible| &mut infeasible.request);
    given.chain(refused).for_each(|place| *place = rest[*place as usize]);
    plan
}

fn size(place: u32) -> Size {
    Size { prompt: if is_large(place) { 1_000 } else { 10 + place }, output: 10 }
}

impl BatchWork for Uneven {
    fn size(&self, place: u32) -> Size {
        size(place)
    }

    fn request(&mut self, place: u32) -> ClientRequest {
        self.made.request(place)
    }

    fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan> {
        Some(uneven(rest, living, self.large))
    }
}

/// Sixty requests over two pods of which the larger one is away until then, or for ever.
fn with_the_large_one_away(back: Option<Duration>, config: BatchRunConfig) -> (Vec<BatchResult>, Duration, Log) {
    let (clock, pods) = (Clock::default(), pods(2));
    let began = clock.now();
    let (is_back, time) = (back.map(|back| began + back), clock.clone());
    let fleet = Fleet::new(&clock, 2, move |pod, place, _| match pod {
        0 if is_back.is_none_or(|back: Instant| time.now() < back) => vec![Act::Refuse],
        1 if is_large(place) => says(400),
        _ => answers(place, 4_000),
    });
    let plan = uneven(&(0..60).collect::<Vec<_>>(), &pods, pods[0]);
    let driver: Driver<_, _> = Driver::new(fleet.clone(), clock.clone());
    let work = Uneven { made: Made::new(5), large: pods[0] };
    let mut runner = BatchRunner::new(driver, settings(), work, 60, plan).config(config);
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!((results.len(), error), (60, None));
    (results, clock.now() - began, fleet.log)
}

#[test]
fn what_only_a_pod_that_is_away_has_room_for_waits_for_it() {
    for order in [Order::AsTheyCome, Order::ByPlace] {
        for (window, seconds) in [(64, 20), (64, 80), (4, 20), (4, 200)] {
            let config = BatchRunConfig { order, window, ..config() };
            let (results, _, _) = with_the_large_one_away(Some(Duration::from_secs(seconds)), config);
            assert!(results.iter().all(|result| result.is_success()), "{order:?} {window} {seconds}");
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
    let waiting = (0..60).filter(|place| begun(at).all(|begun| begun != *place));
    assert_eq!(sent[at].1, waiting.min_by_key(|place| size(*place).prompt).unwrap(), "{sent:?}");
}

#[test]
fn patience_ends_for_a_pod_that_stays_away() {
    let (results, took, _) = with_the_large_one_away(None, config());
    let failed: Vec<u32> = results.iter().filter(|result| !result.is_success()).map(|result| result.place).collect();
    assert_eq!(failed, [3, 13, 23, 33, 43, 53]);
    assert!(results.iter().filter_map(|result| result.outcome.as_ref().err()).all(|why| &*why.code == "too_long"));
    assert!((300..400).contains(&took.as_secs()), "{took:?}");
    // If nobody looks after it, there is nothing to wait for.
    let (results, took, _) = with_the_large_one_away(None, BatchRunConfig { revive: None, ..config() });
    assert_eq!(results.iter().filter(|result| !result.is_success()).count(), 6);
    assert!(took < Duration::from_secs(100), "{took:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever pods do, every request has one result, also those that have room with one pod only; that one is not waited
    /// for without end.
    #[test]
    fn whatever_pods_do_large_requests_have_one_result_too(
        acts in prop::collection::vec(0_u8..8, 1..100),
        in_flight in 1_u32..6,
        window in 1_usize..40,
        by_place in any::<bool>(),
        dead_after in 1_u32..4,
        patience in 0_u64..200,
    ) {
        let (clock, pods) = (Clock::default(), pods(3));
        let nth = AtomicUsize::new(0);
        let fleet = Fleet::new(&clock, 3, move |pod, place, _| {
            let nth = nth.fetch_add(1, SeqCst);
            match acts[nth % acts.len()] {
                0 | 1 if nth < 300 => vec![Act::Refuse],
                2 if nth < 300 => vec![Act::Wait(Duration::from_millis(3)), Act::Cut],
                3 if nth < 300 => says(500),
                _ if pod != 0 && is_large(place) => says(400),
                other => answers(place, u64::from(other) * 1_000),
            }
        });
        let plan = uneven(&(0..40).collect::<Vec<_>>(), &pods, pods[0]);
        let order = if by_place { Order::ByPlace } else { Order::AsTheyCome };
        let (bound, patience) = (Bound { requests: in_flight, tokens: None }, Duration::from_secs(patience));
        let config = BatchRunConfig { bound, window, order, dead_after, patience, ..config() };
        let work = Uneven { made: Made::new(5), large: pods[0] };
        let driver: Driver<_, _> = Driver::new(fleet.clone(), clock.clone());
        let mut runner = BatchRunner::new(driver, settings(), work, 40, plan).config(config);
        let (results, error) = run_all(&clock, &mut runner);
        let progress = runner.progress();
        match error {
            None => {
                let places: Vec<u32> = essence(&results).into_iter().map(|(place, _)| place).collect();
                prop_assert_eq!(places, (0..40).collect::<Vec<_>>());
                prop_assert_eq!((progress.in_flight, progress.waiting, progress.held), (0, 0, 0));
            }
            Some(error) => {
                prop_assert!(matches!(error, BatchError::NoPods { .. }), "all were away for too long: {}", error);
                prop_assert_eq!((progress.in_flight, progress.done() + progress.waiting), (0, 40));
            }
        }
        let failed = results.iter().filter_map(|result| Some((result.place, &*result.outcome.as_ref().err()?.code)));
        prop_assert!(failed.filter(|(_, code)| *code == "too_long").all(|(place, _)| is_large(place)));
        prop_assert!(fleet.log.most().iter().all(|most| *most <= in_flight as usize));
        prop_assert_eq!(clock.asleep(), 0, "all is at rest");
    }
}
