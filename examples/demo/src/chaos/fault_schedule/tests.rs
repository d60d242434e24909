//! The schedule's invariants, over many seeds.

use super::*;

const LENGTHS: [u64; 4] = [5, 25, 60, 400];

fn schedules() -> impl Iterator<Item = (usize, Duration, FaultSchedule)> {
    LENGTHS.into_iter().flat_map(|seconds| {
        [2, 3, 8].into_iter().flat_map(move |pods| {
            let length = Duration::from_secs(seconds);
            (0..50).map(move |seed| (pods, length, FaultSchedule::new(seed, pods, length)))
        })
    })
}

#[test]
fn a_seed_replays_its_schedule() {
    let length = Duration::from_secs(30);
    assert_eq!(FaultSchedule::new(7, 8, length), FaultSchedule::new(7, 8, length));
    assert_ne!(FaultSchedule::new(7, 8, length), FaultSchedule::new(8, 8, length));
}

#[test]
fn every_kind_of_fault_occurs() {
    for (pods, length, schedule) in schedules() {
        // Two pods take turns, so a short run has not the time for all.
        if pods >= 8 && length >= Duration::from_secs(25) || length >= Duration::from_secs(400) {
            assert_eq!(schedule.kinds().len(), FaultKind::ALL.len(), "{pods} pods, {length:?}: {:?}", schedule.kinds());
        }
    }
}

#[test]
fn a_long_partition_comes_first_and_lost_words_last() {
    for (pods, length, schedule) in schedules() {
        let first = schedule.faults()[0];
        assert_eq!(first.kind, FaultKind::PartitionEvents);
        assert!(first.end - first.begin >= (length / 6).min(LONGEST), "{pods} pods, {length:?}");
        let last: Vec<_> = schedule.faults().iter().filter(|fault| fault.begin == length).collect();
        assert!(last.len() >= pods / 2 && last.iter().all(|fault| matches!(fault.kind, FaultKind::DropEvents(_))));
    }
}

#[test]
fn steps_are_in_order_and_in_time_and_what_lasts_ends() {
    for (pods, length, schedule) in schedules() {
        let (faults, steps) = (schedule.faults(), schedule.steps());
        assert!(steps.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert!(faults.iter().all(|fault| fault.begin <= fault.end && fault.end <= length));
        assert!(faults.iter().all(|fault| fault.pod.is_none_or(|pod| pod < pods)));
        let lasting = faults.iter().filter(|fault| fault.kind.lasts()).count();
        assert_eq!(steps.len(), faults.len() + lasting);
        assert!(faults.iter().all(|fault| fault.kind.lasts() == (fault.begin < fault.end)));
    }
}

#[test]
fn at_least_half_can_serve_at_any_time() {
    for (pods, length, schedule) in schedules() {
        let mut down = vec![false; pods];
        for (_, step) in schedule.steps() {
            let (nth, is_down) = match step {
                Step::Begin(nth) => (nth, true),
                Step::End(nth) => (nth, false),
            };
            let fault = schedule.faults()[nth];
            if let Some(pod) = fault.pod.filter(|_| fault.kind.takes_down()) {
                down[pod] = is_down;
            }
            assert!(down.iter().filter(|down| **down).count() <= pods / 2, "{pods} pods, {length:?}");
        }
        assert!(!down.contains(&true));
    }
}

#[test]
fn a_pod_has_one_fault_at_a_time() {
    for (pods, _, schedule) in schedules() {
        for pod in (0..pods).map(Some).chain([None]) {
            let mut until = Duration::ZERO;
            for fault in schedule.faults().iter().filter(|fault| fault.pod == pod) {
                assert!(fault.begin >= until, "{fault:?} before {until:?}");
                until = fault.end;
            }
        }
    }
}
