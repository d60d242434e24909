//! A batch whose work moves, changes its size and grows while it runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use routing_core::Pod;
use routing_core::batch::{BatchPlan, Cohort, PodPlan};
use routing_exec::batch::{
    BatchGuard, BatchRunner, BatchRunnerConfig, BatchSource, CohortStart, ConcurrencyLimit, RequestSize, ResultOrder,
};
use routing_exec::{ClientRequest, Timer, TransportExecutor};

use crate::executor_world::{Clock, block_on, chunk, dispatch_config, head, pods};
use crate::world::*;

fn together(requests: u32) -> BatchRunnerConfig {
    BatchRunnerConfig::default()
        .limit(ConcurrencyLimit::default().requests(requests))
        .cohort_start(CohortStart::Together)
}

#[test]
fn who_runs_dry_takes_over_what_is_not_begun() {
    for order in [ResultOrder::Completion, ResultOrder::Index] {
        let took = [false, true].map(|steals| {
            let (clock, pods) = (Clock::default(), pods(3));
            // The last one is four times as slow.
            let fleet = Fleet::new(&clock, 3, |pod, index, _| answers(index, if pod == 2 { 4_000 } else { 1_000 }));
            let config = together(2).order(order).work_stealing(steals);
            let began = clock.now();
            let mut runner = runner(&clock, &fleet, &pods, 120, Made::new(5), config);
            let (results, error) = run_all(&clock, &mut runner);
            assert_eq!((results.len(), error), (120, None));
            let mut sent = fleet.log.indices();
            sent.sort_unstable();
            assert_eq!(sent, (0..120).collect::<Vec<_>>(), "each once");
            assert_eq!(runner.progress().moved > 0, steals);
            (clock.now() - began).as_secs_f64()
        });
        // Forty of 4 s, two at a time; against 120 by pods of 2, 2 and half a request a second.
        assert_eq!(took[0], 80.0);
        assert!(took[1] < 1.25 * 120.0 / 4.5, "{took:?}");
    }
}

#[test]
fn what_is_more_urgent_comes_first_on_every_pod() {
    let (clock, pods) = (Clock::default(), pods(2));
    let fleet = Fleet::new(&clock, 2, |_, index, _| answers(index, 100));
    // All that is urgent is one pod's, and named last.
    let mut plan = BatchPlan::default();
    let cohorts = |places: std::ops::Range<u32>, tier: u32| {
        let places: Vec<u32> = places.collect();
        places.chunks(4).map(|part| Cohort::new(0, part.to_vec(), 0).tier(tier)).collect::<Vec<_>>()
    };
    plan.pods.push(PodPlan::new(pods[0], cohorts(0..40, 1)));
    plan.pods.push(PodPlan::new(pods[1], [cohorts(40..60, 1), cohorts(60..100, 0)].concat()));
    let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
    let mut runner =
        BatchRunner::new(executor, clock.clone(), dispatch_config(), Made::new(4), 100, plan).config(together(2));
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!((results.len(), error), (100, None));
    let urgent = |index: &u32| *index >= 60;
    let by = |pod: Pod| fleet.log.sent_to(pod).iter().filter(|index| urgent(index)).count();
    assert!(by(pods[0]) >= 12, "the other one takes its part: {}", by(pods[0]));
    let order = fleet.log.indices();
    let last = order.iter().rposition(urgent).unwrap();
    let others = order[..last].iter().filter(|index| !urgent(index)).count();
    assert!(others <= 6, "{others} that are not urgent were begun before the last urgent one");
}

/// Requests of this size, as is expected.
struct Sized(Made, RequestSize);

impl BatchSource for Sized {
    fn size(&self, _: u32) -> RequestSize {
        self.1
    }

    fn request(&mut self, index: u32) -> ClientRequest {
        self.0.request(index)
    }

    fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan> {
        self.0.replan(rest, living)
    }
}

#[test]
fn answers_that_are_shorter_than_expected_let_more_in() {
    let (clock, pods) = (Clock::default(), pods(1));
    let fleet = Fleet::new(&clock, 1, |_, index, _| answers(index, 100));
    let plan = split(&(0..200).collect::<Vec<_>>(), &pods, 1);
    let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
    let config = together(100).limit(ConcurrencyLimit::default().requests(100).tokens(Some(800)));
    // Far longer answers than will come.
    let source = Sized(Made::new(1), RequestSize { prompt: 10, output: 190 });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let mut runner = BatchRunner::new(executor, clock.clone(), dispatch_config(), source, 200, plan)
        .config(config)
        .on_progress(move |progress| told.lock().unwrap().push(progress.in_flight));
    assert_eq!(run_all(&clock, &mut runner).0.len(), 200);
    assert!(seen.lock().unwrap()[0] <= 4, "four of 200 tokens, as long as nothing is known");
    assert!(fleet.log.most()[0] >= 12, "and many of 15, once it is: {:?}", fleet.log.most());
}

