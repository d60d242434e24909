//! Plans carried out: every request is given out once, and work moves where it should.

use proptest::collection::vec;
use proptest::prelude::*;
use routing_core::batch::{BatchPlanner, BatchPod, BatchQueues, BatchRequest, ColdCaches};

use crate::queues::{documents, pods, queue};
use crate::{config, plan};

/// What happens to pods, in any order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(usize),
    Finish(usize),
    Lose(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0_usize..3).prop_map(Step::Ask),
        4 => (0_usize..3).prop_map(Step::Finish),
        1 => (1_usize..3).prop_map(Step::Lose),
    ]
}

/// The literal meaning: who has what under way, and what is neither under way nor done. The order is the queues' own.
#[derive(Default)]
struct Ledger {
    running: [Vec<u32>; 3],
    done: Vec<u32>,
    lost: [bool; 3],
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_request_is_given_out_once_unless_its_pod_is_lost(
        queue in queue(),
        fleet in vec((30_u64..200, 0.5_f64..2.0), 2),
        steps in vec(step(), 0..120),
    ) {
        let requests = queue.requests();
        // The first one is never lost, and holds all that any other does.
        let (_, pods) = pods(&[&[(200, 1.0)], &fleet[..]].concat());
        let plan = BatchPlanner::new(config()).plan(&requests, &pods, &mut ColdCaches).unwrap();
        let planned: usize = plan.pods.iter().map(|pod| pod.requests().count()).sum();
        let mut queues = BatchQueues::new(&plan, &requests, &pods, &config());
        let mut ledger = Ledger::default();
        for step in steps {
            match step {
                Step::Ask(pod) => ask(&mut queues, &mut ledger, pod, &requests, &pods)?,
                Step::Finish(pod) => finish(&mut queues, &mut ledger, pod),
                Step::Lose(pod) => {
                    queues.lost(pod);
                    ledger.lost[pod] = true;
                    ledger.running[pod].clear();
                }
            }
            let running: usize = ledger.running.iter().map(Vec::len).sum();
            prop_assert_eq!(queues.waiting() + running + ledger.done.len(), planned);
        }
        // In the end, whoever is left does all that is left.
        for _ in 0..=2 * planned {
            if ledger.done.len() == planned {
                break;
            }
            for pod in 0..3 {
                ask(&mut queues, &mut ledger, pod, &requests, &pods)?;
                finish(&mut queues, &mut ledger, pod);
            }
        }
        prop_assert_eq!(queues.waiting(), 0);
        ledger.done.sort_unstable();
        ledger.done.dedup();
        prop_assert_eq!(ledger.done.len(), planned);
    }
}

fn ask(
    queues: &mut BatchQueues,
    ledger: &mut Ledger,
    pod: usize,
    requests: &[BatchRequest<'_>],
    pods: &[BatchPod],
) -> Result<(), TestCaseError> {
    let own = queues.peek(pod);
    let Some(next) = queues.next(pod) else {
        prop_assert!(own.is_none() || ledger.lost[pod], "what is its own is given out");
        return Ok(());
    };
    prop_assert!(own.is_none_or(|own| own == next), "its own comes first, in order");
    prop_assert!(!ledger.lost[pod], "a lost pod gets nothing");
    prop_assert!(!ledger.done.contains(&next) && ledger.running.iter().all(|running| !running.contains(&next)));
    let request = &requests[next as usize];
    prop_assert!(u64::from(request.prompt_tokens + request.output_tokens) <= pods[pod].kv_tokens, "it has room");
    ledger.running[pod].push(next);
    Ok(())
}

fn finish(queues: &mut BatchQueues, ledger: &mut Ledger, pod: usize) {
    if !ledger.running[pod].is_empty() {
        let request = ledger.running[pod].remove(0);
        queues.done(pod, request);
        ledger.done.push(request);
    }
}

#[test]
fn pods_that_keep_pace_keep_what_was_planned() {
    let queue = documents(40, 6, 20);
    let requests = queue.requests();
    let (_, pods) = pods(&[(4_000, 1.0); 4]);
    let plan = plan(&requests, &pods);
    let mut queues = BatchQueues::new(&plan, &requests, &pods, &config());
    let mut orders = [const { Vec::new() }; 4];
    // All begin all they have, one after another, before anybody is done.
    while queues.waiting() > 0 {
        (0..4).filter(|&pod| queues.peek(pod).is_some()).collect::<Vec<_>>().into_iter().for_each(|pod| {
            orders[pod].extend(queues.next(pod));
        });
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
    let mut queues = BatchQueues::new(&plan, &requests, &pods, &config());
    // The first pod is done with all it had before the second has begun.
    for request in plan.pods[0].requests() {
        assert_eq!(queues.next(0), Some(request));
        queues.done(0, request);
    }
    let first = queues.next(0).expect("there is work left");
    let slow = &plan.pods[1].cohorts;
    let from = slow.iter().position(|cohort| cohort.requests[0] == first).expect("a cohort's first request");
    let taken: usize = slow[from..].iter().map(|cohort| cohort.requests.len()).sum();
    assert_eq!(queues.moved(), taken, "it and all behind it");
    assert!((slow.len() / 2 - 2..=slow.len() / 2 + 2).contains(&from), "about half: from {from} of {}", slow.len());
}

#[test]
fn one_cohort_is_halved_and_a_costly_prefix_stays() {
    let (_, pods) = pods(&[(40_000, 1.0); 2]);
    let halved = |blocks: u64, output: u32| {
        let mut queue = documents(1, 12, blocks);
        queue.rows.iter_mut().for_each(|row| row.output = output);
        let requests = queue.requests();
        let alone = plan(&requests, &pods[..1]);
        let mut queues = BatchQueues::new(&alone, &requests, &pods, &config());
        queues.next(1).map(|_| queues.moved())
    };
    assert_eq!(halved(4, 500), Some(6), "the prefix is nothing beside the answers");
    assert_eq!(halved(2_000, 1), None, "and here the answers are nothing beside the prefix");
}

#[test]
fn pods_that_have_as_much_under_way_take_nothing() {
    let queue = documents(30, 2, 10);
    let requests = queue.requests();
    let (_, pods) = pods(&[(40_000, 1.0); 2]);
    let plan = plan(&requests, &pods);
    let mut queues = BatchQueues::new(&plan, &requests, &pods, &config());
    for _ in plan.pods[0].requests() {
        queues.next(0).expect("its own");
    }
    assert_eq!(queues.next(0), None, "it has begun all of its own, and is done with none");
}
