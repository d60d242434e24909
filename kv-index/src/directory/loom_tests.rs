//! Loom models of the directory: entries that come, go and move against look-ups and a resize of their shard.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::loom_tests::model;
use crate::reclaim::pin;

fn at(run: u32) -> Place {
    Place { run: RunId::from_raw(run).expect("not zero"), offset: 0 }
}

fn insert(directory: &Directory, hash: u64, place: Place) -> Candidates {
    let mut known = Candidates::new();
    while let Err(found) = directory.insert(BlockHash::new(hash), place, &known, &pin()) {
        known = found;
    }
    known
}

/// A directory whose one line has two entries: the next one resizes it.
fn full() -> Arc<Directory> {
    let directory = Arc::new(Directory::new(Spread::default()));
    insert(&directory, 1, at(1));
    insert(&directory, 2, at(2));
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
        let mut left: Vec<u32> = directory.entries(&pin()).iter().map(|at| at.run.raw()).collect();
        left.sort_unstable();
        assert_eq!(left, [3, 5]);
        assert!(found(&directory, 2).contains(&at(5)) && found(&directory, 3).contains(&at(3)));
    });
}
