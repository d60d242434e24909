//! Pods, speculation and odd numbers, case by case; the model covers the rest.

use std::time::Duration;

use super::*;
use crate::blocks::{BlockHash, Event, EventSemantics, Parent, Removed, Stored};
use crate::index::matches::Matches;
use crate::index::updates::Expired;
use crate::model::origin;
use crate::sync::{AtomicU64, Ordering};

fn blocks(count: u64) -> Vec<BlockHash> {
    (1..=count).map(BlockHash::new).collect()
}

/// Wider sets than there are ids.
#[test]
fn no_more_pods_join_than_there_are_ids() {
    let index: Index<1025> = Index::with_width(Config::default());
    assert_eq!((index.config.max_pods, index.stats().pods), (Config::MAX_PODS, 0));
}

/// Threads that write in turn, each owning the index for a while, and at once: nothing is lost or there twice, and searches beside them find no
/// pod to hold what none ever had.
#[test]
fn ownership_that_comes_and_goes_loses_nothing() {
    const THREADS: usize = 3;
    let index: Index = Index::new(Config::default());
    let pods: Vec<Pod> = (0..THREADS).map(|n| index.join(&format!("pod-{n}")).expect("room")).collect();
    let (together, owned) = (std::sync::Barrier::new(THREADS), AtomicU64::new(0));
    let writing = AtomicU64::new(THREADS as u64);
    let chain = |n: u64, blocks| (1..=blocks).map(|at| BlockHash::new(n << 32 | at)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (index, pods, together, owned, writing) = (&index, &pods, &together, &owned, &writing);
            scope.spawn(move || {
                for phase in 0..24 {
                    together.wait();
                    // All at once, or one after the other, which owns the index in the end.
                    let (is_in_turn, mut alone, mut n) = (phase % 2 == 1, 0, 0);
                    if !is_in_turn || phase / 2 % THREADS == thread {
                        while n < 60 || is_in_turn && alone < 60 && n < 10_000_000 {
                            let chain = chain(n % 7 + 1, 40);
                            let mut change = index.change(pods[thread]).expect("live");
                            alone += u64::from(change.is_alone());
                            change.event(&Event::Stored(Stored::new(Parent::Root, &chain)), EventSemantics::Membership);
                            if n % 3 > 0 {
                                let removed = Removed::new(&chain[(n % 40) as usize..]);
                                change.event(&Event::Removed(removed), EventSemantics::Membership);
                            }
                            change.finish();
                            n += 1;
                        }
                        owned.fetch_add(u64::from(is_in_turn && alone >= 60), Ordering::Relaxed);
                    }
                }
                writing.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let mut matches = Matches::default();
        while writing.load(Ordering::Relaxed) > 0 {
            for n in 1..=7 {
                index.search(&chain(n, 45), &mut matches);
                assert!(pods.iter().all(|pod| matches.depth(pod.id()) <= 40), "{matches:?}");
            }
        }
    });
    index.audit();
    assert_eq!(owned.load(Ordering::Relaxed), 12, "who writes alone owns the index after a while");
}

/// A long expiry of the owner keeps no other thread waiting.
#[test]
fn who_writes_beside_a_long_expiry_does_not_wait_for_its_end() {
    const BLOCKS: u64 = 50_000;
    let attempt = || {
        let index: Index = Index::new(Config::default());
        let [a, b] = ["a", "b"].map(|name| index.join(name).expect("room"));
        index.speculate(a, &blocks(BLOCKS), origin()).expect("live");
        let (begun, due) = (AtomicU64::new(0), origin() + Duration::from_secs(1));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                while begun.load(Ordering::Relaxed) == 0 {
                    std::thread::yield_now();
                }
                #[expect(clippy::disallowed_methods, reason = "times are what is compared")]
                let came = std::time::Instant::now();
                index.speculate(b, &blocks(1), due).expect("live");
                came.elapsed()
            });
            #[expect(clippy::disallowed_methods, reason = "as above")]
            let came = std::time::Instant::now();
            begun.store(1, Ordering::Relaxed);
            assert_eq!(index.expire(due, BLOCKS as usize).dropped, BLOCKS as usize);
            let took = came.elapsed();
            other.join().expect("it ends").as_secs_f64() / took.as_secs_f64()
        })
    };
    let least = (0..5).map(|_| attempt()).fold(f64::INFINITY, f64::min);
    assert!(least < 0.2, "{least} of the time that it takes");
}

/// Nobody follows itself: it is a block of which nothing is known, found by its hash, until its parent is named.
#[test]
fn a_block_that_follows_itself_follows_something_unknown() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let store = |stored| index.apply(pod, EventSemantics::Membership, &Event::Stored(stored)).expect("live");
    let (chain, own) = (blocks(2), BlockHash::new(1));
    store(Stored::new(Parent::Block(own), &chain[..1]));
    let stats = index.pod_stats(pod).expect("live");
    assert_eq!((stats.slow_path, stats.parent_conflicts), (false, 1));
    let (mut found, mut scanned) = (crate::Matches::default(), crate::Matches::default());
    index.search(&chain, &mut found);
    index.scan(&chain, &mut scanned);
    assert_eq!((found.depth(pod.id()), scanned.depth(pod.id())), (1, 1));
    store(Stored::prompt(&chain));
    index.search(&chain, &mut found);
    assert_eq!(found.depth(pod.id()), 2);
    index.audit();
}

