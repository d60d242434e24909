//! Loom models of the table of heads: search against insert, remove and resize of a shard. The reader is the spawned thread, as in `runs`.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::loom_tests::model;
use crate::reclaim::pin;

fn run(id: u32) -> Option<RunId> {
    RunId::from_raw(id)
}

fn set(table: &Heads, hash: u64, run: Option<RunId>) {
    match run {
        Some(run) => drop(table.insert(BlockHash::new(hash), run, &pin())),
        None => table.remove(BlockHash::new(hash), &pin()),
    }
}

#[test]
fn loom_probe_against_insert_remove_and_rebuild() {
    model(|| {
        let table = Arc::new(Heads::new(Spread::default()));
        set(&table, 1, run(1));
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let probe = |hash: u64| table.probe(BlockHash::new(hash), &pin());
                let three = probe(3);
                assert!(three == run(3) || three == None);
                if three == run(3) {
                    assert_eq!(probe(2), run(2), "who sees what came later sees what came before");
                }
                assert_eq!(probe(1), run(1), "a block nobody touches is always there");
                let two = probe(2);
                assert!([run(2), None].contains(&two));
            })
        };
        // The third key fills the only bucket to its limit; the fourth rebuilds the shard.
        set(&table, 2, run(2));
        set(&table, 3, run(3));
        set(&table, 4, run(4));
        reader.join().unwrap();
        set(&table, 2, None);
        let probe = |hash: u64| table.probe(BlockHash::new(hash), &pin());
        assert_eq!([1, 2, 3, 4].map(probe), [run(1), None, run(3), run(4)]);
    });
}

#[test]
fn loom_probe_against_a_block_that_leaves_in_a_rebuild() {
    model(|| {
        let table = Arc::new(Heads::new(Spread::default()));
        for hash in 1..=3 {
            set(&table, hash, run(hash as u32));
        }
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let probe = |hash: u64| table.probe(BlockHash::new(hash), &pin());
                let (four, one) = (probe(4), probe(1));
                assert!(one == run(1) || one == None);
                assert!(four == None || one == None, "the first left before the fourth came");
                assert_eq!(probe(2), run(2));
            })
        };
        set(&table, 1, None);
        set(&table, 4, run(4));
        reader.join().unwrap();
    });
}
