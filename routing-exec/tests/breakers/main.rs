//! Breakers as executors and deciders see them: who is let through, and which open_breakers are said to be open.

#![expect(clippy::unwrap_used, reason = "a fleet that cannot be set up is a failed test")]

mod changes;
mod model;
mod push_back;
mod withheld;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kv_index::{Config, Index};
use routing_core::{OpenBreakers, Pod};
use routing_exec::{BreakerConfig, BreakerSample, BreakerState, BreakerStatus, Breakers, Failure};

const BAD: BreakerSample = BreakerSample::Failure(Failure::FirstByteTimeout);
const GOOD: BreakerSample = BreakerSample::Success(None);
const UNCONFIRMED: BreakerSample = BreakerSample::Unconfirmed(Failure::FirstByteTimeout);

/// Three ids in three generations each: `pods()[generation][id]`.
fn pods() -> &'static [[Pod; 3]; 3] {
    static PODS: OnceLock<[[Pod; 3]; 3]> = OnceLock::new();
    PODS.get_or_init(|| {
        let index: Index = Index::new(Config::default());
        std::array::from_fn(|generation| {
            let pods = ["a", "b", "c"].map(|name| index.join(&format!("{name}{generation}")).unwrap());
            pods.iter().for_each(|pod| assert!(index.retire(*pod)));
            while index.sweep(1 << 20).pending > 0 {}
            pods
        })
    })
}

#[expect(clippy::disallowed_methods, reason = "some instant to count from")]
fn start() -> Instant {
    Instant::now()
}

fn config() -> BreakerConfig {
    let (open_duration, slow_floor) = (Duration::from_secs(10), Duration::from_secs(5));
    BreakerConfig::default()
        .failure_threshold(2)
        .open_duration(open_duration)
        .max_probes(2)
        .success_threshold(2)
        .slow_factor(Some(10.0))
        .slow_floor(slow_floor)
        .failure_rate(None)
}

fn breakers(config: BreakerConfig) -> (Arc<Breakers>, Arc<OpenBreakers>) {
    let open_breakers = Arc::new(OpenBreakers::new());
    (Arc::new(Breakers::new(config, Arc::clone(&open_breakers))), open_breakers)
}

fn after(now: Instant, seconds: u64) -> Instant {
    now.checked_add(Duration::from_secs(seconds)).unwrap()
}

/// A request that is let through and judged at once; one that is not is not judged.
fn judge(breakers: &Arc<Breakers>, pod: Pod, sample: &BreakerSample, now: Instant) {
    if let Some(permit) = breakers.admit(pod, now) {
        breakers.record(permit.admission(), sample, now);
    }
}

fn open(breakers: &Arc<Breakers>, pod: Pod, now: Instant) {
    (0..2).for_each(|_| judge(breakers, pod, &BAD, now));
}

#[test]
fn a_status_tells_state_and_since_when_a_pod_fails() {
    let ((breakers, _), now, pod) = (breakers(config()), start(), pods()[1][0]);
    let status = || breakers.status(pod).unwrap();
    assert_eq!(status(), BreakerStatus::default(), "nothing was heard of it yet");
    judge(&breakers, pod, &GOOD, now);
    assert_eq!(status().failing_since, None);
    open(&breakers, pod, now);
    let until = after(now, 10);
    assert_eq!((status().state, status().open_until, status().times_opened), (BreakerState::Open, Some(until), 1));
    breakers.tick(until);
    assert_eq!((status().state, status().open_until), (BreakerState::HalfOpen, None));
    judge(&breakers, pod, &BAD, until);
    assert_eq!((status().state, status().times_opened, status().failing_since), (BreakerState::Open, 2, Some(now)));
    (0..2).for_each(|_| judge(&breakers, pod, &GOOD, after(now, 30)));
    assert_eq!(status(), BreakerStatus::default(), "it is well again");
    judge(&breakers, pod, &BAD, after(now, 31));
    breakers.recovered(pod);
    assert_eq!(status().failing_since, None, "well by other means");
    judge(&breakers, pods()[2][0], &GOOD, now);
    assert_eq!(breakers.status(pod), None, "another pod has its place");
    assert_eq!(breakers.status(pods()[2][0]), Some(BreakerStatus::default()));
}

#[test]
fn a_want_of_our_own_is_no_pods_failure() {
    let ((breakers, open_breakers), now, pod) = (breakers(config()), start(), pods()[0][0]);
    let local = BreakerSample::Failure(Failure::LocalResources("too many open files".into()));
    (0..20).for_each(|_| judge(&breakers, pod, &local, now));
    assert_eq!((breakers.status(pod), open_breakers.opened().len()), (Some(BreakerStatus::default()), 0));
}

