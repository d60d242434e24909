//! The directory alone, against a list; growth, shrinking, and threads.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::writers::{of_many as pin, of_one};

fn at(segment: u32, offset: u32) -> BlockPosition {
    BlockPosition { segment: SegmentId::from_raw(segment).expect("not zero"), offset }
}

fn insert(directory: &Directory, hash: u64, place: BlockPosition) {
    insert_as(directory, hash, place, &pin());
}

fn insert_as(directory: &Directory, hash: u64, place: BlockPosition, pin: &WritePin<'_>) {
    let (hash, mut known) = (BlockHash::new(hash), Candidates::new());
    while let Err(found) = directory.insert(hash, place, &known, pin) {
        known = found;
    }
}

/// Home lines that were found before their shard was resized are past: what comes and leaves by them is where it belongs all the same.
#[test]
fn homes_that_are_past_when_they_are_wanted_are_found_anew() {
    for pin in [pin as fn() -> WritePin<'static>, of_one] {
        let (directory, hashes) = (Directory::new(Spread::default()), (1..20_000).map(BlockHash::new));
        let before = directory.lines(0, &pin()).len();
        for (home, hash) in HomesAhead::new(&directory, hashes.clone(), &pin()).zip(hashes.clone()) {
            // Tags are few: where one is met again, the entry beside it is another's.
            if let Err(known) = directory.insert_at(home, hash, at(hash.get() as u32, 7), &pin()) {
                assert_eq!(directory.insert(hash, at(hash.get() as u32, 7), &known, &pin()), Ok(()));
            }
        }
        assert!(directory.lines(0, &pin()).len() > 4 * before, "shards grew on the way");
        assert_eq!(directory.entries(&pin()).len(), hashes.clone().count());
        for hash in hashes.clone() {
            assert!(directory.candidates(hash, &pin()).contains(&at(hash.get() as u32, 7)));
        }
        for (home, hash) in HomesAhead::new(&directory, hashes.clone(), &pin()).zip(hashes) {
            directory.remove_at(home, at(hash.get() as u32, 7), &pin());
        }
        assert_eq!((directory.entries(&pin()).len(), directory.lines(0, &pin()).len()), (0, before));
    }
}

proptest! {
    /// The literal model: a set of (hash, position). A hash's positions are among its candidates, and nothing else is entered, whether lines are
    /// locked or not.
    #[test]
    fn a_directory_is_a_set_of_hashes_and_positions(
        ops in prop::collection::vec((1u64..40, 1u32..4, 0u8..6), 0..400),
        is_one in any::<bool>(),
    ) {
        let directory = Directory::new(Spread::default());
        let pin = if is_one { of_one } else { pin };
        let mut model = BTreeSet::new();
        for (hash, segment, op) in ops {
            let entry = (hash, segment, 0);
            match op {
                0..=2 if model.insert(entry) => insert_as(&directory, hash, at(segment, 0), &pin()),
                3 if model.remove(&entry) => directory.remove(BlockHash::new(hash), at(segment, 0), &pin()),
                4 if model.contains(&entry) && !model.contains(&(hash, segment + 10, 0)) => {
                    directory.replace(BlockHash::new(hash), at(segment, 0), at(segment + 10, 0), &pin());
                    model.remove(&entry);
                    model.insert((hash, segment + 10, 0));
                }
                _ => {}
            }
            for &(hash, segment, offset) in &model {
                prop_assert!(directory.candidates(BlockHash::new(hash), &pin()).contains(&at(segment, offset)));
            }
            prop_assert_eq!(directory.entries(&pin()).len(), model.len());
        }
    }
}

#[test]
fn a_candidate_in_the_way_is_told() {
    let directory = Directory::new(Spread::default());
    let (hash, pin) = (BlockHash::new(7), pin());
    assert_eq!(directory.insert(hash, at(1, 5), &[], &pin), Ok(()));
    assert_eq!(directory.insert(hash, at(2, 0), &[], &pin), Err(Candidates::from_slice(&[at(1, 5)])));
    assert_eq!(directory.insert(hash, at(2, 0), &[at(1, 5)], &pin), Ok(()));
    assert_eq!(directory.candidates(hash, &pin).len(), 2);
}