/// The digest counts no copy that the index does not.
#[test]
fn copies_beyond_counting_come_and_go_without_a_trace() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let most =
        crate::InventoryBlock { copies: u32::MAX, ..crate::InventoryBlock::new(BlockHash::new(1), Parent::Root) };
    index.reconcile(pod, &[most]).expect("live");
    let before = index.digest(pod).expect("live");
    index.apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&blocks(1)))).expect("live");
    assert_eq!(index.digest(pod), Ok(before));
    index.reconcile(pod, &[]).expect("live");
    assert_eq!(index.digest(pod), Ok(crate::Digest::EMPTY));
}

/// What is fed meanwhile is there afterwards; a handle of the past neither hides nor shows who has its id now.
#[test]
fn a_suspended_pod_is_fed_and_only_its_own_handle_hides_or_shows_it() {
    let index: Index = Index::new(Config { max_pods: 1, ..Config::default() });
    let depth = |pod: Pod| {
        let mut matches = crate::Matches::default();
        index.search(&blocks(2), &mut matches);
        matches.depth(pod.id())
    };
    let store = |pod: Pod, count| {
        index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(&blocks(count)))).expect("live")
    };
    let old = index.join("a").expect("room");
    store(old, 1);
    assert!(index.suspend(old) && index.suspend(old));
    store(old, 2);
    assert_eq!((depth(old), index.alive().len(), index.pod("a")), (0, 0, Some(old)));
    assert!(index.resume(old));
    assert_eq!(depth(old), 2);
    assert!(index.suspend(old));
    index.retire(old);
    assert!(!index.resume(old), "retired is retired");
    while index.sweep(1_000).pending > 0 {}
    let new = index.join("a").expect("swept");
    store(new, 2);
    assert_eq!((new.id(), depth(new)), (old.id(), 2), "what its id was before does not hide it");
    assert!(!index.suspend(old));
    assert_eq!(depth(new), 2);
}

/// Prolonging costs no memory, and a step of expiry does no more than it was asked to.
#[test]
fn speculation_prolonged_again_and_again_expires_in_steps() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let chain = blocks(500);
    let at = |tick| origin() + Duration::from_millis(tick);
    for tick in 1..=200 {
        index.speculate(pod, &chain, at(tick)).expect("live");
    }
    let bytes = index.pod_stats(pod).expect("live").bytes;
    assert!(bytes < 200_000, "{bytes} bytes for 500 blocks");
    assert_eq!(index.expire(at(199), 10_000), Expired { dropped: 0, pending: false });
    let mut steps = 0;
    loop {
        let step = index.expire(at(200), 10);
        assert!(step.dropped <= 10);
        steps += 1;
        if !step.pending {
            break;
        }
    }
    assert!((50..=51).contains(&steps), "{steps} steps");
    assert_eq!(index.stats().blocks, 0);
}

/// A lock that is taken twice is waited for without end: were one taken, this would not return.
#[test]
fn expiry_takes_no_lock_of_a_pod_where_nothing_is_due() {
    let index: Index = Index::new(Config::default());
    let (a, b) = (index.join("a").expect("room"), index.join("b").expect("room"));
    let at = |tick| origin() + Duration::from_millis(tick);
    let guard = index.cache_of(a.id());
    assert_eq!(index.expire(at(0), 10), Expired::default(), "nothing was ever speculated");
    drop(guard);
    index.speculate(a, &blocks(4), at(20)).expect("live");
    index.speculate(b, &blocks(3), at(10)).expect("live");
    let guard = index.cache_of(a.id());
    assert_eq!(index.expire(at(9), 10), Expired::default());
    assert_eq!(index.expire(at(19), 10), Expired { dropped: 3, pending: false });
    drop(guard);
    assert_eq!(index.expire(at(20), 3), Expired { dropped: 3, pending: true });
    assert_eq!(index.expire(at(20), 3), Expired { dropped: 1, pending: false });
}

/// Segments of one block each come and go: what they took is given back.
#[test]
fn what_segments_took_is_given_back() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let empty = index.stats().bytes;
    let all: Vec<BlockHash> = (1..=50_000u64).map(|n| BlockHash::new(n.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
    for block in all.chunks(1) {
        index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(block))).expect("live");
    }
    let full = index.stats().bytes - empty;
    index.apply(pod, EventSemantics::Membership, &Event::Removed(crate::Removed::new(&all))).expect("live");
    let stays = index.stats().bytes - empty;
    assert!(stays * 10 < full, "{stays} of {full} bytes stay");
    index.audit();
}

/// Who holds what another does costs no more than its part in the segment.
#[test]
fn a_second_holder_costs_less_than_two_bytes_a_block() {
    let index: Index = Index::new(Config::default());
    let (first, second) = (index.join("a").expect("room"), index.join("b").expect("room"));
    let all: Vec<BlockHash> = (1..=64_000u64).map(|n| BlockHash::new(n.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
    let mut bytes = [0; 2];
    for (pod, bytes) in [first, second].into_iter().zip(&mut bytes) {
        for chain in all.chunks(64) {
            index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(chain))).expect("live");
        }
        *bytes = index.stats().bytes;
    }
    assert!(bytes[1] - bytes[0] < 2 * all.len(), "{} bytes for {} blocks", bytes[1] - bytes[0], all.len());
}
