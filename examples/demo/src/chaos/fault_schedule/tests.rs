//! The schedule's invariants, over many seeds.

use super::*;

const LENGTHS: [u64; 4] = [5, 20, 30, 240];

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
        if pods >= 8 || length >= Duration::from_secs(240) {
            assert_eq!(schedule.kinds().len(), KINDS.len(), "{pods} pods, {length:?}: {:?}", schedule.kinds());
        }
    }
}

#[test]
fn a_long_partition_comes_first_and_lost_words_last() {
    for (pods, length, schedule) in schedules() {
        let steps = schedule.faults();
        assert_eq!(steps[0].fault, Fault::PartitionEvents);
        let end = steps.iter().find(|step| step.pod == steps[0].pod && step.fault == Fault::Recover).unwrap().at;
        assert!(end - steps[0].at >= (length / 6).min(LONGEST), "{pods} pods, {length:?}");
        let last: Vec<_> = steps.iter().filter(|step| step.at == length).collect();
        assert!(last.len() >= pods / 2 && last.iter().all(|step| matches!(step.fault, Fault::DropEvents(_))));
    }
}

#[test]
fn steps_are_in_order_and_in_time() {
    for (pods, length, schedule) in schedules() {
        assert!(schedule.faults().windows(2).all(|pair| pair[0].at <= pair[1].at));
        assert!(schedule.faults().iter().all(|step| step.at <= length && step.pod < pods));
    }
}

#[test]
fn no_pod_stays_ill_and_at_least_half_can_serve_at_any_time() {
    for (pods, length, schedule) in schedules() {
        let mut down = vec![false; pods];
        let mut cut_off = vec![false; pods];
        for step in schedule.faults() {
            match step.fault {
                Fault::Die | Fault::Hang | Fault::Slow(_) => down[step.pod] = true,
                Fault::PartitionEvents => cut_off[step.pod] = true,
                Fault::Recover => (down[step.pod], cut_off[step.pod]) = (false, false),
                Fault::Restart | Fault::ChangeHashSeed => down[step.pod] = false,
                _ => {}
            }
            assert!(down.iter().filter(|down| **down).count() <= pods / 2, "{pods} pods, {length:?}");
        }
        assert!(!down.contains(&true) && !cut_off.contains(&true));
    }
}

#[test]
fn a_pod_has_one_lasting_fault_at_a_time() {
    for (pods, _, schedule) in schedules() {
        let mut ill: Vec<Option<Fault>> = vec![None; pods];
        for step in schedule.faults() {
            let is_end = match ill[step.pod] {
                Some(Fault::Die) => step.fault == Fault::Restart,
                Some(_) => step.fault == Fault::Recover,
                None => true,
            };
            assert!(is_end, "{:?} during {:?}", step, ill[step.pod]);
            ill[step.pod] = match step.fault {
                Fault::Die | Fault::Hang | Fault::Slow(_) | Fault::PartitionEvents => Some(step.fault),
                _ => None,
            };
        }
    }
}