#[test]
fn what_nobody_confirmed_counts_once_there_is_much_of_it_and_no_success() {
    let ((breakers, _), now, pod) = (breakers(config().failure_rate(Some(0.5))), start(), pods()[0][0]);
    let fail = |times: u32| {
        (0..times).for_each(|_| judge(&breakers, pod, &UNCONFIRMED, now));
        breakers.status(pod).unwrap()
    };
    for _ in 0..20 {
        assert_eq!(fail(15), BreakerStatus::default(), "so many bad requests in a row are chance");
        judge(&breakers, pod, &GOOD, now);
    }
    fail(15);
    assert_eq!((fail(1).state, fail(1).state), (BreakerState::Closed, BreakerState::Open), "and then two as of any");
    breakers.tick(after(now, 10));
    judge(&breakers, pod, &UNCONFIRMED, after(now, 10));
    assert_eq!(breakers.status(pod).unwrap().times_opened, 2, "a probe that fails is enough");
}

#[test]
fn a_request_that_fails_everywhere_speaks_for_those_that_nobody_confirmed() {
    let ((breakers, _), now, pod) = (breakers(config()), start(), pods()[0][0]);
    for _ in 0..20 {
        (0..15).for_each(|_| judge(&breakers, pod, &UNCONFIRMED, now));
        let admission = breakers.admit(pod, now).unwrap().admission();
        breakers.record(admission, &BAD, now);
        breakers.exonerate(admission);
    }
    assert_eq!(breakers.status(pod), Some(BreakerStatus::default()));
}

#[test]
fn a_failure_that_is_taken_back_after_a_success_is_none_of_the_rate() {
    let ((breakers, _), now, pod) = (breakers(config().failure_rate(Some(0.4))), start(), pods()[0][0]);
    for _ in 0..100 {
        let admission = breakers.admit(pod, now).unwrap().admission();
        breakers.record(admission, &BAD, now);
        judge(&breakers, pod, &GOOD, now);
        breakers.exonerate(admission);
        // Once is enough.
        breakers.exonerate(admission);
    }
    assert_eq!(breakers.status(pod), Some(BreakerStatus::default()));
    (0..100).for_each(|at| judge(&breakers, pod, if at % 2 == 0 { &BAD } else { &GOOD }, now));
    assert_eq!(breakers.status(pod).unwrap().times_opened, 1, "as it does where nothing is taken back");
}

#[test]
fn a_pod_that_fails_in_a_row_is_given_nothing_then_a_little_then_everything() {
    let ((breakers, open_breakers), now, pod) = (breakers(config()), start(), pods()[0][0]);
    open(&breakers, pod, now);
    assert!(open_breakers.opened().contains(pod.id()) && breakers.admit(pod, now).is_none());
    assert!(breakers.admit(pods()[0][1], now).is_some(), "others are not concerned");
    breakers.tick(after(now, 9));
    assert!(open_breakers.opened().contains(pod.id()));
    breakers.tick(after(now, 10));
    assert!(open_breakers.opened().is_empty(), "deciders may pick it again");
    let later = after(now, 10);
    let probes = [breakers.admit(pod, later), breakers.admit(pod, later)];
    assert!(probes.iter().all(Option::is_some) && breakers.admit(pod, later).is_none());
    probes.iter().flatten().for_each(|probe| breakers.record(probe.admission(), &GOOD, later));
    assert!((0..9).all(|_| breakers.admit(pod, later).is_some()));
}

#[test]
fn a_place_is_given_back_once_judged_or_not() {
    let ((breakers, _), now, pod) = (breakers(config()), start(), pods()[0][0]);
    open(&breakers, pod, now);
    let later = after(now, 10);
    let probe = breakers.admit(pod, later).unwrap();
    breakers.record(probe.admission(), &GOOD, later);
    drop(probe);
    let places: Vec<_> = (0..5).filter_map(|_| breakers.admit(pod, later)).collect();
    assert_eq!(places.len(), 2, "one success does not close it, and its place is free again, once");
    // It opens and is tried out anew: places of the time before are not places of this one.
    breakers.record(places[0].admission(), &BAD, later);
    let much_later = after(later, 100);
    let probes: Vec<_> = (0..5).filter_map(|_| breakers.admit(pod, much_later)).collect();
    drop(places);
    assert!(probes.len() == 2 && breakers.admit(pod, much_later).is_none());
}

#[test]
fn a_replaced_pod_starts_closed_and_hears_nothing_of_the_old_one() {
    let ((breakers, open_breakers), now) = (breakers(config()), start());
    let (old, new) = (pods()[0][0], pods()[1][0]);
    assert_eq!(old.id(), new.id());
    open(&breakers, old, now);
    assert!(breakers.admit(new, now).is_some() && open_breakers.opened().is_empty());
    open(&breakers, old, now);
    breakers.recovered(old);
    assert!(breakers.admit(old, now).is_none(), "nothing goes to a pod that is gone");
    assert!(breakers.admit(new, now).is_some() && open_breakers.opened().is_empty());
    open(&breakers, new, now);
    let later = after(now, 10);
    let probes: Vec<_> = (0..2).filter_map(|_| breakers.admit(new, later)).collect();
    breakers.recovered(pods()[2][0]);
    drop(probes);
    assert!(breakers.admit(pods()[2][0], later).is_some());
}

