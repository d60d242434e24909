//! What holds of every trace, however it came about.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::synthetic::Synthetic;
use super::*;

/// The rule, literally.
fn check(trace: &Trace) {
    let mut prefixes = HashMap::<u64, &[u64]>::new();
    let mut before = 0;
    for (place, request) in trace.requests.iter().enumerate() {
        match request.start {
            Start::At(at) => {
                assert!(at >= before, "{place} comes at {at}, after {before}");
                before = at;
            }
            Start::After(earlier, _) => {
                assert!((earlier as usize) < place, "{place} waits for {earlier}");
                assert_eq!(trace.requests[earlier as usize].session, request.session);
            }
        }
        assert!(request.input > 0 && request.output > 0);
        let (tokens, ids) = (request.input as usize, request.ids.len());
        assert!(tokens.div_ceil(trace.block) == ids || tokens / trace.block == ids, "{place}: {ids} for {tokens}");
        for (at, &id) in request.ids.iter().enumerate() {
            let prefix = &request.ids[..=at];
            assert_eq!(*prefixes.entry(id).or_insert(prefix), prefix, "{place}");
        }
    }
    assert!(trace.expected().is_sorted());
}

fn synthetic() -> impl Strategy<Value = (Synthetic, Trace)> {
    (proptest::sample::select(Synthetic::ALL.to_vec()), 1..300usize, any::<u64>())
        .prop_map(|(kind, requests, seed)| (kind, kind.trace(requests, seed)))
}

/// What every conversation is, whatever its number and place.
fn conversations(trace: &Trace) -> Vec<Vec<(u32, u32, usize)>> {
    let mut all = HashMap::<u32, Vec<_>>::new();
    for request in &trace.requests {
        all.entry(request.session).or_default().push((request.input, request.output, request.ids.len()));
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort_unstable();
    all
}

fn firsts(trace: &Trace) -> Vec<u32> {
    let starts = trace.requests.iter().filter(|request| matches!(request.start, Start::At(_)));
    starts.map(|request| request.session).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn synthetic_traffic_keeps_the_rule((_, trace) in synthetic()) {
        check(&trace);
        check(&trace.clone().opened());
    }

    #[test]
    fn a_rate_changes_times_and_nothing_else((kind, trace) in synthetic(), rate in 0.01f64..1e4, seed in any::<u64>()) {
        let scaled = trace.clone().at_rate(rate, seed);
        check(&scaled);
        prop_assert_eq!(firsts(&scaled), firsts(&trace));
        prop_assert_eq!(conversations(&scaled), conversations(&trace));
        prop_assert_eq!(scaled.is_closed(), matches!(kind, Synthetic::Chat | Synthetic::Agents | Synthetic::CodingAgents) && trace.is_closed());
        let known = |trace: &Trace| trace.stats().blocks_known;
        prop_assert_eq!(known(&scaled), known(&trace));
    }

    #[test]
    fn copies_are_other_conversations_about_the_same((_, trace) in synthetic(), copies in 1..5usize, seed in any::<u64>()) {
        let more = trace.clone().repeated(copies, seed);
        check(&more);
        let (one, all) = (trace.stats(), more.stats());
        prop_assert_eq!(all.requests, one.requests * copies);
        prop_assert_eq!(all.sessions, one.sessions * copies);
        prop_assert_eq!(all.blocks, one.blocks * copies as u64);
        // What conversations share is known to copies from their beginning; nothing else is.
        let mut owners = HashMap::<u64, HashSet<u32>>::new();
        for request in &trace.requests {
            for &id in request.whole_blocks(trace.block) {
                owners.entry(id).or_default().insert(request.session);
            }
        }
        let shared = owners.values().filter(|sessions| sessions.len() > 1).count() as u64;
        let further = copies as u64 - 1;
        prop_assert_eq!(all.blocks_known, one.blocks_known * copies as u64 + shared * further);
        let mut thrice = conversations(&trace);
        thrice = (0..copies).flat_map(|_| thrice.clone()).collect();
        thrice.sort_unstable();
        prop_assert_eq!(conversations(&more), thrice);
    }

    #[test]
    fn some_of_a_trace_is_a_trace((_, trace) in synthetic(), most in 0..300usize) {
        let some = trace.clone().take(most);
        check(&some);
        prop_assert_eq!(&some.requests[..], &trace.requests[..most.min(trace.requests.len())]);
    }
}

#[test]
fn a_rate_is_what_was_asked_for() {
    for kind in Synthetic::ALL {
        let trace = kind.trace(4_000, 1).at_rate(25.0, 2);
        let last = trace.requests.iter().rev().find_map(|request| match request.start {
            Start::At(at) => Some(at),
            Start::After(..) => None,
        });
        let seconds = last.expect("somebody begins") as f64 / 1e6;
        assert!((seconds / 160.0 - 1.0).abs() < 0.01, "{kind}: {seconds}");
    }
}

#[test]
fn a_rate_that_is_none_changes_nothing() {
    let trace = Synthetic::Chat.trace(50, 1);
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(trace.clone().at_rate(rate, 1), trace);
    }
    let at_once = Trace::new(16, vec![Request { input: 1, output: 1, ..Request::default() }; 3]);
    assert_eq!(at_once.clone().at_rate(1.0, 1), at_once);
}

#[test]
fn the_bound_hardly_moves_with_copies() {
    for kind in Synthetic::ALL {
        let trace = kind.trace(2_000, 1);
        let (one, more) = (trace.stats().bound(), trace.repeated(4, 1).stats().bound());
        // Documents are shared, so a copy of questions about them finds them all.
        let within =
            if matches!(kind, Synthetic::Rag | Synthetic::SharedPrompts | Synthetic::Documents) { 0.25 } else { 0.02 };
        assert!(more >= one && more - one < within, "{kind}: {one} and {more}");
    }
}

#[test]
fn a_seed_orders_the_conversations_of_copies() {
    let trace = Synthetic::Chat.trace(200, 1);
    assert_eq!(trace.clone().repeated(3, 1), trace.clone().repeated(3, 1));
    assert_ne!(trace.clone().repeated(3, 1), trace.repeated(3, 2));
}
