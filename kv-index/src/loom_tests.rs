//! Loom models of the protocols between an index's parts, small enough to finish.
//!
//! Searches run in the spawned thread: loom remembers only the last access to an atomic, and a writer that
//! loads before it stores would hide an earlier load of a search from it.

use loom::sync::Arc;
use loom::thread;

use crate::{
    Batch, BatchOutcome, BlockHash, Config, Consumer, Event, EventSemantics, Feed, FeedConfig, Index, Matches, Pod,
    Removed, Stored,
};

/// Two preemptions find every mistake that was planted to try these models, in seconds.
pub(crate) fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 10_000;
    builder.check(check);
}

fn index(pods: usize) -> Arc<Index<1>> {
    Arc::new(Index::with_width(Config::default().max_pods(pods).hash_seed(0)))
}

fn store(index: &Index<1>, pod: Pod, blocks: &[BlockHash]) -> bool {
    index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(blocks))).is_ok()
}

fn depth(index: &Index<1>, chain: &[BlockHash], pod: Pod) -> usize {
    let mut matches = Matches::default();
    index.search(chain, &mut matches);
    matches.depth(pod.id())
}

const CHAIN: [BlockHash; 2] = [BlockHash::new(1), BlockHash::new(2)];

#[test]
fn loom_search_against_a_store_and_an_eviction() {
    model(|| {
        let index = index(2);
        let (quiet, busy) = (index.join("quiet").unwrap(), index.join("busy").unwrap());
        store(&index, quiet, &CHAIN);
        let searcher = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let mut matches = Matches::default();
                index.search(&CHAIN, &mut matches);
                assert_eq!(matches.depth(quiet.id()), 2, "a pod that does not change is exact");
            })
        };
        store(&index, busy, &CHAIN);
        index.apply(busy, EventSemantics::Membership, &Event::Removed(Removed::new(&CHAIN[1..]))).unwrap();
        searcher.join().unwrap();
        assert_eq!((depth(&index, &CHAIN, quiet), depth(&index, &CHAIN, busy)), (2, 1));
    });
}

/// The first block leaves, then the second comes: no search sees both.
#[test]
fn loom_search_against_a_hole() {
    model(|| {
        let index = index(1);
        let pod = index.join("a").unwrap();
        store(&index, pod, &CHAIN[..1]);
        let searcher = {
            let index = Arc::clone(&index);
            thread::spawn(move || assert!(depth(&index, &CHAIN, pod) <= 1, "there never were two leading blocks"))
        };
        index.apply(pod, EventSemantics::Membership, &Event::Removed(Removed::new(&CHAIN[..1]))).unwrap();
        let orphan = Stored::new(crate::Parent::Block(CHAIN[0]), &CHAIN[1..]);
        index.apply(pod, EventSemantics::Membership, &Event::Stored(orphan)).unwrap();
        searcher.join().unwrap();
        assert_eq!(depth(&index, &CHAIN, pod), 0);
    });
}

/// What is behind a hole is not seen while it is there, nor when it goes.
#[test]
fn loom_search_against_a_hole_that_goes() {
    model(|| {
        let index = index(2);
        let (quiet, busy) = (index.join("quiet").unwrap(), index.join("busy").unwrap());
        let chain = [BlockHash::new(1), BlockHash::new(2), BlockHash::new(3)];
        store(&index, quiet, &chain);
        store(&index, busy, &chain);
        let remove =
            |blocks| index.apply(busy, EventSemantics::Membership, &Event::Removed(Removed::new(blocks))).unwrap();
        remove(&chain[1..2]);
        let searcher = {
            let index = Arc::clone(&index);
            thread::spawn(move || assert!(depth(&index, &chain, busy) <= 1, "the second block is missing all along"))
        };
        remove(&chain[2..3]);
        searcher.join().unwrap();
    });
}

/// What a pod holds all the while is found, though a segment becomes part of the one before it.
#[test]
fn loom_search_against_a_merge() {
    model(|| {
        let index = index(3);
        let pods = ["quiet", "busy", "short"].map(|name| index.join(name).unwrap());
        pods.iter().for_each(|&pod| assert!(store(&index, pod, &CHAIN[..1])));
        store(&index, pods[0], &CHAIN);
        assert_eq!(index.stats().segments, 2);
        let searcher = {
            let index = Arc::clone(&index);
            thread::spawn(move || assert_eq!(depth(&index, &CHAIN, pods[0]), 2))
        };
        store(&index, pods[1], &CHAIN);
        searcher.join().unwrap();
        assert_eq!(index.stats().segments, 1);
    });
}

