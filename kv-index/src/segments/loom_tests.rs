//! Loom models of a segment: a reader against writers that publish, move its arrays and use it again. The reader is the spawned
//! thread: loom remembers only the last access to an atomic, and a writer that loads first would hide it.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::directory::spread::Spread;
use crate::loom_tests::model;
use crate::writers::of_many as pin;

fn block(n: u64) -> BlockHash {
    BlockHash::new(n)
}

const ROOT: Anchor = Anchor::Nowhere(Parent::Root);

fn store(segments: &Segments<1>, pod: u16, anchor: Anchor, blocks: &[BlockHash]) -> BlockPosition {
    match segments.take(PodId::new(pod), anchor, blocks, true, &pin()) {
        Take::Taken(taken) => taken.first,
        other => panic!("{other:?}"),
    }
}

fn world() -> Arc<Segments<1>> {
    Arc::new(Segments::new(Spread::default()))
}

/// Does something to the world on a thread of its own.
fn beside<R: 'static>(
    world: &Arc<Segments<1>>,
    act: impl FnOnce(&Segments<1>) -> R + 'static,
) -> thread::JoinHandle<R> {
    let world = Arc::clone(world);
    thread::spawn(move || act(&world))
}

/// What a reader reads of a segment is one state of it: its end, its hashes and its holders belong together.
#[test]
fn loom_view_against_publications() {
    model(|| {
        let world = world();
        let first = store(&world, 1, ROOT, &[block(1)]);
        let reader = beside(&world, move |world| {
            let pin = pin();
            let view = world.view(first.segment, &pin);
            let (base, end) = (view.base(), view.len().checked_sub(1));
            let last = end.map(|end| view.hash(end));
            if view.is_current() {
                assert!(last.is_none_or(|last| view.ends_with(BlockHash::new(last))));
                assert_eq!(base.contains(PodId::new(1)), end.is_some());
            }
        });
        world
            .segment(first.segment, &pin())
            .extend_own(PodId::new(1), block(1), 1, &[block(2)], |_| 1)
            .expect("it is its own");
        let life = world.view(first.segment, &pin()).life();
        assert!(world.segment(first.segment, &pin()).shorten_own(PodId::new(1), life, 1, 2, |_| {}));
        world.drop_pod(PodId::new(1), first.segment, &pin());
        reader.join().unwrap();
    });
}

/// A segment that is used again is not taken for the one it was.
#[test]
fn loom_view_against_a_segment_used_again() {
    model(|| {
        let world = world();
        let first = store(&world, 1, ROOT, &[block(1)]);
        let reader = beside(&world, move |world| {
            let pin = pin();
            let view = world.view(first.segment, &pin);
            let base = view.base();
            if view.is_current() && view.begins_with(block(1)) {
                assert!(base.contains(PodId::new(1)), "who holds it held it then");
            }
        });
        world.drop_pod(PodId::new(1), first.segment, &pin());
        assert_eq!(store(&world, 3, ROOT, &[block(9)]).segment, first.segment);
        reader.join().unwrap();
    });
}

/// Two pods come with the same new block at once: it gets one place.
#[test]
fn loom_two_stores_of_one_block() {
    model(|| {
        let world = world();
        let other = beside(&world, move |world| store(&world, 1, ROOT, &[block(1)]));
        let mine = store(&world, 2, ROOT, &[block(1)]);
        assert_eq!(other.join().unwrap(), mine);
        assert_eq!(world.len(), 1);
        let (_, holders, _) = world.content(mine.segment, &pin());
        assert!(holders.holds(PodId::new(1), 0) && holders.holds(PodId::new(2), 0));
    });
}

/// One pod gives a segment up while another comes to it.
#[test]
fn loom_a_segment_given_up_against_one_who_joins_it() {
    model(|| {
        let world = world();
        let first = store(&world, 1, ROOT, &[block(1)]);
        let other = beside(&world, move |world| store(&world, 2, ROOT, &[block(1)]));
        world.drop_pod(PodId::new(1), first.segment, &pin());
        let place = other.join().unwrap();
        let found = world.heads.probe(block(1), &pin());
        assert_eq!(found, Some(place.segment), "the block can be found where it is");
        assert!(world.content(place.segment, &pin()).1.holds(PodId::new(2), 0));
        assert_eq!(world.len(), 1);
    });
}

/// Two pods make places for one block at once, one of which does not say what it follows: there is one place, or both segments say
/// that there are two.
#[test]
fn loom_two_places_of_one_block_are_told() {
    model(|| {
        let world = world();
        let first = store(&world, 1, ROOT, &[block(1)]);
        let other = beside(&world, move |world| store(&world, 2, Anchor::Nowhere(Parent::Unknown), &[block(2)]));
        let mine = store(&world, 1, Anchor::Behind(block(1), first), &[block(2)]);
        let theirs = other.join().unwrap();
        let told = |at: BlockPosition| world.content(at.segment, &pin()).2;
        assert!(mine == theirs || told(mine) && told(theirs), "{mine:?}, {theirs:?}");
    });
}

/// A block is looked up while its segment becomes part of the one before it.
#[test]
fn loom_a_look_up_against_a_merge() {
    model(|| {
        let world = world();
        let second = store(&world, 1, Anchor::Nowhere(Parent::Block(block(1))), &[block(2)]);
        let first = store(&world, 1, ROOT, &[block(1)]);
        assert_ne!(first.segment, second.segment);
        let other = beside(&world, move |world| assert!(world.find(PodId::new(1), block(2), &pin()).is_some()));
        world.merge(first.segment, second.segment, &pin());
        other.join().unwrap();
        assert_eq!((world.len(), world.find(PodId::new(1), block(2), &pin())), (1, Some(first.plus(1))));
    });
}

/// A block leaves while its segment becomes part of the one before it.
#[test]
fn loom_a_removal_against_a_merge() {
    model(|| {
        let world = world();
        let second = store(&world, 1, Anchor::Nowhere(Parent::Block(block(1))), &[block(2)]);
        let first = store(&world, 1, ROOT, &[block(1)]);
        let other = beside(&world, move |world| {
            let life = world.view(second.segment, &pin()).life();
            let span = Span { segment: second.segment, life, from: 0, to: 1 };
            world.remove(PodId::new(1), &[span], &pin())
        });
        world.merge(first.segment, second.segment, &pin());
        let (gone, _) = other.join().unwrap();
        let held = world.find(PodId::new(1), block(2), &pin()).is_some();
        assert_eq!(gone.held == 0, held, "{gone:?}");
    });
}

/// A walk from segment to segment meets every block once, merges or not.
#[test]
fn loom_a_walk_against_a_merge() {
    model(|| {
        let world = world();
        let second = store(&world, 1, Anchor::Nowhere(Parent::Block(block(1))), &[block(2)]);
        let first = store(&world, 1, ROOT, &[block(1)]);
        let other = beside(&world, move |world| {
            let (_still, mut met) = (world.hold_still(), 0);
            for segment in [first.segment, second.segment] {
                world.for_held(PodId::new(1), segment, &pin(), |_, _, blocks| met += blocks.len());
            }
            assert_eq!(met, 2);
        });
        world.merge(first.segment, second.segment, &pin());
        other.join().unwrap();
    });
}
