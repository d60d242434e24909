//! Loom models of a segment (run): a reader against writers that publish, move its arrays and use it again. The reader is the spawned
//! thread: loom remembers only the last access to an atomic, and a writer that loads first would hide it.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::loom_tests::model;
use crate::reclaim::pin;
use crate::spread::Spread;

fn block(n: u64) -> BlockHash {
    BlockHash::new(n)
}

struct World {
    heads: Heads,
    runs: Runs<1>,
}

impl World {
    fn store(&self, pod: u16, anchor: Anchor, blocks: &[BlockHash]) -> Place {
        self.take(pod, anchor, blocks).first
    }

    fn take(&self, pod: u16, anchor: Anchor, blocks: &[BlockHash]) -> Taken {
        match self.runs.take(&self.heads, PodId::new(pod), anchor, blocks, true, &pin()) {
            Take::Taken(taken) => taken,
            other => panic!("{other:?}"),
        }
    }
}

/// What a reader reads of a run is one state of it: its end, its hashes and its holders belong together.
#[test]
fn loom_view_against_publications() {
    model(|| {
        let world = Arc::new(World { heads: Heads::new(Spread::default()), runs: Runs::new() });
        let first = world.store(1, Anchor::Root, &[block(1)]);
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let pin = pin();
                let view = world.runs.view(first.run, &pin);
                let (base, end) = (view.base(), view.len().checked_sub(1));
                let last = end.map(|end| view.hash(end));
                if view.is_current() {
                    assert!(last.is_none_or(|last| view.ends_with(BlockHash::new(last))));
                    assert_eq!(base.contains(PodId::new(1)), end.is_some());
                }
            })
        };
        world.runs.run(first.run).extend_own(PodId::new(1), 1, &[block(2)], |_| 1).expect("it is its own");
        world.runs.drop_pod(&world.heads, PodId::new(1), first.run, &pin());
        reader.join().unwrap();
    });
}

/// A run that is used again is not taken for the one it was.
#[test]
fn loom_view_against_a_run_used_again() {
    model(|| {
        let world = Arc::new(World { heads: Heads::new(Spread::default()), runs: Runs::new() });
        let first = world.store(1, Anchor::Root, &[block(1)]);
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let pin = pin();
                let view = world.runs.view(first.run, &pin);
                let base = view.base();
                if view.is_current() && view.begins_with(block(1)) {
                    assert!(base.contains(PodId::new(1)), "who holds it held it then");
                }
            })
        };
        world.runs.drop_pod(&world.heads, PodId::new(1), first.run, &pin());
        assert_eq!(world.store(3, Anchor::Root, &[block(9)]).run, first.run);
        reader.join().unwrap();
    });
}

/// Two pods come with the same new block at once: it gets one place.
#[test]
fn loom_two_stores_of_one_block() {
    model(|| {
        let world = Arc::new(World { heads: Heads::new(Spread::default()), runs: Runs::new() });
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.store(1, Anchor::Root, &[block(1)]))
        };
        let mine = world.store(2, Anchor::Root, &[block(1)]);
        assert_eq!(other.join().unwrap(), mine);
        assert_eq!(world.runs.len(), 1);
        let (_, holders) = world.runs.content(mine.run, &pin());
        assert!(holders.holds(PodId::new(1), 0) && holders.holds(PodId::new(2), 0));
    });
}

/// One pod gives a run up while another comes to it.
#[test]
fn loom_a_run_given_up_against_one_who_joins_it() {
    model(|| {
        let world = Arc::new(World { heads: Heads::new(Spread::default()), runs: Runs::new() });
        let first = world.store(1, Anchor::Root, &[block(1)]);
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.store(2, Anchor::Root, &[block(1)]))
        };
        world.runs.drop_pod(&world.heads, PodId::new(1), first.run, &pin());
        let place = other.join().unwrap();
        let found = world.heads.probe(block(1), &pin());
        assert_eq!(found, Some(place.run), "the block can be found where it is");
        assert!(world.runs.content(place.run, &pin()).1.holds(PodId::new(2), 0));
        assert_eq!(world.runs.len(), 1);
    });
}

/// Whoever makes a place for a block finds the orphan that follows it, however the block went.
#[test]
fn loom_an_orphan_against_one_who_comes_to_it() {
    model(|| {
        let world = Arc::new(World { heads: Heads::new(Spread::default()), runs: Runs::new() });
        let first = world.store(1, Anchor::Root, &[block(1)]);
        // Three hold it, so that what follows has a run of its own.
        for pod in [2, 3] {
            world.store(pod, Anchor::Root, &[block(1)]);
        }
        let second = world.store(1, Anchor::Behind(block(1), first), &[block(2)]);
        assert_ne!(first.run, second.run);
        for pod in [2, 3] {
            world.runs.drop_pod(&world.heads, PodId::new(pod), first.run, &pin());
        }
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let taken = world.take(4, Anchor::Root, &[block(1), block(2)]);
                assert_eq!(taken.count, 1, "the second block has a place");
                let behind = Anchor::Behind(block(1), taken.first);
                assert_eq!(world.store(4, behind, &[block(2)]), second);
            })
        };
        world.runs.drop_pod(&world.heads, PodId::new(1), first.run, &pin());
        other.join().unwrap();
    });
}

/// The same where what went is itself behind something: its run goes without the lock of the run before it.
#[test]
fn loom_an_orphan_against_one_who_comes_from_further_up() {
    model(|| {
        let world = Arc::new(World { heads: Heads::new(Spread::default()), runs: Runs::new() });
        let first = world.store(1, Anchor::Root, &[block(1), block(9)]);
        // Behind the first block there is another branch, and behind its first block one more.
        let second = world.store(1, Anchor::Behind(block(1), first), &[block(2), block(8)]);
        let third = world.store(1, Anchor::Behind(block(2), second), &[block(3)]);
        assert!(first.run != second.run && second.run != third.run);
        world.runs.remove(&world.heads, PodId::new(1), &[Span { run: first.run, from: 1, to: 2 }], &pin());
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let chain = [block(1), block(2), block(3)];
                let (mut anchor, mut at, mut place) = (Anchor::Root, 0, None);
                while at < chain.len() {
                    let taken = world.take(4, anchor, &chain[at..]);
                    at += taken.count;
                    let last = Place { offset: taken.first.offset + taken.count as u32 - 1, ..taken.first };
                    (anchor, place) = (Anchor::Behind(chain[at - 1], last), Some(last));
                }
                assert_eq!(place, Some(third), "the third block has a place");
            })
        };
        world.runs.drop_pod(&world.heads, PodId::new(1), second.run, &pin());
        other.join().unwrap();
    });
}

/// A block comes and goes while another thread makes a run that begins with it.
#[test]
fn loom_an_orphan_against_a_new_run() {
    model(|| {
        let world = Arc::new(World { heads: Heads::new(Spread::default()), runs: Runs::new() });
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let taken = world.take(4, Anchor::Root, &[block(1), block(2)]);
                if taken.count == 2 {
                    return Place { offset: 1, ..taken.first };
                }
                world.store(4, Anchor::Behind(block(1), taken.first), &[block(2)])
            })
        };
        let first = world.store(1, Anchor::Root, &[block(1), block(9)]);
        let second = world.store(1, Anchor::Behind(block(1), first), &[block(2)]);
        world.runs.drop_pod(&world.heads, PodId::new(1), first.run, &pin());
        assert_eq!(other.join().unwrap(), second, "the second block has one place");
    });
}
