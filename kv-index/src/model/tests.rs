//! Model-based property tests: the index agrees with the reference model.

use proptest::prelude::*;

use super::ops::{Op, Order, PodUpdate, Prompt, Told};
use super::*;

fn prompt() -> impl Strategy<Value = Prompt> {
    prop::collection::vec((0u8..3, 0u8..24), 1..4)
}

fn tier() -> impl Strategy<Value = Tier> {
    prop_oneof![6 => Just(Tier::Gpu), 1 => Just(Tier::Host), 1 => Just(Tier::Disk), 1 => Just(Tier::Remote)]
}

fn source() -> impl Strategy<Value = EventSemantics> {
    prop_oneof![Just(EventSemantics::Membership), Just(EventSemantics::Copies)]
}

fn change() -> impl Strategy<Value = PodUpdate> {
    let told = prop_oneof![17 => Just(Told::Parent), 2 => Just(Told::Nothing), 1 => Just(Told::Lie)];
    let order = prop_oneof![3 => Just(Order::TailFirst), 1 => Just(Order::HeadFirst), 1 => Just(Order::Scattered)];
    let from = prop_oneof![3 => Just(0u8), 2 => any::<u8>()];
    prop_oneof![
        12 => (prompt(), from, any::<u8>(), tier(), told).prop_map(|(p, a, b, t, n)| PodUpdate::Stored(p, a, b, t, n)),
        7 => (prompt(), any::<u8>(), any::<u8>(), tier(), order).prop_map(|(p, a, b, t, o)| PodUpdate::Removed(p, a, b, t, o)),
        1 => Just(PodUpdate::Cleared),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let inventory = || prop::collection::vec((prompt(), any::<u8>(), tier(), any::<u8>()), 0..3);
    prop_oneof![
        4 => (0u8..4).prop_map(Op::Join),
        1 => (0u8..4).prop_map(Op::Retire),
        1 => (1u8..40).prop_map(Op::Sweep),
        20 => (0u8..4, source(), change()).prop_map(|(p, s, c)| Op::Apply(p, s, c)),
        5 => (0u8..4, 0u8..4, 0u8..8, any::<bool>(), prop::collection::vec(change(), 0..3))
            .prop_map(|(p, i, s, g, c)| Op::Batch(p, i, s, g, c)),
        2 => (0u8..4, inventory()).prop_map(|(p, i)| Op::Reconcile(p, i)),
        2 => (0u8..4, 0u8..4, 0u8..8, inventory()).prop_map(|(p, l, s, i)| Op::Inventory(p, l, s, i)),
        2 => (0u8..4, prompt(), any::<u8>(), any::<u8>())
            .prop_map(|(p, c, f, t)| Op::Speculate(p, c, if f < 128 { 0 } else { f }, t)),
        1 => any::<u8>().prop_map(Op::Expire),
        1 => Just(Op::Restart),
    ]
}

fn trace() -> impl Strategy<Value = Vec<Op>> {
    // Two pods are there from the start, or most operations would fall on nobody.
    prop::collection::vec(op(), 1..40).prop_map(|mut ops| {
        ops.splice(0..0, [Op::Join(0), Op::Join(1)]);
        ops
    })
}

proptest! {
    #[test]
    fn the_index_agrees_with_the_model(ops in trace()) {
        replay::<4>(Config::default(), &ops);
    }

    #[test]
    fn and_in_narrow_bounds(ops in trace(), blocks in 5usize..60, per_pod in 5usize..40, pods in 1usize..4) {
        replay::<1>(Config::default().max_blocks(blocks).max_blocks_per_pod(per_pod).max_pods(pods), &ops);
    }

    #[test]
    fn and_with_a_thousand_pods(ops in prop::collection::vec(op(), 1..12)) {
        replay::<16>(Config::default(), &ops);
    }
}

/// What fuzzing found, replayed by every test run.
#[test]
fn fuzz_findings_stay_fixed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/regressions");
    let files = |target: &str| {
        let entries = std::fs::read_dir(format!("{folder}/{target}")).into_iter().flatten().flatten();
        entries.map(|entry| std::fs::read(entry.path()).expect("a readable file")).collect::<Vec<_>>()
    };
    for bytes in files("events") {
        replay_any(&bytes);
    }
    for bytes in files("snapshot") {
        restore_any(&bytes);
    }
}

/// A block that is named twice in one event counts for each; whoever says so follows no chain, so it is scanned for.
#[test]
fn blocks_that_one_event_names_twice() {
    let [x, a, b] = [1, 2, 3].map(BlockHash::new);
    for source in [EventSemantics::Membership, EventSemantics::Copies] {
        let index: crate::Index<1> = crate::Index::with_width(Config::default());
        let (pod, mut model) = (index.join("pod").unwrap(), Model::new(Config::default()));
        assert!(model.join("pod"));
        for blocks in [&[a, a][..], &[x, a, a], &[x, a, b, a], &[b, b, x]] {
            for event in [Event::Stored(crate::Stored::prompt(blocks)), Event::Removed(crate::Removed::new(blocks))] {
                let got = index.apply(pod, source, &event).unwrap();
                assert_eq!(got, model.apply("pod", source, &event), "{source:?}, {event:?}");
                assert_eq!(index.digest(pod).unwrap(), model.digest("pod"));
                let mut matches = crate::Matches::default();
                index.scan(&[x, a, b], &mut matches);
                assert_eq!(matches.depth(pod.id()), model.search(&[x, a, b])["pod"]);
                index.audit();
            }
        }
    }
}