#[test]
fn recovery_seen_by_health_closes_early() {
    let ((breakers, open_breakers), now, pod) = (breakers(config()), start(), pods()[0][0]);
    open(&breakers, pod, now);
    breakers.recovered(pod);
    assert!(open_breakers.opened().is_empty() && breakers.admit(pod, now).is_some());
    judge(&breakers, pod, &BAD, now);
    assert!(open_breakers.opened().is_empty(), "and failures before it are forgotten");
}

#[test]
fn what_was_let_through_before_a_circuit_opened_or_recovered_decides_nothing() {
    let ((breakers, open_breakers), now, pod) = (breakers(config()), start(), pods()[0][0]);
    let old = breakers.admit(pod, now).unwrap().admission();
    open(&breakers, pod, now);
    let later = after(now, 10);
    let probe = breakers.admit(pod, later).unwrap();
    breakers.record(old, &BAD, later);
    assert!(open_breakers.opened().is_empty(), "it does not open again");
    (0..9).for_each(|_| breakers.record(old, &GOOD, later));
    let places: Vec<_> = (0..5).filter_map(|_| breakers.admit(pod, later)).collect();
    assert_eq!(places.len(), 1, "nor does it close");
    (0..2).for_each(|_| breakers.record(probe.admission(), &GOOD, later));
    (0..9).for_each(|_| breakers.record(old, &BAD, later));
    (0..9).for_each(|_| breakers.record(probe.admission(), &BAD, later));
    assert!(open_breakers.opened().is_empty(), "and closed it stays");
    let before = breakers.admit(pod, later).unwrap().admission();
    breakers.recovered(pod);
    (0..9).for_each(|_| breakers.record(before, &BAD, later));
    assert!(open_breakers.opened().is_empty());
}

#[test]
fn a_place_of_before_a_recovery_is_none_after_it() {
    let ((breakers, _), now, pod) = (breakers(config()), start(), pods()[0][0]);
    open(&breakers, pod, now);
    let before = breakers.admit(pod, after(now, 10));
    assert!(before.is_some());
    breakers.recovered(pod);
    open(&breakers, pod, after(now, 10));
    let later = after(now, 20);
    let probes: Vec<_> = (0..5).filter_map(|_| breakers.admit(pod, later)).collect();
    drop(before);
    assert!(probes.len() == 2 && breakers.admit(pod, later).is_none());
}

#[test]
fn a_first_byte_much_later_than_usual_is_a_failure() {
    let slow = BreakerSample::Success(Some(Duration::from_secs(6)));
    let usual = |breakers: &Arc<Breakers>, times: usize| {
        (0..times).for_each(|_| {
            judge(breakers, pods()[0][1], &BreakerSample::Success(Some(Duration::from_millis(100))), start())
        });
    };
    let opens = |config: BreakerConfig, before: usize, sample: &BreakerSample| {
        let (breakers, open_breakers) = breakers(config.failure_threshold(1));
        usual(&breakers, before);
        judge(&breakers, pods()[0][0], sample, start());
        !open_breakers.opened().is_empty()
    };
    assert!(opens(config(), 50, &slow));
    assert!(!opens(config(), 49, &slow), "too few to call anything usual");
    assert!(!opens(config(), 50, &BreakerSample::Success(Some(Duration::from_secs(5)))), "never slow");
    assert!(!opens(config().slow_factor(None), 50, &slow));
    assert!(!opens(config().slow_factor(Some(f64::NAN)), 50, &slow));
    assert!(!opens(config().slow_factor(Some(100.0)), 50, &slow));
    assert!(!opens(config(), 50, &GOOD), "an answer that tells no time is not slow");
}

#[test]
fn times_beyond_measure_do_no_harm() {
    let (breakers, _) = breakers(config());
    (0..200).for_each(|_| judge(&breakers, pods()[0][0], &BreakerSample::Success(Some(Duration::MAX)), start()));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about threads")]
fn probes_are_limited_however_many_ask_at_once() {
    let ((breakers, _), now, pod) = (breakers(config()), start(), pods()[0][0]);
    for round in 1..200 {
        open(&breakers, pod, after(now, round * 1_000));
        let (later, inside, most) = (after(now, round * 1_000 + 500), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        if let Some(permit) = breakers.admit(pod, later) {
                            // Relaxed: counters of a test.
                            let now_inside = inside.fetch_add(1, Ordering::Relaxed) + 1;
                            most.fetch_max(now_inside, Ordering::Relaxed);
                            inside.fetch_sub(1, Ordering::Relaxed);
                            drop(permit);
                        }
                    }
                });
            }
        });
        assert!((1..=2).contains(&most.into_inner()));
        breakers.recovered(pod);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about threads")]
fn a_circuit_that_opens_while_others_are_looked_at_is_looked_at_too() {
    let (now, pods) = (start(), pods()[0]);
    for round in 0..300 {
        let (breakers, open_breakers) = breakers(config().failure_threshold(1));
        judge(&breakers, pods[2], &BAD, now);
        std::thread::scope(|scope| {
            scope.spawn(|| breakers.tick(after(now, 10)));
            scope.spawn(|| judge(&breakers, pods[0], &BAD, after(now, 10)));
        });
        breakers.tick(after(now, 20));
        assert!(open_breakers.opened().is_empty(), "round {round}");
    }
}
