//! Shortest job first: what a pod holds of a prompt is not to be computed.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use routing_core::flow::{BandConfig, FlowConfig, FlowOrder, FlowQueue, FlowRequest};
use routing_core::{CacheHint, Role};

use super::programs::FullFleet;

fn shortest_first() -> FlowConfig {
    FlowConfig::default().band(BandConfig::new("all").order(FlowOrder::ShortestFirst))
}

/// A long turn of which the pod holds nearly all has less to compute than a short prompt that is new.
#[test]
fn a_long_turn_that_is_held_goes_before_a_short_one_that_is_not() {
    let (full, mut queue) = (FullFleet::new(shortest_first()), FlowQueue::new(shortest_first()).unwrap());
    let now = Instant::now();
    for (name, prompt) in [("long turn", 50_000), ("short", 2_000), ("shorter", 400)] {
        let answered = FlowRequest::new(0, "k", prompt + 1_000).prompt_tokens(prompt);
        queue.push(answered, name, now).ticket.unwrap();
    }
    let order = |queue: &FlowQueue<&'static str>| queue.in_order().map(|waiting| *waiting.item).collect::<Vec<_>>();
    assert_eq!(order(&queue), ["shorter", "short", "long turn"], "nothing is known yet");
    let holding = |held: usize| move |name: &&str| CacheHint::new(if *name == "long turn" { held } else { 0 }, 100);
    for (held, expected) in [
        (99, ["shorter", "long turn", "short"]),
        (100, ["long turn", "shorter", "short"]),
        // It was evicted meanwhile.
        (10, ["shorter", "short", "long turn"]),
    ] {
        full.decide(&mut queue, now, |name, step| step.cache = Some(holding(held)(name)));
        assert_eq!(order(&queue), expected, "{held} of 100 blocks are held");
    }
    // Whoever only answers is sent the prompt by another, and does not say what that computes.
    full.decide(&mut queue, now, |name, step| {
        (step.role, step.cache) = (Role::Decode, Some(holding(100)(name)));
    });
    assert_eq!(order(&queue), ["shorter", "short", "long turn"]);
}

proptest! {
    /// However often it is decided anew and whatever is evicted, a request goes before those that come more than its prompt's tokens in
    /// milliseconds after it, each of which has nothing to compute.
    #[test]
    fn long_ones_get_their_turn(long in 10..400_u64, gap in 1..20_u64, helds in prop::collection::vec(0..20_usize, 400)) {
        let (full, mut queue) = (FullFleet::new(shortest_first()), FlowQueue::new(shortest_first()).unwrap());
        let start = Instant::now();
        queue.push(FlowRequest::new(0, "k", long), u64::MAX, start).ticket.unwrap();
        for at in 1.. {
            let now = start + Duration::from_millis(at * gap);
            queue.push(FlowRequest::new(0, "k", 1), at, now).ticket.unwrap();
            let held = |item: u64| if item == u64::MAX { helds[at as usize % helds.len()] } else { 20 };
            full.decide(&mut queue, now, |item, step| step.cache = Some(CacheHint::new(held(*item), 20)));
            let (first, item) = queue.in_order().next().map(|waiting| (waiting.ticket, *waiting.item)).unwrap();
            queue.take(first, now).unwrap();
            if item == u64::MAX {
                prop_assert!(at * gap <= long + gap);
                break;
            }
        }
    }
}
