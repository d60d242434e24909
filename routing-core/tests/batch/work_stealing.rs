//! Plans carried out: every request is given out once, in order, and work moves where it should.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use routing_core::batch::{
    BatchPlan, BatchPlanner, BatchPod, BatchQueues, BatchRequest, CohortStart, ColdCaches, ConcurrencyLimit,
    NextRequest, RequestSize,
};

use crate::queues::{documents, pods, queue};
use crate::{config, plan};

/// What happens to pods, in any order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(usize),
    Answer(usize),
    Finish(usize, u32),
    Fail(usize),
    PushBack(usize),
    Lose(usize),
    Return(usize),
    OutOfOrder(usize, u32),
    Later(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let pod = || 0_usize..3;
    prop_oneof![
        8 => pod().prop_map(Step::Ask),
        2 => pod().prop_map(Step::Answer),
        4 => (pod(), 0_u32..400).prop_map(|(pod, output)| Step::Finish(pod, output)),
        1 => pod().prop_map(Step::Fail),
        1 => pod().prop_map(Step::PushBack),
        1 => (1_usize..3).prop_map(Step::Lose),
        1 => (1_usize..3).prop_map(Step::Return),
        1 => (pod(), 0_u32..60).prop_map(|(pod, request)| Step::OutOfOrder(pod, request)),
        1 => (1_u32..5).prop_map(Step::Later),
    ]
}

/// The literal meaning: who has what under way, what is done, and what nobody has.
struct World<'a> {
    queues: BatchQueues,
    requests: Vec<BatchRequest<'a>>,
    pods: Vec<BatchPod>,
    running: [Vec<NextRequest>; 3],
    done: Vec<u32>,
    lost: [bool; 3],
    now: Duration,
}

fn size(request: &BatchRequest<'_>) -> RequestSize {
    RequestSize { prompt: request.prompt_tokens, output: request.output_tokens }
}

