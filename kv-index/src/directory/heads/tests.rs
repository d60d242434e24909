//! Table of segment heads against `HashMap`.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::reclamation::pin;

fn insert(table: &Heads, hash: u64, segment: u32) {
    table.insert(BlockHash::new(hash), SegmentId::from_raw(segment).expect("not zero"), &pin());
}

fn remove(table: &Heads, hash: u64) {
    table.remove(BlockHash::new(hash), &pin());
}

proptest! {
    #[test]
    fn it_behaves_like_a_map(ops in prop::collection::vec((0u64..300, 0u32..8), 0..800), shift in 0u32..60) {
        let table = Heads::new(Spread::default());
        let mut model = HashMap::new();
        for (key, segment) in ops {
            let hash = BlockHash::new(key << shift);
            if segment < 3 {
                table.remove(hash, &pin());
                model.remove(&hash);
            } else {
                let segment = SegmentId::from_raw(segment).unwrap();
                // Who is there stays.
                prop_assert_eq!(table.insert(hash, segment, &pin()), model.get(&hash).copied());
                model.entry(hash).or_insert(segment);
            }
            prop_assert_eq!(table.len(), model.len());
        }
        for key in 0..300 {
            let hash = BlockHash::new(key << shift);
            prop_assert_eq!(table.probe(hash, &pin()), model.get(&hash).copied());
        }
    }
}

#[test]
fn memory_follows_the_blocks_up_and_down() {
    let table = Heads::new(Spread::default());
    let empty = table.bytes();
    for hash in 0..100_000 {
        insert(&table, hash, 1);
    }
    let full = table.bytes();
    assert!((full - empty) / 100_000 < 32, "{} bytes a block", (full - empty) / 100_000);
    for hash in 0..100_000 {
        remove(&table, hash);
    }
    assert_eq!(table.len(), 0);
    assert!(table.bytes() < empty + full / 50, "{} of {full} bytes are left", table.bytes());
}

/// Blocks that come and go leave slots behind; they must not pile up.
#[test]
fn churn_does_not_grow_the_table() {
    let table = Heads::new(Spread::default());
    for hash in 0..20_000 {
        insert(&table, hash, 1);
    }
    let before = table.bytes();
    for hash in 20_000..400_000 {
        remove(&table, hash - 20_000);
        insert(&table, hash, 1);
    }
    assert_eq!(table.len(), 20_000);
    assert!(table.bytes() < before * 3 / 2, "{} from {before}", table.bytes());
}

#[test]
fn a_rebuild_moves_one_shard_at_most() {
    let table = Heads::new(Spread::default());
    let blocks = 300_000;
    for hash in 0..blocks {
        insert(&table, hash, 1);
    }
    let longest = table.longest_rebuild();
    assert!(longest <= 2 * blocks as usize / SHARDS, "{longest} blocks moved in one go");
}

/// Chi-square over the 256 shards: 255 degrees of freedom, 99.9% of fair draws are below 331. Sequential
/// hashes are placed more evenly than by chance.
#[test]
fn sequential_clustered_and_random_hashes_spread_over_shards() {
    let mut x = 1u64;
    let mut random = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        x ^ x >> 29
    };
    let sequential: Vec<u64> = (1..=100_000).collect();
    let clustered: Vec<u64> = (0..1_000).flat_map(|c: u64| (0..100).map(move |i| c << 32 | i)).collect();
    let strided: Vec<u64> = (1..=100_000).map(|n| n * 4096).collect();
    let drawn: Vec<u64> = (0..100_000).map(|_| random()).collect();
    for (name, hashes) in
        [("sequential", sequential), ("clustered", clustered), ("strided", strided), ("random", drawn)]
    {
        let mut counts = [0u32; SHARDS];
        for &hash in &hashes {
            counts[Home::of(BlockHash::new(hash), Spread::default()).shard] += 1;
        }
        let expected = hashes.len() as f64 / SHARDS as f64;
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
        assert!(chi < 331.0, "{name}: {chi}");
    }
}

/// Native chain hashes too, and inside a shard they must not crowd: hardly any bucket sends many keys on.
#[test]
fn a_probe_seldom_leaves_its_bucket() {
    let table = Heads::new(Spread::default());
    for hash in 1..=200_000u64 {
        insert(&table, hash.wrapping_mul(0xD6E8_FEB8_6659_FD93), 1);
    }
    let guard = pin();
    let (mut away, mut all) = (0, 0);
    for shard in 0..SHARDS {
        let array = table.array(shard, &guard);
        for (at, bucket) in array.buckets.iter().enumerate() {
            for key in bucket.keys.iter().filter_map(|key| stored(key.load(Ordering::Relaxed))) {
                all += 1;
                away += usize::from(Home::of(key, Spread::default()).home(array.buckets.len()) != at);
            }
        }
    }
    assert!(away * 8 < all, "{away} of {all} blocks are not in their home bucket");
}
