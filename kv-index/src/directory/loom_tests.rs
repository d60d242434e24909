//! Loom models of the directory: entries that come, go and move against look-ups and a resize of their shard.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::loom_tests::model;
use crate::writers::of_many as pin;

fn at(segment: u32) -> BlockPosition {
    BlockPosition { segment: SegmentId::from_raw(segment).expect("not zero"), offset: 0 }
}

fn insert(directory: &Directory, hash: u64, place: BlockPosition) -> Candidates {
    let mut known = Candidates::new();
    while let Err(found) = directory.insert(BlockHash::new(hash), place, &known, &pin()) {
        known = found;
    }
    known
}

/// Hashes whose home is this one of two lines.
fn homed(line: usize) -> impl Iterator<Item = u64> {
    (1..).filter(move |hash| Key::of(BlockHash::new(*hash), Spread::default()).home(2) == line)
}

/// A directory whose two lines have two entries each, the last two those of the hashes 1 and 2: the next one resizes it.
fn full() -> Arc<Directory> {
    let directory = Arc::new(Directory::new(Spread::default()));
    insert(&directory, 1, at(1));
    insert(&directory, 2, at(2));
    insert(&directory, 11, at(11));
    insert(&directory, 12, at(12));
    directory
}

fn found(directory: &Directory, hash: u64) -> Candidates {
    directory.candidates(BlockHash::new(hash), &pin())
}

/// Two enter the same hash at once: one at least learns of the other.
#[test]
fn loom_two_places_of_one_block() {
    model(|| {
        let directory = Arc::new(Directory::new(Spread::default()));
        let other = {
            let directory = Arc::clone(&directory);
            thread::spawn(move || insert(&directory, 1, at(1)))
        };
        let mine = insert(&directory, 1, at(2));
        let others = other.join().unwrap();
        assert!(mine.contains(&at(1)) || others.contains(&at(2)), "{mine:?}, {others:?}");
        assert_eq!(found(&directory, 1).len(), 2);
    });
}

/// An entry that is there all the while is found all the while, though its shard is resized.
#[test]
fn loom_a_look_up_against_a_resize() {
    model(|| {
        let directory = full();
        let other = {
            let directory = Arc::clone(&directory);
            thread::spawn(move || assert!(found(&directory, 1).contains(&at(1))))
        };
        insert(&directory, 3, at(3));
        other.join().unwrap();
        assert!((1..=3).all(|n| found(&directory, n.into()).contains(&at(n))));
    });
}

/// What leaves or moves in the course of a resize has left or moved.
#[test]
fn loom_changes_against_a_resize() {
    model(|| {
        let directory = full();
        let other = {
            let directory = Arc::clone(&directory);
            thread::spawn(move || {
                directory.remove(BlockHash::new(1), at(1), &pin());
                directory.replace(BlockHash::new(2), at(2), at(5), &pin());
            })
        };
        insert(&directory, 3, at(3));
        other.join().unwrap();
        let mut left: Vec<u32> = directory.entries(&pin()).iter().map(|at| at.segment.raw()).collect();
        left.sort_unstable();
        assert_eq!(left, [3, 5, 11, 12]);
        assert!(found(&directory, 2).contains(&at(5)) && found(&directory, 3).contains(&at(3)));
    });
}

/// Entries go to the line beside their home, which is full, and leave it, from both sides at once: nobody waits for ever, and nobody
/// takes another one's slot.
#[test]
fn loom_neighbours_that_are_full() {
    model(|| {
        let directory = Arc::new(Directory::new(Spread::default()));
        let (lower, upper): (Vec<u64>, Vec<u64>) = (homed(0).take(2).collect(), homed(1).take(3).collect());
        // The last one is in the line before its home.
        for (hash, segment) in upper.iter().zip(1..) {
            insert(&directory, *hash, at(segment));
        }
        insert(&directory, lower[0], at(4));
        let other = {
            let (directory, gone) = (Arc::clone(&directory), BlockHash::new(upper[2]));
            thread::spawn(move || directory.remove(gone, at(3), &pin()))
        };
        insert(&directory, lower[1], at(5));
        other.join().unwrap();
        let mut left: Vec<u32> = directory.entries(&pin()).iter().map(|at| at.segment.raw()).collect();
        left.sort_unstable();
        assert_eq!(left, [1, 2, 4, 5]);
        assert!(found(&directory, lower[1]).contains(&at(5)) && found(&directory, upper[1]).contains(&at(2)));
    });
}
