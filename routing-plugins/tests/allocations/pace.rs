//! What is expected of decisions allocates nothing, however much time goes by between them.

use std::time::{Duration, Instant};

use kv_index::{Config, Index};
use pointsman_test_support::alloc::allocations;
use routing_plugins::{CostModel, ExpectedPrefill, PodPaces};

#[test]
#[expect(clippy::disallowed_methods, reason = "some instant to count from; which one does not matter")]
fn what_is_expected_allocates_nothing() {
    let index: Index = Index::new(Config::default());
    let pods: Vec<_> = (0..64).map(|at| index.join(&format!("pod-{at}")).expect("room")).collect();
    let (paces, start) = (PodPaces::<4>::default(), Instant::now());
    let expected = ExpectedPrefill::new(CostModel::FUSED, 0.5);
    let at = |turn: u64| start + Duration::from_millis(40 * turn);
    let expect = |turns: std::ops::Range<u64>| {
        turns.for_each(|turn| paces.expect(pods[turn as usize % 64], expected, at(turn)));
    };
    expect(0..64);
    assert_eq!(allocations(|| expect(64..640)), 0, "23 seconds of decisions");
    // What was sent counts with the next first token.
    let sample = paces.sample(pods[63], at(639)).expect("it was the last");
    assert_ne!(allocations(|| paces.first_token(sample, Duration::from_millis(500), at(650))), 0);
    assert_eq!(allocations(|| expect(700..800)), 0);
}
