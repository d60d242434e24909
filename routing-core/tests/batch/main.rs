//! What the docs of `batch` promise, held against a walk through every pod's cache, block by block.

mod checker;
mod queues;
mod work_stealing;

use std::num::NonZeroU32;
use std::time::Duration;

use checker::walk;
use kv_index::{BlockHash, Event, EventSemantics, Parent, Stored};
use proptest::prelude::*;
use queues::{Queue, common, documents, pods, queue};
use routing_core::batch::{
    BatchConfig, BatchCosts, BatchError, BatchPlan, BatchPlanner, BatchPod, BatchRequest, ColdCaches, IndexedCaches,
    InfeasibleReason, Mixing,
};

/// Of an 8B model on one H200.
const COSTS: BatchCosts = BatchCosts::ZERO
    .prompt_token(28.8e-6)
    .attended_pair(8.51e-10)
    .step(17.1e-3)
    .output_token(60.7e-6)
    .context_token(3.34e-7);

fn config() -> BatchConfig {
    BatchConfig::new(COSTS).block_tokens(NonZeroU32::new(queues::BLOCK).expect("not zero"))
}

/// With steps as small as the queues' prompts are: one that begins is a step on for all that run.
fn plan_in_small_steps(requests: &[BatchRequest<'_>], pods: &[BatchPod]) -> BatchPlan {
    let config = config().step_tokens(NonZeroU32::new(32).expect("not zero"));
    BatchPlanner::new(config).plan(requests, pods, &mut ColdCaches).expect("nothing is wrong")
}

fn plan(requests: &[BatchRequest<'_>], pods: &[BatchPod]) -> BatchPlan {
    BatchPlanner::new(config()).plan(requests, pods, &mut ColdCaches).expect("nothing is wrong")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever the queue and the pods: nothing is lost, no pod gets what it cannot hold, a dull cache computes no more
    /// than was planned, cohorts share what they say, and may drop what they say.
    #[test]
    fn plans_hold_up(queue in queue(), fleet in prop::collection::vec((20_u64..400, 0.5_f64..2.0), 1..6), apart: bool) {
        let requests = queue.requests();
        let (_, pods) = pods(&fleet);
        let mixing = if apart { Mixing::Apart } else { Mixing::default() };
        let planner = BatchPlanner::new(config().mixing(mixing));
        let plan = planner.plan(&requests, &pods, &mut ColdCaches).unwrap();
        prop_assert_eq!(&plan, &planner.plan(&requests, &pods, &mut ColdCaches).unwrap());
        let walked = walk(&plan, &requests, &pods, queues::BLOCK);
        for (part, computed) in plan.pods.iter().zip(&walked.computed) {
            prop_assert!(*computed <= part.prefill_tokens, "planned {}, computed {computed}", part.prefill_tokens);
        }
        prop_assert!(plan.distinct_tokens() <= walked.computed.iter().sum());
        check_cohorts(&plan, &requests)?;
        check_finishes(&plan, &requests)?;
    }
}

/// The literal meaning of what cohorts say: compared request by request.
fn check_cohorts(plan: &BatchPlan, requests: &[BatchRequest<'_>]) -> Result<(), TestCaseError> {
    let chain = |number: &u32| requests[*number as usize].chain;
    for pod in &plan.pods {
        for (at, cohort) in pod.cohorts.iter().enumerate() {
            let first = chain(&cohort.requests[0]);
            for number in &cohort.requests {
                prop_assert!(common(first, chain(number)) >= cohort.shared_blocks as usize);
            }
            let later = pod.cohorts[at + 1..].iter().flat_map(|cohort| &cohort.requests);
            let needed =
                later.flat_map(|later| cohort.requests.iter().map(|own| common(chain(own), chain(later)))).max();
            prop_assert_eq!(cohort.keep_blocks as usize, needed.unwrap_or(0));
        }
    }
    Ok(())
}

/// Requests are late exactly where the plan says so, and pods end with their last.
fn check_finishes(plan: &BatchPlan, requests: &[BatchRequest<'_>]) -> Result<(), TestCaseError> {
    for pod in &plan.pods {
        let last = pod.requests().filter_map(|number| plan.finish(number)).max().unwrap_or_default();
        prop_assert_eq!(last, pod.takes);
    }
    for (number, request) in (0..).zip(requests) {
        let reported = plan.infeasible.iter().find(|infeasible| infeasible.request == number).map(|found| found.why);
        let late = plan.finish(number).and_then(|finish| finish.checked_sub(request.deadline?));
        let late = late.filter(|late| !late.is_zero()).map(InfeasibleReason::Late);
        let expected = if plan.finish(number).is_none() { Some(InfeasibleReason::TooLong) } else { late };
        prop_assert_eq!(reported, expected);
    }
    Ok(())
}

#[test]
fn every_document_is_computed_once_and_pods_end_together() {
    let queue = documents(300, 8, 30);
    let requests = queue.requests();
    let (_, pods) = pods(&[(2_000, 1.0); 8]);
    let plan = plan(&requests, &pods);
    let walked = walk(&plan, &requests, &pods, queues::BLOCK);
    let computed: u64 = walked.computed.iter().sum();
    assert!(computed as f64 <= 1.02 * plan.distinct_tokens() as f64, "{computed} of {}", plan.distinct_tokens());
    assert_eq!(walked.again.iter().sum::<u64>(), 0, "a prefix had to be computed again");
    assert!(plan.imbalance() < 0.01, "{}", plan.imbalance());
    assert!(plan.infeasible.is_empty());
}

#[test]
fn one_huge_document_is_cut_and_computed_once_by_each_pod() {
    let queue = documents(1, 400, 100);
    let requests = queue.requests();
    let (_, pods) = pods(&[(4_000, 1.0); 4]);
    let plan = plan(&requests, &pods);
    let path = 100 * u64::from(queues::BLOCK);
    assert_eq!(plan.prefill_tokens(), plan.distinct_tokens() + 3 * path);
    assert!(plan.imbalance() < 0.02, "{}", plan.imbalance());
}

#[test]
fn a_pod_of_twice_the_speed_gets_twice_the_work() {
    let queue = documents(300, 4, 30);
    let requests = queue.requests();
    let (_, pods) = pods(&[(4_000, 1.0), (4_000, 2.0)]);
    let plan = plan(&requests, &pods);
    let [slow, fast] = [0, 1].map(|pod| plan.pods[pod].prefill_tokens as f64);
    assert!((1.8..2.2).contains(&(fast / slow)), "{slow} and {fast}");
    assert!(plan.imbalance() < 0.01, "{}", plan.imbalance());
}

#[test]
fn long_requests_go_to_pods_that_hold_them() {
    let mut queue = documents(40, 4, 10);
    queue.rows.iter_mut().step_by(7).for_each(|row| row.output = 3_000);
    let requests = queue.requests();
    let (_, pods) = pods(&[(50, 1.0), (0, 1.0), (1_000, 1.0)]);
    let plan = plan(&requests, &pods);
    walk(&plan, &requests, &pods, queues::BLOCK);
    assert!(plan.infeasible.is_empty());
    assert!(plan.pods[0].requests().count() > 0, "the small one takes what it can");
    assert_eq!(plan.pods[1].requests().count(), 0);
    let long = |number: u32| requests[number as usize].output_tokens == 3_000;
    assert_eq!(plan.pods[2].requests().filter(|&number| long(number)).count(), queue.rows.len().div_ceil(7));
}

#[test]
fn what_no_pod_can_hold_is_reported_and_the_rest_is_planned() {
    let mut queue = documents(3, 3, 5);
    queue.rows[4].output = 1_000_000;
    let requests = queue.requests();
    let (_, pods) = pods(&[(100, 1.0); 2]);
    let plan = plan(&requests, &pods);
    walk(&plan, &requests, &pods, queues::BLOCK);
    assert_eq!(plan.infeasible.len(), 1);
    assert_eq!((plan.infeasible[0].request, plan.infeasible[0].why), (4, InfeasibleReason::TooLong));
    assert_eq!(plan.finish(4), None);
}

#[test]
fn a_part_of_a_batch_has_the_places_of_the_whole() {
    let mut queue = documents(3, 3, 5);
    queue.rows[4].output = 1_000_000;
    let requests = queue.requests();
    let (_, pods) = pods(&[(4_000, 1.0), (4_000, 1.0)]);
    let part = plan(&requests, &pods);
    let places: Vec<u32> = (0..requests.len() as u32).map(|number| 7 + number * 3).collect();
    let whole = part.clone().at_places(&places);
    for (before, after) in part.pods.iter().zip(&whole.pods) {
        let expected: Vec<u32> = before.requests().map(|number| places[number as usize]).collect();
        assert_eq!(after.requests().collect::<Vec<_>>(), expected);
    }
    assert_eq!((whole.infeasible[0].request, whole.infeasible.len()), (places[4], 1));
    for (number, place) in (0..).zip(&places) {
        assert_eq!((whole.finish(*place), whole.finish(*place + 1)), (part.finish(number), None));
    }
    assert_eq!((whole.distinct_tokens(), whole.makespan()), (part.distinct_tokens(), part.makespan()));
    assert_eq!(BatchPlan::default().at_places(&[]), BatchPlan::default());
}

#[test]
fn pods_get_what_they_hold() {
    let queue = documents(64, 10, 40);
    let requests = queue.requests();
    let (index, pods) = pods(&[(4_000, 1.0); 4]);
    // The last pod holds the first document's blocks, the first pod those of the second.
    for (document, pod) in [(0, 3), (1, 0)] {
        let chain = &requests[document].chain[..40];
        let stored = Stored::new(Parent::Root, chain);
        index.apply(pods[pod].pod, EventSemantics::Membership, &Event::Stored(stored)).unwrap();
    }
    let plan = BatchPlanner::new(config()).plan(&requests, &pods, &mut IndexedCaches::new(&index)).unwrap();
    for (document, pod) in [(0, 3), (1, 0)] {
        let own = (document..requests.len())
            .step_by(64)
            .filter(|&number| plan.pods[pod].requests().any(|n| n == number as u32));
        assert_eq!(own.count(), 10, "document {document}");
    }
    let saved = 2 * 40 * u64::from(queues::BLOCK);
    assert!(plan.prefill_tokens() <= plan.distinct_tokens() - saved + plan.distinct_tokens() / 50);
    assert!(plan.imbalance() < 0.03, "{}", plan.imbalance());
}

#[test]
fn cohorts_are_deeper_than_a_block_that_all_share() {
    let mut queue = documents(40, 6, 20);
    queue.rows.iter_mut().for_each(|row| row.chain.insert(0, BlockHash::new(1)));
    let requests = queue.requests();
    let (_, pods) = pods(&[(4_000, 1.0)]);
    let plan = plan(&requests, &pods);
    assert_eq!(plan.pods[0].cohorts.len(), 40);
    assert!(plan.pods[0].cohorts.iter().all(|cohort| cohort.shared_blocks == 21 && cohort.requests.len() == 6));
    let (last, others) = plan.pods[0].cohorts.split_last().unwrap();
    assert!(others.iter().all(|cohort| cohort.keep_blocks == 1) && last.keep_blocks == 0);
}

#[test]
fn answers_that_would_outlast_all_others_are_begun_first() {
    let mut queue = documents(100, 6, 20);
    // The last ones in the order of their prompts, of each document one: no document as a whole is long to generate.
    let mut order: Vec<usize> = (0..queue.rows.len()).collect();
    order.sort_by_key(|&at| queue.rows[at].chain.clone());
    let long: Vec<usize> = order.iter().rev().step_by(6).take(12).copied().collect();
    long.iter().for_each(|&at| queue.rows[at].output = 120);
    let requests = queue.requests();
    let (_, pods) = pods(&[(8_000, 1.0)]);
    let plan = plan(&requests, &pods);
    let place = |long: &usize| plan.pods[0].requests().position(|request| request as usize == *long).unwrap();
    let places: Vec<usize> = long.iter().map(place).collect();
    assert!(places.iter().all(|place| *place < 256), "all run from the start: {places:?}");
}

#[test]
fn urgent_requests_are_first_and_late_ones_reported_beforehand() {
    let mut queue = documents(100, 5, 20);
    let (_, pods) = pods(&[(2_000, 1.0); 2]);
    let free = plan_in_small_steps(&queue.requests(), &pods);
    // Every 25th is due after a fifth of the time; without care they are done all along.
    let due = free.makespan() / 5;
    queue.rows.iter_mut().step_by(25).for_each(|row| row.deadline = Some(due));
    let requests = queue.requests();
    assert!((0..requests.len()).step_by(25).any(|number| free.finish(number as u32) > Some(due)));
    let urgent = plan_in_small_steps(&requests, &pods);
    assert_eq!(urgent.infeasible, [], "all can be done in time");
    assert!(urgent.makespan() < free.makespan().mul_f64(1.05), "at hardly any price");

    // Nobody can do it in no time.
    queue.rows[7].deadline = Some(Duration::from_nanos(1));
    let requests = queue.requests();
    let late = plan_in_small_steps(&requests, &pods);
    assert_eq!(late.infeasible.iter().map(|late| late.request).collect::<Vec<_>>(), [7]);
    walk(&late, &requests, &pods, queues::BLOCK);
}

/// Deadlines that all of some documents have: each pod does some of them first.
#[test]
fn urgent_work_is_shared_by_all_pods() {
    let mut queue = documents(40, 20, 20);
    let (_, pods) = pods(&[(2_000, 1.0); 4]);
    let free = plan_in_small_steps(&queue.requests(), &pods);
    let due = free.makespan() / 2;
    let urgent = |at: &usize| at % 40 < 4;
    assert!((0..800).filter(urgent).any(|at| free.finish(at as u32) > Some(due)), "some would be late");
    queue.rows.iter_mut().enumerate().filter(|(at, _)| urgent(at)).for_each(|(_, row)| row.deadline = Some(due));
    let requests = queue.requests();
    assert_eq!(plan_in_small_steps(&requests, &pods).infeasible, []);
}

#[test]
fn heavy_prompts_and_long_answers_take_turns() {
    let mut queue = documents(60, 4, 60);
    for (at, row) in queue.rows.iter_mut().enumerate() {
        row.output = if at % 60 < 30 { 1 } else { 600 };
    }
    let requests = queue.requests();
    let (_, pods) = pods(&[(8_000, 1.0)]);
    // How much of the answers' tokens lie in the first half of the requests.
    let first_half = |mixing| {
        let plan = BatchPlanner::new(config().mixing(mixing)).plan(&requests, &pods, &mut ColdCaches).unwrap();
        let walked = walk(&plan, &requests, &pods, queues::BLOCK);
        assert!(walked.computed[0] as f64 <= 1.005 * plan.distinct_tokens() as f64, "mixing has its price");
        let order: Vec<u32> = plan.pods[0].requests().collect();
        let outputs = |part: &[u32]| part.iter().map(|&n| f64::from(requests[n as usize].output_tokens)).sum::<f64>();
        let turns = order.windows(2).filter(|pair| (pair[0] % 60 < 30) != (pair[1] % 60 < 30)).count();
        (outputs(&order[..order.len() / 2]) / outputs(&order), turns)
    };
    let (share, turns) = first_half(Mixing::default());
    assert!((0.4..0.7).contains(&share) && turns > 20, "{share} in the first half, {turns} turns");
}

#[test]
fn empty_and_equal_prompts_are_planned_too() {
    let chain = [BlockHash::new(5), BlockHash::new(6)];
    let request = |chain, prompt_tokens| BatchRequest { chain, prompt_tokens, output_tokens: 3, deadline: None };
    let requests = [request(&[][..], 0), request(&chain, 40), request(&[], 9), request(&chain, 40), request(&chain, 3)];
    let (_, pods) = pods(&[(100, 1.0); 2]);
    walk(&plan(&requests, &pods), &requests, &pods, queues::BLOCK);
    assert_eq!(plan(&[], &pods).makespan(), Duration::ZERO);
    assert_eq!(plan(&[], &[]).pods, []);
}

#[test]
fn mistakes_are_told() {
    let Queue { rows } = documents(1, 1, 1);
    let queue = Queue { rows };
    let requests = queue.requests();
    let (_, pods) = pods(&[(100, 1.0)]);
    let refused =
        |config, pods: &[BatchPod]| BatchPlanner::new(config).plan(&requests, pods, &mut ColdCaches).unwrap_err();
    assert_eq!(refused(config(), &[]), BatchError::NoPods { requests: 1 });
    assert_eq!(refused(config(), &[pods[0], pods[0]]), BatchError::TwicePod { pod: pods[0].pod });
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(refused(config(), &[BatchPod { speed, ..pods[0] }]), BatchError::Speed { pod: pods[0].pod });
    }
    let uneven = config().most_imbalance(f64::NAN);
    assert_eq!(refused(uneven, &pods), BatchError::Config { field: "most_imbalance" });
    let idle = config().most_running(0);
    assert_eq!(refused(idle, &pods), BatchError::Config { field: "most_running" });
}
