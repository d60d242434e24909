//! Small enough for miri: runs made, made longer and shorter, left and used again, on one thread and under readers.

use crate::{BlockHash, Config, Event, Index, Matches, Parent, Pod, Removed, Source, Stored, collect};

fn chain(seed: u64) -> Vec<BlockHash> {
    (1..=12).map(|n| BlockHash::new(seed * 1_000 + n)).collect()
}

fn churn(index: &Index<1>, pod: Pod, seed: u64) {
    let chain = chain(seed);
    let apply = |event: Event<'_>| index.apply(pod, Source::Membership, &event).expect("live");
    for _ in 0..3 {
        apply(Event::Stored(Stored::prompt(&chain)));
        apply(Event::Removed(Removed::new(&chain[5..6])));
        apply(Event::Stored(Stored::new(Parent::Block(chain[4]), &chain[5..6])));
        let tail: Vec<BlockHash> = chain[2..].iter().rev().copied().collect();
        apply(Event::Removed(Removed::new(&tail)));
    }
}

#[test]
fn miri_one_thread_passes_every_unsafe_line() {
    let index = Index::<1>::new(Config::default().max_pods(3));
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
    collect();
}

#[test]
fn miri_readers_outlive_what_writers_replace() {
    let index = Index::<1>::new(Config::default().max_pods(4));
    let quiet = index.join("quiet").expect("room");
    index.apply(quiet, Source::Membership, &Event::Stored(Stored::prompt(&chain(1)))).expect("live");
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