#[test]
fn a_pod_that_pushes_back_is_given_less() {
    let (clock, pods) = (Clock::default(), pods(1));
    let at_once = Arc::new(Mutex::new((0_u32, 0_u32)));
    let counted = Arc::clone(&at_once);
    // It answers eight a second, and refuses whatever comes beyond that.
    let (time, began) = (clock.clone(), clock.now());
    let fleet = Fleet::new(&clock, 1, move |_, index, _| {
        let second = (time.now() - began).as_secs() as u32;
        let mut counted = counted.lock().unwrap();
        *counted = if counted.0 == second { (second, counted.1 + 1) } else { (second, 1) };
        if counted.1 > 8 { vec![head(429, "application/json"), chunk("{}")] } else { answers(index, 1_000) }
    });
    let config = together(64).max_attempts(50);
    let mut runner = runner(&clock, &fleet, &pods, 200, Made::new(1), config);
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!((results.len(), error), (200, None));
    assert!(results.iter().all(|result| result.is_success()));
    let bound = runner.progress().pods[0].bound;
    assert!(bound < 32, "{bound} at a time");
}

#[test]
fn requests_that_come_later_are_planned_and_done() {
    for order in [ResultOrder::Completion, ResultOrder::Index] {
        let (clock, pods) = (Clock::default(), pods(2));
        let fleet = Fleet::new(&clock, 2, |_, index, _| answers(index, 100));
        let source = Made::new(4);
        let mut runner = runner(&clock, &fleet, &pods, 20, source.clone(), together(2).order(order));
        // Before it begins, in the middle, and after its end.
        runner.extend(10);
        let mut results = Vec::new();
        for _ in 0..15 {
            results.push(block_on(&clock, runner.next()).unwrap().unwrap());
        }
        runner.extend(30);
        results.extend(run_all(&clock, &mut runner).0);
        assert_eq!(results.len(), 60);
        runner.extend(5);
        results.extend(run_all(&clock, &mut runner).0);
        let mut indices: Vec<u32> = results.iter().map(|result| result.index).collect();
        if order == ResultOrder::Completion {
            indices.sort_unstable();
        }
        assert_eq!(indices, (0..65).collect::<Vec<_>>());
        let planned: Vec<Vec<u32>> = source.replans.lock().unwrap().iter().map(|(rest, _)| rest.clone()).collect();
        assert_eq!(planned, [(20..30).collect::<Vec<_>>(), (30..60).collect(), (60..65).collect()]);
        assert_eq!(runner.progress().completed(), 65);
        assert!(run_all(&clock, &mut runner).0.is_empty(), "and then it is over");
    }
}

#[test]
fn what_a_pod_that_hangs_has_not_begun_is_taken_over_without_any_event() {
    let (clock, pods) = (Clock::default(), pods(2));
    // The second one takes an hour for each. When the first one is done, moving a question is not worth reading the document again.
    let fleet = Fleet::new(&clock, 2, |pod, index, _| answers(index, if pod == 1 { 3_600_000 } else { 100 }));
    let mut plan = BatchPlan::default();
    let mut about_it = Cohort::new(2_000, vec![1, 2], 0);
    about_it.new_tokens = vec![10, 10];
    plan.pods.push(PodPlan::new(pods[0], vec![Cohort::new(0, vec![0], 0)]));
    plan.pods.push(PodPlan::new(pods[1], vec![about_it]));
    let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
    let source = Sized(Made::new(1), RequestSize { prompt: 32_010, output: 5 });
    let mut runner = BatchRunner::new(executor, clock.clone(), dispatch_config(), source, 3, plan).config(together(1));
    let began = clock.now();
    let mut next = || block_on(&clock, runner.next()).unwrap().unwrap().index;
    assert_eq!([next(), next()], [0, 2]);
    let took = clock.now() - began;
    assert!((Duration::from_secs(1)..Duration::from_secs(60)).contains(&took), "{took:?}");
}

/// A pod whose host admits nothing there.
struct Closed(Made, Pod);

impl BatchSource for Closed {
    fn size(&self, index: u32) -> RequestSize {
        self.0.size(index)
    }

    fn admit(&mut self, pod: Pod, _: u32) -> Option<BatchGuard> {
        (pod != self.1).then(|| Box::new(()) as BatchGuard)
    }

    fn request(&mut self, index: u32) -> ClientRequest {
        self.0.request(index)
    }

    fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan> {
        self.0.replan(rest, living)
    }
}

#[test]
fn what_is_not_admitted_on_one_pod_is_done_by_another() {
    let (clock, pods) = (Clock::default(), pods(2));
    let fleet = Fleet::new(&clock, 2, |_, index, _| answers(index, 100));
    let plan = split(&(0..40).collect::<Vec<_>>(), &pods, 5);
    let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
    let source = Closed(Made::new(5), pods[1]);
    let mut runner = BatchRunner::new(executor, clock.clone(), dispatch_config(), source, 40, plan).config(together(2));
    let began = clock.now();
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!((results.len(), error), (40, None));
    assert!(fleet.log.sent_to(pods[1]).is_empty());
    assert!(clock.now() - began < Duration::from_secs(10), "{:?}", clock.now() - began);
}