#[test]
fn a_million_entries_come_and_go_and_leave_little() {
    let directory = Directory::new(Spread::default());
    let empty = directory.bytes();
    let count = 1_000_000;
    for n in 1..=count {
        insert(&directory, n, at(1 + n as u32 % 1_000, n as u32 % 60_000));
    }
    let full = directory.bytes() - empty;
    assert!(full < count as usize * 20, "{} bytes an entry", full / count as usize);
    let pin = pin();
    for n in 1..=count {
        assert!(directory.candidates(BlockHash::new(n), &pin).contains(&at(1 + n as u32 % 1_000, n as u32 % 60_000)));
        directory.remove(BlockHash::new(n), at(1 + n as u32 % 1_000, n as u32 % 60_000), &pin);
    }
    assert!(directory.entries(&pin).is_empty());
    assert!(directory.bytes() - empty < full / 20, "{} of {full} bytes stay", directory.bytes() - empty);
}

/// Small shards grow and shrink in steps of three and more, so that a table that fills, or that breathes, seldom moves an entry.
#[test]
fn a_small_shard_is_seldom_resized() {
    let (directory, pin) = (Directory::new(Spread::default()), pin());
    let (mut class, mut resizes) = (directory.arrays[0].class(), 0);
    let mut watch = |resizes: &mut usize| {
        let now = directory.arrays[0].class();
        *resizes += usize::from(now != std::mem::replace(&mut class, now));
    };
    for n in 1..=200_000u64 {
        insert(&directory, n, at(1, 0));
        watch(&mut resizes);
    }
    assert!(resizes <= 5, "{resizes} while it grew");
    resizes = 0;
    for n in 1..=100_000 {
        directory.remove(BlockHash::new(n), at(1, 0), &pin);
        watch(&mut resizes);
    }
    assert_eq!(resizes, 0, "half of it left");
}

/// A line that was full sends look-ups on no longer than entries of it are further on.
#[test]
fn churn_at_one_size_keeps_the_size() {
    let directory = Directory::new(Spread::default());
    for n in 1..=20_000u64 {
        insert(&directory, n, at(1, 0));
    }
    let before = directory.bytes();
    for n in 1..=400_000u64 {
        directory.remove(BlockHash::new(n), at(1, 0), &pin());
        insert(&directory, n + 20_000, at(1, 0));
    }
    assert_eq!(directory.entries(&pin()).len(), 20_000);
    assert!(directory.bytes() <= before * 3 / 2, "{} bytes, {before} before", directory.bytes());
}

/// Threads enter and take out entries of their own in the same shards; what stays is found all the while.
#[test]
fn threads_do_not_lose_each_other_s_entries() {
    let directory = Directory::new(Spread::default());
    let threads = 4u64;
    for n in 1..=1_000 {
        insert(&directory, n << 32, at(9, 0));
    }
    std::thread::scope(|scope| {
        for thread in 1..=threads {
            let directory = &directory;
            scope.spawn(move || {
                for round in 0..20 {
                    for n in 1..=2_000u64 {
                        insert(directory, n * 8 + thread, at(thread as u32, round));
                    }
                    for n in 1..=1_000 {
                        assert!(directory.candidates(BlockHash::new(n << 32), &pin()).contains(&at(9, 0)));
                    }
                    for n in 1..=2_000u64 {
                        directory.remove(BlockHash::new(n * 8 + thread), at(thread as u32, round), &pin());
                    }
                }
            });
        }
    });
    assert_eq!(directory.entries(&pin()).len(), 1_000);
}

/// Entries that bear one tag have one home line, however large the shard: they are slow, and nothing worse.
#[test]
fn entries_of_one_tag_crowd_without_end() {
    let directory = Directory::new(Spread::default());
    let (hash, pin) = (BlockHash::new(7), pin());
    for other in 100..1_100u64 {
        insert(&directory, other, at(1, 0));
    }
    let places: Vec<BlockPosition> = (1..=600).map(|run| at(run, 0)).collect();
    for (known, place) in places.iter().enumerate() {
        assert_eq!(directory.insert(hash, *place, &places[..known], &pin), Ok(()));
    }
    let found = directory.candidates(hash, &pin);
    assert_eq!(found.len(), 600);
    assert!(places.iter().all(|place| found.contains(place)));
    assert!(directory.bytes() < 1 << 20, "{} bytes", directory.bytes());
    for place in places {
        directory.remove(hash, place, &pin);
    }
    assert!(directory.candidates(hash, &pin).is_empty());
    assert!((100..1_100).all(|other| directory.candidates(BlockHash::new(other), &pin).contains(&at(1, 0))));
    assert_eq!(directory.entries(&pin).len(), 1_000);
}
