//! Push-back, rates of failure, failures taken back, and how much of a fleet may be out.

use crate::*;

#[test]
fn a_pod_that_pushes_back_is_left_alone_longer_each_time() {
    let ((breakers, open_breakers), mut now, pod) = (breakers(config()), start(), pods()[0][0]);
    for seconds in [1, 2, 4, 8, 16, 30, 30] {
        let burst = [breakers.admit(pod, now).unwrap(), breakers.admit(pod, now).unwrap()];
        burst.iter().for_each(|permit| breakers.record(permit.admission(), &BreakerSample::Overloaded(None), now));
        assert!(open_breakers.opened().contains(pod.id()) && breakers.admit(pod, now).is_none(), "a burst counts once");
        assert_eq!(breakers.status(pod).unwrap().open_until, Some(after(now, seconds)));
        now = after(now, seconds);
        breakers.tick(now);
        assert!(!open_breakers.opened().contains(pod.id()));
    }
    // Then it has all of its traffic, not a probe: it was full, not broken.
    assert!((0..9).all(|_| breakers.admit(pod, now).is_some()));
    judge(&breakers, pod, &GOOD, now);
    judge(&breakers, pod, &BreakerSample::Overloaded(Some(Duration::from_secs(5))), now);
    assert_eq!(breakers.status(pod).unwrap().open_until, Some(after(now, 5)), "what it asks for");
    now = after(now, 5);
    judge(&breakers, pod, &BreakerSample::Overloaded(Some(Duration::from_secs(3600))), now);
    assert_eq!(breakers.status(pod).unwrap().open_until, Some(after(now, 30)), "and not more than is sensible");
}

#[test]
fn who_goes_past_a_breaker_finds_out_that_the_pod_is_well_again() {
    let ((breakers, open_breakers), now, pod) = (breakers(config()), start(), pods()[0][0]);
    open(&breakers, pod, now);
    let force = |sample| breakers.record(breakers.admit_forced(pod, now).unwrap().admission(), sample, now);
    force(&BAD);
    assert_eq!(breakers.status(pod).unwrap().open_until, Some(after(now, 10)), "nothing new");
    force(&GOOD);
    assert!(open_breakers.opened().is_empty());
    force(&GOOD);
    assert_eq!(breakers.status(pod).unwrap().state, BreakerState::Closed);
    // Also one that was left alone.
    judge(&breakers, pod, &BreakerSample::Overloaded(None), now);
    force(&GOOD);
    assert_eq!(breakers.status(pod), Some(BreakerStatus::default()));
}

#[test]
fn failures_that_were_the_requests_own_are_taken_back() {
    let ((breakers, _), now, pod) = (breakers(config()), start(), pods()[0][0]);
    let fail = || {
        let admission = breakers.admit_forced(pod, now).unwrap().admission();
        breakers.record(admission, &BAD, now);
        admission
    };
    for _ in 0..100 {
        breakers.exonerate(fail());
    }
    assert_eq!(breakers.status(pod), Some(BreakerStatus::default()));
    // Two at once: the second opens it, and it is closed again.
    let [first, second] = [(); 2].map(|()| fail());
    assert_eq!(breakers.status(pod).unwrap().state, BreakerState::Open);
    breakers.exonerate(second);
    assert_eq!(breakers.status(pod).unwrap().state, BreakerState::Closed);
    breakers.exonerate(first);
    fail();
    assert_eq!(breakers.status(pod).unwrap().state, BreakerState::Open, "one more of its own opens it");
    // A probe that failed by its request is a probe again.
    breakers.tick(after(now, 10));
    let probe = breakers.admit(pod, after(now, 10)).unwrap().admission();
    breakers.record(probe, &BAD, after(now, 10));
    breakers.exonerate(probe);
    assert_eq!(breakers.status(pod).unwrap().state, BreakerState::HalfOpen);
}

#[test]
fn a_pod_that_fails_every_other_time_is_out_too() {
    let config = config().failure_rate(Some(0.4)).failure_threshold(5);
    let ((breakers, _), now) = (breakers(config), start());
    let [often, seldom] = [pods()[0][0], pods()[0][1]];
    for at in 0..200 {
        judge(&breakers, often, if at % 2 == 0 { &GOOD } else { &BAD }, now);
        judge(&breakers, seldom, if at % 5 == 0 { &BAD } else { &GOOD }, now);
    }
    assert_eq!(breakers.status(often).unwrap().state, BreakerState::Open);
    assert_eq!(breakers.status(seldom).unwrap().state, BreakerState::Closed);
}

#[test]
fn no_more_of_the_fleet_is_out_than_it_may_be() {
    let config = config().max_open_share(0.5);
    let ((breakers, open_breakers), now, pods) = (breakers(config), start(), &pods()[0]);
    breakers.set_fleet_size(3);
    open(&breakers, pods[0], now);
    open(&breakers, pods[1], now);
    judge(&breakers, pods[1], &BreakerSample::Overloaded(None), now);
    assert_eq!(open_breakers.opened().iter().collect::<Vec<_>>(), [pods[0].id()], "half of three is one");
    breakers.set_fleet_size(4);
    open(&breakers, pods[1], now);
    assert_eq!(open_breakers.opened().len(), 2);
}

