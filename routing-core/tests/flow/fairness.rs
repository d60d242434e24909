//! Nobody starves: what keys and bands get while they wait, in bounds that are known.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use routing_core::flow::{BandConfig, FlowConfig, FlowOrder, FlowQueue, FlowRequest, QueueLimits, Ticket};

/// The largest request.
const LARGEST: u64 = 1_000;

/// Takes the first again and again, while every key and band always has some that wait; tokens that each had after each.
fn served(
    config: FlowConfig,
    keys: &[(usize, &str)],
    sizes: &[u64],
    mut each: impl FnMut(&BTreeMap<(usize, String), u64>),
) {
    let (mut queue, start) = (FlowQueue::new(config).unwrap(), Instant::now());
    let mut had = BTreeMap::new();
    for (at, &tokens) in sizes.iter().enumerate() {
        let now = start + Duration::from_millis(at as u64);
        for &(band, key) in keys {
            while queue.keys(band).find(|(name, ..)| &***name == key).is_none_or(|(_, requests, _)| requests < 3) {
                let request = FlowRequest::new(band, key, tokens).prompt_tokens(tokens);
                queue.push(request, (band, key.to_owned(), tokens), now).ticket.unwrap();
            }
        }
        let first = queue.next_ticket().unwrap();
        let (band, key, tokens) = queue.take(first, now).unwrap().item;
        *had.entry((band, key)).or_insert(0) += tokens;
        each(&had);
    }
}

fn of(had: &BTreeMap<(usize, String), u64>, band: usize, key: &str) -> u64 {
    had.get(&(band, key.to_owned())).copied().unwrap_or(0)
}

/// However many keys come for one request each, who waits goes.
#[test]
fn keys_that_come_and_go_keep_nobody_from_its_turn() {
    for (own, others) in [(1_000, 1_000), (1_000, 10), (10, 1_000), (1_000, 1)] {
        let (mut queue, now) = (unlimited(&[]), Instant::now());
        push(&mut queue, "waits", own);
        let second = push(&mut queue, "waits", own);
        push(&mut queue, "comes", others);
        let most = 8 + 4 * own / others;
        let goes = (0..=most).find(|at| {
            push(&mut queue, &format!("comes-{at}"), others);
            let next = queue.next_ticket().unwrap();
            queue.take(next, now).unwrap();
            next == second
        });
        assert!(goes.is_some(), "{own} tokens behind {others} each: not within {most} turns");
    }
}

/// A queue without limits.
fn unlimited(weights: &[(&str, f64)]) -> FlowQueue<u64> {
    let config = FlowConfig::default().limits(QueueLimits::default());
    FlowQueue::new(weights.iter().fold(config, |config, (key, weight)| config.weight(*key, *weight))).unwrap()
}

fn push(queue: &mut FlowQueue<u64>, key: &str, tokens: u64) -> Ticket {
    let request = FlowRequest::new(0, key, tokens).prompt_tokens(tokens);
    queue.push(request, tokens, Instant::now()).ticket.unwrap()
}

/// How many requests of `steady`, which always waits, go before one of a key that has just come.
fn goes_after(queue: &mut FlowQueue<u64>, tokens: u64) -> usize {
    push(queue, "steady", tokens);
    let new = push(queue, "newcomer", tokens);
    let first = |queue: &mut FlowQueue<u64>| {
        push(queue, "steady", tokens);
        let first = queue.next_ticket().unwrap();
        queue.take(first, Instant::now()).unwrap();
        first
    };
    (0..100_000).find(|_| first(queue) == new).unwrap()
}

/// However much another was served in one go, and at however little weight, who has just come is not behind for it.
#[test]
fn a_newcomer_waits_for_few_whatever_was_served_before() {
    for (weight, large, small) in
        [(1.0, 1_000, 1_000), (1.0, 100_000, 100), (0.1, 32_000, 1_000), (0.001, 32_000, 1_000)]
    {
        let mut queue = unlimited(&[("batch", weight)]);
        push(&mut queue, "steady", small);
        push(&mut queue, "batch", large);
        push(&mut queue, "batch", large);
        loop {
            let first = queue.next_ticket().unwrap();
            if queue.take(first, Instant::now()).unwrap().item == large {
                break;
            }
            push(&mut queue, "steady", small);
        }
        let after = goes_after(&mut queue, small);
        assert!(after <= 2, "after {after}, where {large} were served at weight {weight} and others have {small}");
    }
}

/// The same after a crowd of keys came for one request each.
#[test]
fn a_newcomer_waits_for_few_after_a_crowd() {
    for crowd in [0, 10, 1_000] {
        let mut queue = unlimited(&[]);
        for at in 0..crowd {
            push(&mut queue, &format!("crowd-{at}"), 1_000);
        }
        push(&mut queue, "steady", 1_000);
        for _ in 0..crowd {
            let first = queue.next_ticket().unwrap();
            queue.take(first, Instant::now()).unwrap();
        }
        let after = goes_after(&mut queue, 1_000);
        assert!(after <= 2, "after {after}, where {crowd} came before");
    }
}

