//! Search against insert, remove and resize of a shard. The reader is the spawned thread, as in `runs`.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::loom_tests::model;
use crate::pod::PodId;
use crate::reclaim::pin;

fn meta(pod: u16) -> Meta {
    Meta::new(SetId::of_one(PodId::new(pod)), None)
}

#[test]
fn loom_probe_against_insert_remove_and_rebuild() {
    model(|| {
        let table = Arc::new(Table::new());
        let set = |hash: u64, to: Meta| table.update(BlockHash::new(hash), &pin(), |_| to);
        set(1, meta(1));
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let probe = |hash: u64| table.probe(BlockHash::new(hash), &pin());
                let three = probe(3);
                assert!(three == meta(3) || three == Meta::ABSENT);
                if three == meta(3) {
                    assert_eq!(probe(2), meta(2), "who sees what came later sees what came before");
                }
                assert_eq!(probe(1), meta(1), "a block nobody touches is always there");
                let two = probe(2);
                assert!([meta(2), meta(9), Meta::ABSENT].contains(&two));
            })
        };
        // The third key fills the only bucket to its limit; the fourth rebuilds the shard.
        set(2, meta(2));
        set(3, meta(3));
        set(4, meta(4));
        reader.join().unwrap();
        set(2, Meta::ABSENT);
        let probe = |hash: u64| table.probe(BlockHash::new(hash), &pin());
        assert_eq!([1, 2, 3, 4].map(probe), [meta(1), Meta::ABSENT, meta(3), meta(4)]);
    });
}

#[test]
fn loom_probe_against_a_block_that_leaves_in_a_rebuild() {
    model(|| {
        let table = Arc::new(Table::new());
        let set = |hash: u64, to: Meta| table.update(BlockHash::new(hash), &pin(), |_| to);
        for hash in 1..=3 {
            set(hash, meta(hash as u16));
        }
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let probe = |hash: u64| table.probe(BlockHash::new(hash), &pin());
                let (four, one) = (probe(4), probe(1));
                assert!(one == meta(1) || one == Meta::ABSENT);
                assert!(four == Meta::ABSENT || one == Meta::ABSENT, "the first left before the fourth came");
                assert_eq!(probe(2), meta(2));
            })
        };
        set(1, Meta::ABSENT);
        set(4, meta(4));
        reader.join().unwrap();
    });
}