/// Two pods say that a block follows another than a third one said, which is outvoted: what that one holds all the while is found.
#[test]
fn loom_search_against_a_merge_behind_another_block() {
    model(|| {
        let index = index(3);
        let [honest, a, b] = ["honest", "a", "b"].map(|name| index.join(name).unwrap());
        let other = BlockHash::new(9);
        let lie = |pod| {
            let stored = Stored::new(crate::Parent::Block(other), &CHAIN[1..]);
            index.apply(pod, EventSemantics::Membership, &Event::Stored(stored)).unwrap()
        };
        assert!(store(&index, a, &CHAIN[1..]) && store(&index, honest, &CHAIN));
        [honest, a, b].iter().for_each(|&pod| assert!(store(&index, pod, &[other])));
        lie(b);
        assert_eq!(index.stats().segments, 3);
        let searcher = {
            let index = Arc::clone(&index);
            thread::spawn(move || assert_eq!(depth(&index, &CHAIN, honest), 2))
        };
        lie(a);
        searcher.join().unwrap();
        assert_eq!((index.stats().segments, depth(&index, &CHAIN, honest)), (2, 2));
    });
}

#[test]
fn loom_retire_against_search() {
    model(|| {
        let index = index(1);
        let pod = index.join("a").unwrap();
        store(&index, pod, &CHAIN);
        let searcher = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let first = depth(&index, &CHAIN, pod);
                assert!([0, 2].contains(&first));
                let second = depth(&index, &CHAIN, pod);
                assert!(second <= first, "gone is gone");
            })
        };
        assert!(index.retire(pod));
        assert_eq!(depth(&index, &CHAIN, pod), 0, "visible to every later search");
        searcher.join().unwrap();
    });
}

#[test]
fn loom_id_reuse_against_a_late_event() {
    model(|| {
        let index = index(1);
        let old = index.join("old").unwrap();
        let late = {
            let index = Arc::clone(&index);
            thread::spawn(move || store(&index, old, &CHAIN[..1]))
        };
        index.retire(old);
        while index.sweep(10).pending > 0 {}
        let new = index.join("new").unwrap();
        assert_eq!((new.id(), new.generation()), (old.id(), old.generation() + 1));
        late.join().unwrap();
        assert_eq!(depth(&index, &CHAIN, new), 0, "the late event is not the new pod's");
        index.audit();
    });
}

/// The block's segment ends and its id goes to another segment, between a search's finding the head and reading the segment.
#[test]
fn loom_search_against_a_segment_used_again() {
    model(|| {
        let index = index(2);
        let (a, b) = (index.join("a").unwrap(), index.join("b").unwrap());
        let (x, y) = (BlockHash::new(1), BlockHash::new(2));
        store(&index, a, &[x]);
        let searcher = {
            let index = Arc::clone(&index);
            thread::spawn(move || assert_eq!(depth(&index, &[x], b), 0, "this pod never held the block"))
        };
        index.apply(a, EventSemantics::Membership, &Event::Removed(Removed::new(&[x]))).unwrap();
        store(&index, b, &[y]);
        searcher.join().unwrap();
    });
}

#[test]
fn loom_retire_against_a_sweep_and_a_join() {
    model(|| {
        let index = index(1);
        let a = index.join("a").unwrap();
        let other = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                index.sweep(10);
                index.join("b").ok()
            })
        };
        index.retire(a);
        if let Some(b) = other.join().unwrap() {
            assert!(index.alive().contains(b.id()), "the next pod of the id is seen");
        }
    });
}

#[test]
fn loom_two_sweeps_at_once() {
    model(|| {
        let index = index(1);
        let a = index.join("a").unwrap();
        index.retire(a);
        let other = {
            let index = Arc::clone(&index);
            thread::spawn(move || index.sweep(10))
        };
        index.sweep(10);
        let b = index.join("b").ok();
        other.join().unwrap();
        assert!(b.is_none_or(|b| index.handle(b.id()) == Some(b)), "a live pod is not swept");
    });
}

#[test]
fn loom_two_consumers_on_one_pod() {
    model(|| {
        let index = index(1);
        let pod = index.join("a").unwrap();
        let consume = move |index: &Index<1>| {
            let events = [Event::Stored(Stored::prompt(&CHAIN[..1]))];
            let batch = Batch { incarnation: 1, sequence: 0, events: &events };
            Feed::new(index, pod, FeedConfig::default()).consume(&batch).unwrap()
        };
        let other = {
            let index = Arc::clone(&index);
            thread::spawn(move || consume(&index))
        };
        let verdicts = [consume(&index), other.join().unwrap()];
        assert_eq!(verdicts.iter().filter(|v| **v == BatchOutcome::Duplicate).count(), 1, "{verdicts:?}");
        index.apply(pod, EventSemantics::Copies, &Event::Removed(Removed::new(&CHAIN[..1]))).unwrap();
        assert_eq!(depth(&index, &CHAIN, pod), 0, "one copy was counted");
    });
}
