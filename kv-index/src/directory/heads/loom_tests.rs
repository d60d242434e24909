//! Loom models of the table of heads: search against insert, remove and resize of a shard. The reader is the spawned thread, as in `segments`.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::loom_tests::model;
use crate::reclamation::pin;

fn segment(id: u32) -> Option<SegmentId> {
    SegmentId::from_raw(id)
}

fn set(table: &Heads, hash: u64, segment: Option<SegmentId>) {
    match segment {
        Some(segment) => drop(table.insert(BlockHash::new(hash), segment, &pin())),
        None => table.remove(BlockHash::new(hash), &pin()),
    }
}

#[test]
fn loom_probe_against_insert_remove_and_rebuild() {
    model(|| {
        let table = Arc::new(Heads::new(Spread::default()));
        set(&table, 1, segment(1));
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let probe = |hash: u64| table.probe(BlockHash::new(hash), &pin());
                let three = probe(3);
                assert!(three == segment(3) || three == None);
                if three == segment(3) {
                    assert_eq!(probe(2), segment(2), "who sees what came later sees what came before");
                }
                assert_eq!(probe(1), segment(1), "a block nobody touches is always there");
                let two = probe(2);
                assert!([segment(2), None].contains(&two));
            })
        };
        // The third key fills the only bucket to its limit; the fourth rebuilds the shard.
        set(&table, 2, segment(2));
        set(&table, 3, segment(3));
        set(&table, 4, segment(4));
        reader.join().unwrap();
        set(&table, 2, None);
        let probe = |hash: u64| table.probe(BlockHash::new(hash), &pin());
        assert_eq!([1, 2, 3, 4].map(probe), [segment(1), None, segment(3), segment(4)]);
    });
}

#[test]
fn loom_probe_against_a_block_that_leaves_in_a_rebuild() {
    model(|| {
        let table = Arc::new(Heads::new(Spread::default()));
        for hash in 1..=3 {
            set(&table, hash, segment(hash as u32));
        }
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let probe = |hash: u64| table.probe(BlockHash::new(hash), &pin());
                let (four, one) = (probe(4), probe(1));
                assert!(one == segment(1) || one == None);
                assert!(four == None || one == None, "the first left before the fourth came");
                assert_eq!(probe(2), segment(2));
            })
        };
        set(&table, 1, None);
        set(&table, 4, segment(4));
        reader.join().unwrap();
    });
}
