//! Per-pod block map against `BTreeMap`.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Put(u64, u64),
    Remove(u64),
}

fn op() -> impl Strategy<Value = Op> {
    // Few hashes, some of them neighbours in one part, so that lines overflow and keys come back.
    let hash = prop_oneof![0u64..40, (0u64..200).prop_map(|n| n << 50)];
    prop_oneof![
        4 => hash.clone().prop_map(Op::Insert),
        1 => (hash.clone(), 0u64..999).prop_map(|(h, n)| Op::Put(h, n)),
        3 => hash.prop_map(Op::Remove),
    ]
}

fn held(n: u64) -> Held {
    let n = BlockHash::new(n).get();
    let place = RunId::from_raw((n % 7 * 4_000_000) as u32)
        .map(|run| Place { run, offset: (n.wrapping_mul(97) % 65_536) as u32 });
    Held { place, state: State((n % 128) as u8) }
}

fn insert(map: &mut HeldMap, hash: BlockHash) {
    assert!(!map.find_or_insert(hash, held(hash.get())).1);
}

proptest! {
    #[test]
    fn it_behaves_like_a_map(ops in prop::collection::vec(op(), 0..600)) {
        let mut map = HeldMap::default();
        let mut model: BTreeMap<BlockHash, Held> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Insert(h) => {
                    let hash = BlockHash::new(h);
                    let (spot, found) = map.find_or_insert(hash, held(h));
                    prop_assert_eq!(found, model.contains_key(&hash));
                    prop_assert_eq!(map.at(spot), *model.entry(hash).or_insert(held(h)));
                }
                Op::Put(h, n) => {
                    let hash = BlockHash::new(h);
                    prop_assert_eq!(map.get(hash), model.get(&hash).copied());
                    if let Some(spot) = map.find(hash) {
                        map.put(spot, held(n));
                        model.insert(hash, held(n));
                    }
                }
                Op::Remove(h) => {
                    let hash = BlockHash::new(h);
                    prop_assert_eq!(map.remove(hash), model.remove(&hash));
                }
            }
            prop_assert_eq!(map.len(), model.len());
        }
        let mut all: Vec<_> = map.iter().collect();
        all.sort_by_key(|(hash, _)| *hash);
        prop_assert_eq!(all, model.iter().map(|(h, held)| (*h, *held)).collect::<Vec<_>>());
        let (mut out, len) = (Vec::new(), map.len());
        while map.len() > 0 {
            map.drain_some(7, &mut out);
            if map.parts.is_empty() { break; }
        }
        prop_assert_eq!(out.len(), len);
    }

    /// Whoever keeps a spot learns whether it is still one.
    #[test]
    fn a_spot_is_good_until_the_map_says_that_it_moved(hashes in prop::collection::vec(0u64..5_000, 1..400)) {
        let mut map = HeldMap::default();
        let mut spots: Vec<(BlockHash, Spot)> = Vec::new();
        for h in hashes {
            let (hash, moves) = (BlockHash::new(h), map.moves());
            let (spot, _) = map.find_or_insert(hash, held(h));
            if map.moves() != moves {
                spots.clear();
            }
            spots.push((hash, spot));
            for (hash, spot) in &spots {
                prop_assert_eq!(map.at(*spot), held(hash.get()));
            }
        }
    }
}

#[test]
fn a_missing_block_is_missed_where_every_line_was_passed() {
    // Two lines: one is passed, emptied again, and the other one is passed too.
    let home =
        |line: usize| (1u64..).map(BlockHash::new).filter(move |h| Home::of(*h, Spread::default()).line(2) == line);
    let (first, second): (Vec<_>, Vec<_>) = (home(0).take(6).collect(), home(1).take(4).collect());
    let mut map = HeldMap::default();
    first[..5].iter().for_each(|&hash| insert(&mut map, hash));
    map.remove(first[0]);
    insert(&mut map, second[0]);
    insert(&mut map, second[1]);
    map.remove(first[1]);
    insert(&mut map, second[2]);
    map.remove(first[2]);
    insert(&mut map, second[3]);
    assert_eq!(map.parts[0].lines.len, 2, "both lines were passed");
    assert!(map.parts[0].lines.iter().all(|line| line.passed() > 0));
    assert!(map.find(first[5]).is_none());
}

#[test]
fn a_resize_moves_one_part_at_most() {
    let mut map = HeldMap::default();
    for n in 0..200_000u64 {
        insert(&mut map, BlockHash::new(n.wrapping_mul(0xD6E8_FEB8_6659_FD93)));
    }
    let largest = map.parts.iter().map(|p| p.len).max().unwrap();
    assert!(largest < 2 * 200_000 / PARTS, "{largest}");
}

#[test]
fn memory_follows_the_blocks_down() {
    let mut map = HeldMap::default();
    for n in 1..=50_000 {
        insert(&mut map, BlockHash::new(n));
    }
    let full = map.bytes();
    assert!(full < 50_000 * 33, "{full}");
    for n in 1..=50_000 {
        map.remove(BlockHash::new(n));
    }
    assert!(map.bytes() < full / 20, "{} of {full}", map.bytes());
}
