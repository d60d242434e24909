//! Requests that go elsewhere before a breaker opens.

use crate::*;

/// What is withheld of a pod after requests of which it failed those that are named.
fn after_failures(config: BreakerConfig, requests: usize, fails: impl Fn(usize) -> bool) -> u8 {
    let ((breakers, told), pod) = (breakers(config), pods()[1][0]);
    (0..requests).for_each(|at| judge(&breakers, pod, if fails(at) { &BAD } else { &GOOD }, start()));
    let status = breakers.status(pod).unwrap();
    assert_eq!(status.state, BreakerState::Closed);
    let told = f64::from(told.withheld(pod.id())) / 2.56;
    assert!((told - f64::from(status.withheld_percent)).abs() <= 1.0, "decisions see what operators do");
    status.withheld_percent
}

#[test]
fn the_more_a_pod_fails_the_more_goes_elsewhere() {
    let config = BreakerConfig::default;
    let each = |nth: usize| after_failures(config(), 120, move |at| at % nth == 0);
    let shares = [20, 10, 5, 3].map(each);
    assert!(shares[0] == 0 && shares[1] < 10 && (10..50).contains(&shares[2]), "{shares:?}");
    assert!((40..75).contains(&shares[3]), "{shares:?}");
    let often = after_failures(config().failure_rate(Some(0.9)), 120, |at| at % 5 > 0);
    assert!((70..=90).contains(&often), "{often}: a few get through always");
}

#[test]
fn few_failures_and_past_ones_count_for_nothing() {
    assert_eq!(after_failures(BreakerConfig::default(), 1, |_| true), 0, "one of one says little");
    assert_eq!(after_failures(BreakerConfig::default(), 120, |at| at < 60 && at % 3 == 0), 0);
    assert_eq!(after_failures(BreakerConfig::default().failure_rate(None), 120, |at| at % 3 == 0), 0, "switched off");
}

#[test]
fn a_pod_that_takes_another_s_place_is_given_as_much_as_others() {
    let ((breakers, told), [old, new]) = (breakers(BreakerConfig::default()), [pods()[1][0], pods()[2][0]]);
    (0..60).for_each(|at| judge(&breakers, old, if at % 3 == 0 { &BAD } else { &GOOD }, start()));
    assert!(told.withheld(old.id()) > 0);
    breakers.recovered(new);
    assert_eq!((new.id(), told.withheld(new.id())), (old.id(), 0));
}
