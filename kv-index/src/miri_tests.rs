//! Miri tests: segments made, extended, shortened, freed and reused, on one thread and under readers.

use crate::{BlockHash, Config, Event, EventSemantics, Index, Matches, Parent, Pod, Removed, Stored, collect_garbage};

fn chain(seed: u64) -> Vec<BlockHash> {
    (1..=12).map(|n| BlockHash::new(seed * 1_000 + n)).collect()
}

fn churn(index: &Index<1>, pod: Pod, seed: u64) {
    let chain = chain(seed);
    let apply = |event: Event<'_>| index.apply(pod, EventSemantics::Membership, &event).expect("live");
    for _ in 0..3 {
        apply(Event::Stored(Stored::prompt(&chain)));
        apply(Event::Removed(Removed::new(&chain[5..6])));
        apply(Event::Stored(Stored::new(Parent::Block(chain[4]), &chain[5..6])));
        let tail: Vec<BlockHash> = chain[2..].iter().rev().copied().collect();
        apply(Event::Removed(Removed::new(&tail)));
    }
}

#[test]
fn miri_one_thread_stores_and_evicts() {
    let index = Index::<1>::with_width(Config::default().max_pods(3));
    let pod = index.join("a").expect("room");
    let mut matches = Matches::default();
    for seed in 1..4 {
        churn(&index, pod, seed);
        index.search(&chain(seed), &mut matches);
        assert_eq!(matches.depth(pod.id()), 2);
    }
    index.audit();
    index.retire(pod);
    while index.sweep(4).pending > 0 {}
    index.audit();
    drop(index);
    collect_garbage();
}

/// Arrays that are outgrown, given up and freed, drop-offs that are kept beside their segment, and a shard that is rebuilt.
#[test]
fn miri_arrays_come_and_go() {
    let index = Index::<1>::with_width(Config::default().max_pods(20).hash_seed(0));
    let long: Vec<BlockHash> = (1..=60).map(BlockHash::new).collect();
    let pods: Vec<Pod> = (0..18).map(|n| index.join(&format!("pod-{n}")).expect("room")).collect();
    let apply = |pod: Pod, event: Event<'_>| index.apply(pod, EventSemantics::Membership, &event).expect("live");
    apply(pods[0], Event::Stored(Stored::prompt(&long[..25])));
    apply(pods[0], Event::Stored(Stored::new(Parent::Block(long[24]), &long[25..])));
    for (n, &pod) in pods.iter().enumerate().skip(1) {
        apply(pod, Event::Stored(Stored::prompt(&long[..60 - 2 * n])));
    }
    let mut matches = Matches::default();
    index.search(&long, &mut matches);
    assert_eq!(matches.groups().len(), 18);
    index.audit();
    for &pod in &pods {
        apply(pod, Event::Cleared);
        collect_garbage();
    }
    // Of one shard: by the key 0, the top byte of a small hash times the golden ratio chooses it.
    let one_shard = (1u64..).filter(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56 == 7).take(12);
    for head in one_shard {
        apply(pods[0], Event::Stored(Stored::prompt(&[BlockHash::new(head)])));
    }
    index.audit();
    drop(index);
    collect_garbage();
}

#[test]
fn miri_readers_outlive_what_writers_replace() {
    let index = Index::<1>::with_width(Config::default().max_pods(4));
    let quiet = index.join("quiet").expect("room");
    index.apply(quiet, EventSemantics::Membership, &Event::Stored(Stored::prompt(&chain(1)))).expect("live");
    let writers: Vec<Pod> = (0..2).map(|n| index.join(&format!("writer-{n}")).expect("room")).collect();
    std::thread::scope(|scope| {
        for (n, &pod) in writers.iter().enumerate() {
            let index = &index;
            scope.spawn(move || churn(index, pod, n as u64 + 1));
        }
        let mut matches = Matches::default();
        for _ in 0..6 {
            index.search(&chain(1), &mut matches);
            assert_eq!(matches.depth(quiet.id()), 12);
        }
    });
    index.audit();
}