/// Queues of a plan, with so many requests at a time.
fn queues(
    plan: &BatchPlan,
    requests: &[BatchRequest<'_>],
    pods: &[BatchPod],
    start: CohortStart,
    most: u32,
) -> BatchQueues {
    let mut queues = BatchQueues::new(requests.len() as u32, config(), start);
    for pod in pods {
        queues.join(*pod, ConcurrencyLimit::default().requests(most));
    }
    queues.assign(plan, |request| size(&requests[request as usize]));
    queues
}

impl World<'_> {
    fn unassigned(&self) -> Vec<u32> {
        (0..self.requests.len() as u32).filter(|request| self.queues.is_unassigned(*request)).collect()
    }

    /// Plans all that nobody has, for whoever is there.
    fn replan(&mut self) {
        let rest = self.unassigned();
        let pods: Vec<_> = self.pods.iter().zip(self.lost).filter(|(_, lost)| !lost).map(|(pod, _)| *pod).collect();
        let requests: Vec<_> = rest.iter().map(|request| self.requests[*request as usize]).collect();
        let mut plan = BatchPlanner::new(config()).plan(&requests, &pods, &mut ColdCaches).expect("it can be planned");
        let planned = plan.pods.iter_mut().flat_map(|pod| &mut pod.cohorts).flat_map(|cohort| &mut cohort.requests);
        planned.for_each(|request| *request = rest[*request as usize]);
        self.queues.assign(&plan, |request| size(&self.requests[request as usize]));
    }

    fn ask(&mut self, pod: usize) -> Result<bool, TestCaseError> {
        let Some(next) = self.queues.next(pod, self.now) else { return Ok(false) };
        prop_assert!(!self.lost[pod], "a lost pod gets nothing");
        prop_assert!(self.running[pod].is_empty() || self.running[pod].len() < self.queues.bound(pod) as usize);
        prop_assert_eq!(self.queues.listed_for(next.request), Some(pod));
        let request = &self.requests[next.request as usize];
        let room = u64::from(request.prompt_tokens + request.output_tokens);
        prop_assert!(room <= self.pods[pod].kv_tokens, "it has room");
        self.begin(pod, next)?;
        Ok(true)
    }

    fn begin(&mut self, pod: usize, next: NextRequest) -> Result<(), TestCaseError> {
        prop_assert!(!self.done.contains(&next.request));
        prop_assert!(self.running.iter().flatten().all(|running| running.request != next.request));
        self.queues.begin(pod, next, self.now);
        self.running[pod].push(next);
        Ok(())
    }

    fn finish(&mut self, pod: usize, output: Option<u32>) {
        if !self.running[pod].is_empty() {
            let next = self.running[pod].remove(0);
            match output {
                Some(output) => self.queues.done(pod, next, Some(output).filter(|output| *output > 0), self.now),
                None => self.queues.failed(pod, next, self.now),
            }
            self.done.push(next.request);
        }
    }

    fn lose(&mut self, pod: usize) -> Result<(), TestCaseError> {
        self.lost[pod] = true;
        let listed = self.queues.lose(pod);
        prop_assert!(listed.iter().all(|request| self.queues.is_unassigned(*request)));
        for next in std::mem::take(&mut self.running[pod]) {
            self.queues.give_back(next, self.now);
        }
        self.replan();
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let running: usize = self.running.iter().map(Vec::len).sum();
        let all = self.queues.waiting() + running + self.done.len() + self.unassigned().len();
        prop_assert_eq!(all, self.requests.len());
        for pod in 0..3 {
            prop_assert_eq!(self.queues.running(pod), self.running[pod].len());
            prop_assert!(!self.lost[pod] || self.queues.waiting_for(pod) == 0);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_request_is_given_out_once_unless_it_is_given_back(
        queue in queue(),
        fleet in vec((30_u64..200, 0.5_f64..2.0), 2),
        leads: bool,
        most in 1_u32..12,
        steps in vec((step(), 0_u64..500), 0..160),
    ) {
        let mut requests = queue.requests();
        // The first one is never lost, and holds all that any other does.
        let (_, pods) = pods(&[&[(200, 1.0)], &fleet[..]].concat());
        requests.retain(|request| u64::from(request.prompt_tokens + request.output_tokens) <= pods[0].kv_tokens);
        let plan = BatchPlanner::new(config()).plan(&requests, &pods, &mut ColdCaches).unwrap();
        let start = if leads { CohortStart::LeaderFirst } else { CohortStart::Together };
        let queues = queues(&plan, &requests, &pods, start, most);
        let mut world = World {
            queues, requests, pods, running: Default::default(), done: Vec::new(), lost: [false; 3], now: Duration::ZERO,
        };
        for (step, millis) in steps {
            world.now += Duration::from_millis(millis);
            match step {
                Step::Ask(pod) => _ = world.ask(pod)?,
                Step::Answer(pod) => {
                    world.running[pod].first().into_iter().for_each(|next| world.queues.answering(pod, *next));
                }
                Step::Finish(pod, output) => world.finish(pod, Some(output)),
                Step::Fail(pod) => world.finish(pod, None),
                Step::PushBack(pod) => world.queues.push_back(pod),
                Step::Lose(pod) => world.lose(pod)?,
                Step::Return(pod) => {
                    let limit = ConcurrencyLimit::default().requests(most);
                    prop_assert_eq!(world.queues.join(world.pods[pod], limit), Some(pod));
                    world.lost[pod] = false;
                }
                Step::OutOfOrder(pod, request) => {
                    let is_there = world.queues.listed_for(request).is_some();
                    if is_there && !world.lost[pod] && world.queues.has_room(pod, request) {
                        world.begin(pod, NextRequest::alone(request))?;
                    }
                }
                Step::Later(more) => {
                    let same = world.requests.iter().take(more as usize).copied().collect::<Vec<_>>();
                    world.queues.extend(same.len() as u32);
                    world.requests.extend(same);
                    world.replan();
                }
            }
            world.check()?;
        }
        // In the end, whoever is left does all that is left.
        for _ in 0..=4 * world.requests.len() {
            world.now += Duration::from_secs(1);
            for pod in 0..3 {
                while world.ask(pod)? {}
                world.finish(pod, Some(10));
            }
        }
        world.done.sort_unstable();
        prop_assert_eq!(world.done, (0..world.requests.len() as u32).collect::<Vec<_>>());
    }
}

/// Begins all that a pod may begin.
fn begin_all(queues: &mut BatchQueues, pod: usize, now: Duration) -> Vec<u32> {
    let mut begun = Vec::new();
    while let Some(next) = queues.next(pod, now) {
        queues.begin(pod, next, now);
        begun.push(next.request);
    }
    begun
}

#[test]
fn pods_that_keep_pace_keep_what_was_planned() {
    let queue = documents(40, 6, 20);
    let requests = queue.requests();
    let (_, pods) = pods(&[(40_000, 1.0); 4]);
    let plan = plan(&requests, &pods);
    let mut queues = queues(&plan, &requests, &pods, CohortStart::Together, 256);
    // All begin all they have, one after another, before anybody is done.
    let mut orders = [const { Vec::new() }; 4];
    while queues.waiting() > 0 {
        for (pod, order) in
            orders.iter_mut().enumerate().filter(|(pod, _)| queues.waiting_for(*pod) > 0).collect::<Vec<_>>()
        {
            let next = queues.next(pod, Duration::ZERO).expect("its own");
            queues.begin(pod, next, Duration::ZERO);
            order.push(next.request);
        }
    }
    assert_eq!(queues.moved(), 0);
    for (order, part) in orders.iter().zip(&plan.pods) {
        assert_eq!(*order, part.requests().collect::<Vec<_>>());
    }
}

#[test]
fn a_pod_that_runs_dry_takes_whole_cohorts_from_the_end_of_the_longest_list() {
    let queue = documents(40, 6, 20);
    let requests = queue.requests();
    let (_, pods) = pods(&[(4_000, 1.0); 2]);
    let plan = plan(&requests, &pods);
    let mut queues = queues(&plan, &requests, &pods, CohortStart::Together, 1);
    // The first pod is done with all it had before the second has begun.
    let mut now = Duration::ZERO;
    for request in plan.pods[0].requests() {
        let next = queues.next(0, now).expect("its own");
        assert_eq!(next.request, request);
        queues.begin(0, next, now);
        now += Duration::from_millis(100);
        queues.done(0, next, Some(requests[request as usize].output_tokens), now);
    }
    let first = queues.next(0, now).expect("there is work left");
    let slow = &plan.pods[1].cohorts;
    let from = slow.iter().position(|cohort| cohort.requests[0] == first.request).expect("a cohort's first request");
    let taken: usize = slow[from..].iter().map(|cohort| cohort.requests.len()).sum();
    assert_eq!(queues.moved(), taken, "it and all behind it");
    assert!((slow.len() / 2 - 2..=slow.len() / 2 + 2).contains(&from), "about half: from {from} of {}", slow.len());
}

#[test]
fn one_cohort_is_halved_and_a_costly_prefix_stays() {
    let (_, pods) = pods(&[(400_000, 1.0); 2]);
    let halved = |blocks: u64, questions: u64, output: u32| {
        let mut queue = documents(1, questions, blocks);
        queue.rows.iter_mut().for_each(|row| row.output = output);
        let requests = queue.requests();
        let alone = plan(&requests, &pods[..1]);
        let mut queues = queues(&alone, &requests, &pods, CohortStart::Together, 256);
        queues.next(1, Duration::ZERO).map(|_| queues.moved())
    };
    let half = halved(4, 1_200, 100).expect("the prefix is nothing beside the answers");
    assert!((550..=650).contains(&half), "{half}");
    assert_eq!(halved(2_000, 12, 1), None, "and here the answers are nothing beside the prefix");
}

#[test]
fn pods_that_have_as_much_under_way_take_nothing() {
    let queue = documents(30, 2, 10);
    let requests = queue.requests();
    let (_, pods) = pods(&[(40_000, 1.0); 2]);
    let plan = plan(&requests, &pods);
    let mut queues = queues(&plan, &requests, &pods, CohortStart::Together, 256);
    let begun = begin_all(&mut queues, 0, Duration::ZERO);
    assert_eq!(
        begun,
        plan.pods[0].requests().collect::<Vec<_>>(),
        "it has begun all of its own, and is done with none"
    );
}

#[test]
fn a_pod_in_which_requests_only_wait_is_given_fewer() {
    let queue = documents(100, 10, 10);
    let requests = queue.requests();
    let (_, pods) = pods(&[(400_000, 1.0)]);
    let plan = plan(&requests, &pods);
    let mut queues = queues(&plan, &requests, &pods, CohortStart::Together, 256);
    // An engine that runs 16 at once, each token in 10 ms; the others wait in line.
    let (mut waiting, mut running) = (VecDeque::new(), BinaryHeap::new());
    let mut now = Duration::ZERO;
    loop {
        while let Some(next) = queues.next(0, now) {
            queues.begin(0, next, now);
            waiting.push_back(next.request);
        }
        while let Some(request) = (running.len() < 16).then(|| waiting.pop_front()).flatten() {
            let takes = Duration::from_millis(10 * u64::from(requests[request as usize].output_tokens));
            running.push(Reverse((now + takes, request)));
        }
        let Some(Reverse((end, request))) = running.pop() else { break };
        now = end;
        queues.done(0, NextRequest::alone(request), Some(requests[request as usize].output_tokens), now);
    }
    assert!((16..64).contains(&queues.bound(0)), "{} at a time", queues.bound(0));
}