proptest! {
    /// Two keys that both wait never differ by more than two of the largest requests, by weight.
    #[test]
    fn keys_get_the_same_by_weight(sizes in prop::collection::vec(1..=LARGEST, 50..300), weight in 1..5_u32) {
        let weight = f64::from(weight);
        let config = FlowConfig::default().weight("b", weight);
        served(config, &[(0, "a"), (0, "b"), (0, "c")], &sizes, |had| {
            let (a, b, c) = (of(had, 0, "a") as f64, of(had, 0, "b") as f64 / weight, of(had, 0, "c") as f64);
            let most = 2.0 * LARGEST as f64 + 1.0;
            assert!((a - b).abs() <= most && (a - c).abs() <= most && (b - c).abs() <= most, "{a} {b} {c}");
        });
    }

    /// A band that waits has at least its share, but for one of the largest requests; without a share, nothing until the others stop.
    #[test]
    fn bands_get_at_least_their_share(sizes in prop::collection::vec(1..=LARGEST, 50..300), share in 1..9_u32) {
        let share = share as f32 * 0.1;
        let band = |name: &'static str, priority| BandConfig::new(name).priority(priority);
        let config = FlowConfig::default().band(band("high", 1)).band(band("low", 0).min_share(share)).band(band("none", -1));
        served(config, &[(0, "a"), (1, "b"), (2, "c")], &sizes, |had| {
            let (all, low) = (had.values().sum::<u64>(), of(had, 1, "b"));
            assert!(low as f64 >= f64::from(share) * all as f64 - LARGEST as f64, "{low} of {all}");
            assert!(low as f64 <= f64::from(share) * all as f64 + LARGEST as f64, "{low} of {all}");
            assert_eq!(of(had, 2, "c"), 0);
        });
    }

    /// Where short ones go first, a long one goes before those that come more than its tokens in milliseconds after it.
    #[test]
    fn long_ones_get_their_turn(long in 10..2_000_u64, gap in 1..20_u64) {
        let config = FlowConfig::default().band(BandConfig::new("all").order(FlowOrder::ShortestFirst));
        let (mut queue, start) = (FlowQueue::new(config).unwrap(), Instant::now());
        queue.push(FlowRequest::new(0, "k", long), u64::MAX, start).ticket.unwrap();
        for at in 1.. {
            let now = start + Duration::from_millis(at * gap);
            queue.push(FlowRequest::new(0, "k", 1), at, now).ticket.unwrap();
            let first = queue.in_order().next().map(|waiting| (waiting.ticket, *waiting.item)).unwrap();
            queue.take(first.0, now).unwrap();
            if first.1 == u64::MAX {
                prop_assert!(at * gap <= long + gap);
                break;
            }
        }
    }
}

/// A key that was served much while nobody else waited is not behind for it: turns are neither saved up nor owed from before.
#[test]
fn the_past_is_not_held_against_a_key() {
    let (mut queue, now) = (FlowQueue::new(FlowConfig::default()).unwrap(), Instant::now());
    let push = |queue: &mut FlowQueue<&'static str>, key: &'static str| {
        queue.push(FlowRequest::new(0, key, 100), key, now).ticket.unwrap()
    };
    for _ in 0..50 {
        let ticket = push(&mut queue, "early");
        queue.take(ticket, now).unwrap();
    }
    for key in ["early", "late", "early", "late"] {
        push(&mut queue, key);
    }
    let mut order = Vec::new();
    while let Some(ticket) = queue.next_ticket() {
        order.push(queue.take(ticket, now).unwrap().item);
    }
    assert_eq!(order, ["early", "late", "early", "late"]);
}

/// A tenant that floods a full queue loses its own last ones; a quiet one still gets in.
#[test]
fn a_flood_displaces_itself() {
    let limits = routing_core::flow::QueueLimits::default().requests(10);
    let config = FlowConfig::default().band(BandConfig::new("all").limits(limits));
    let (mut queue, now) = (FlowQueue::new(config).unwrap(), Instant::now());
    for at in 0..20 {
        let is_full = queue.push(FlowRequest::new(0, "noisy", 10), at, now).ticket.is_err();
        assert_eq!(is_full, at >= 10);
    }
    let quiet = queue.push(FlowRequest::new(0, "quiet", 10), 100, now);
    assert!(quiet.ticket.is_ok());
    assert_eq!(quiet.displaced.iter().map(|shed| shed.item).collect::<Vec<_>>(), [9], "the flood's last");
    let first = queue.next_ticket().unwrap();
    queue.take(first, now).unwrap();
    assert_eq!(queue.in_order().next().map(|waiting| *waiting.item), Some(100), "and is next");
}