#[test]
fn only_a_failure_that_counted_can_be_taken_back() {
    let ((breakers, _), now, pod) = (breakers(config()), start(), pods()[0][0]);
    let admitted = [(); 3].map(|()| breakers.admit(pod, now).unwrap().admission());
    admitted.iter().for_each(|admission| breakers.record(*admission, &BAD, now));
    assert_eq!(breakers.status(pod).unwrap().state, BreakerState::Open);
    breakers.exonerate(admitted[2]);
    assert_eq!(breakers.status(pod).unwrap().state, BreakerState::Open, "two others opened it");
    breakers.exonerate(admitted[1]);
    assert_eq!(breakers.status(pod).unwrap().state, BreakerState::Closed);
}

#[test]
fn a_broken_pod_that_pushes_back_is_still_broken() {
    let ((breakers, _), now, pod) = (breakers(config()), start(), pods()[0][0]);
    let force =
        |sample: BreakerSample| breakers.record(breakers.admit_forced(pod, now).unwrap().admission(), &sample, now);
    open(&breakers, pod, now);
    force(BreakerSample::Overloaded(None));
    assert_eq!(breakers.status(pod).unwrap().open_until, Some(after(now, 10)));
    // And a failure does not end a push-back.
    breakers.recovered(pod);
    force(BreakerSample::Overloaded(Some(Duration::from_secs(7))));
    force(BAD);
    assert_eq!(breakers.status(pod).unwrap().open_until, Some(after(now, 7)));
}

#[test]
fn a_pod_that_fails_and_pushes_back_in_turn_is_broken() {
    let config =
        config().failure_threshold(3).cool_duration(Duration::from_secs(1)).max_cool_duration(Duration::from_secs(1));
    let ((breakers, _), pod) = (breakers(config), pods()[0][0]);
    let mut now = start();
    for _ in 0..2 {
        judge(&breakers, pod, &BAD, now);
        judge(&breakers, pod, &BreakerSample::Overloaded(None), now);
        assert_eq!(breakers.status(pod).unwrap().times_opened, 0, "it is full, not broken");
        now += Duration::from_secs(1);
    }
    judge(&breakers, pod, &BAD, now);
    assert_eq!(breakers.status(pod).unwrap().times_opened, 1, "three failures, and no success between");
    // One that was its request's own is taken back through a push-back, too.
    let ((breakers, _), now) = (self::breakers(breakers.config()), start());
    let admission = breakers.admit(pod, now).unwrap().admission();
    breakers.record(admission, &BAD, now);
    judge(&breakers, pod, &BreakerSample::Overloaded(None), now);
    breakers.exonerate(admission);
    let later = now + Duration::from_secs(1);
    (0..2).for_each(|_| judge(&breakers, pod, &BAD, later));
    assert_eq!(breakers.status(pod).unwrap().state, BreakerState::Closed);
}

#[test]
fn failures_between_push_backs_and_successes_add_up_to_a_rate() {
    let config = config().failure_threshold(100).failure_rate(Some(0.4)).failure_rate_min_requests(10);
    let config = config.cool_duration(Duration::from_secs(1)).max_cool_duration(Duration::from_secs(1));
    let ((breakers, _), pod) = (breakers(config), pods()[0][0]);
    let mut now = start();
    for _ in 0..10 {
        for sample in [&GOOD, &BAD, &BreakerSample::Overloaded(None)] {
            judge(&breakers, pod, sample, now);
        }
        now += Duration::from_secs(1);
    }
    assert_eq!(breakers.status(pod).unwrap().times_opened, 1);
}

#[test]
fn the_rate_is_of_as_many_requests_as_configured() {
    for (min_requests, failures_to_open) in [(4, 4), (8, 8)] {
        let config = config().failure_threshold(100).failure_rate(Some(0.5)).failure_rate_min_requests(min_requests);
        let ((breakers, _), now, pod) = (breakers(config), start(), pods()[0][0]);
        let failures = (1..=20).find(|_| {
            judge(&breakers, pod, &BAD, now);
            breakers.status(pod).unwrap().state == BreakerState::Open
        });
        assert_eq!(failures, Some(failures_to_open));
    }
    // A short memory: two of the last two are enough, however many were served before.
    let config = config().failure_threshold(100).failure_rate(Some(0.7)).failure_rate_window(2);
    let ((breakers, _), now, pod) = (breakers(config), start(), pods()[0][0]);
    (0..50).for_each(|_| judge(&breakers, pod, &GOOD, now));
    (0..2).for_each(|_| judge(&breakers, pod, &BAD, now));
    assert_eq!(breakers.status(pod).unwrap().state, BreakerState::Open);
}

#[test]
fn another_configuration_counts_from_the_next_sample_on() {
    let ((breakers, _), now, pod) = (breakers(config().failure_threshold(100)), start(), pods()[0][0]);
    (0..2).for_each(|_| judge(&breakers, pod, &BAD, now));
    breakers.set_config(config().failure_threshold(3).open_duration(Duration::from_secs(3)));
    assert_eq!((breakers.status(pod).unwrap().state, breakers.config().failure_threshold), (BreakerState::Closed, 3));
    judge(&breakers, pod, &BAD, now);
    assert_eq!(breakers.status(pod).unwrap().open_until, Some(after(now, 3)));
}
