use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u32),
    Remove(u64),
    AddChild(u64),
    DropChild(u64),
}

fn op() -> impl Strategy<Value = Op> {
    // Few hashes, some of them neighbours in one part, so that lines overflow and keys come back.
    let hash = prop_oneof![0u64..40, (0u64..200).prop_map(|n| n << 50)];
    prop_oneof![
        4 => (hash.clone(), 0u32..600).prop_map(|(h, c)| Op::Insert(h, c)),
        3 => hash.clone().prop_map(Op::Remove),
        2 => hash.clone().prop_map(Op::AddChild),
        2 => hash.prop_map(Op::DropChild),
    ]
}

fn held(n: u64) -> Held {
    Held {
        parent: (n % 3 > 0).then(|| BlockHash::new(n + 1)),
        position: (n % 5 > 0).then_some(n as u32),
        state: State((n % 128) as u8),
    }
}

proptest! {
    #[test]
    fn it_behaves_like_a_map(ops in prop::collection::vec(op(), 0..600)) {
        let mut map = HeldMap::default();
        let mut model: BTreeMap<BlockHash, (Held, u32)> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Insert(h, children) => {
                    let hash = BlockHash::new(h);
                    if let std::collections::btree_map::Entry::Vacant(entry) = model.entry(hash) {
                        entry.insert((held(h), children));
                        map.insert(hash, held(h), children);
                    }
                }
                Op::Remove(h) => {
                    let hash = BlockHash::new(h);
                    prop_assert_eq!(map.remove(hash), model.remove(&hash));
                }
                Op::AddChild(h) => {
                    let hash = BlockHash::new(h);
                    let expected = model.get_mut(&hash).map(|(held, c)| { *c += 1; held.position });
                    prop_assert_eq!(map.add_child(hash), expected);
                }
                Op::DropChild(h) => {
                    let hash = BlockHash::new(h);
                    if let Some((_, c)) = model.get_mut(&hash).filter(|(_, c)| *c > 0) {
                        *c -= 1;
                        prop_assert!(map.drop_child(hash));
                    }
                }
            }
            prop_assert_eq!(map.len(), model.len());
        }
        let mut all: Vec<_> = map.iter().collect();
        all.sort_by_key(|(hash, _)| *hash);
        prop_assert_eq!(all, model.iter().map(|(h, (held, _))| (*h, *held)).collect::<Vec<_>>());
        for (hash, (_, children)) in &model {
            prop_assert_eq!(map.children(map.find(*hash).unwrap(), *hash), *children);
        }
        let (mut out, len) = (Vec::new(), map.len());
        while map.len() > 0 {
            map.drain_some(7, &mut out);
            if map.parts.is_empty() { break; }
        }
        prop_assert_eq!(out.len(), len);
    }
}

#[test]
fn a_missing_block_is_missed_where_every_line_was_passed() {
    // Two lines of one part: a line is passed, emptied again, and the other one is passed too.
    let home = |line: usize| {
        (1u64..).map(BlockHash::new).filter(move |h| {
            let place = Place::of(*h);
            place.part == 0 && place.home(2) == line
        })
    };
    let (first, second): (Vec<_>, Vec<_>) = (home(0).take(5).collect(), home(1).take(3).collect());
    let mut map = HeldMap::default();
    let insert = |map: &mut HeldMap, hash| map.insert(hash, held(1), 0);
    first[..4].iter().for_each(|&hash| insert(&mut map, hash));
    map.remove(first[0]);
    insert(&mut map, second[0]);
    insert(&mut map, second[1]);
    map.remove(first[1]);
    insert(&mut map, second[2]);
    assert_eq!(map.find(first[4]).map(|_| ()), None);
}

#[test]
fn a_resize_moves_one_part_at_most() {
    let mut map = HeldMap::default();
    for n in 0..200_000u64 {
        map.insert(BlockHash::new(n.wrapping_mul(0xD6E8_FEB8_6659_FD93)), held(n), 0);
    }
    let largest = map.parts.iter().map(|p| p.len).max().unwrap();
    assert!(largest < 2 * 200_000 / PARTS, "{largest}");
}

#[test]
fn memory_follows_the_blocks_down() {
    let mut map = HeldMap::default();
    for n in 0..50_000 {
        map.insert(BlockHash::new(n), held(n), 0);
    }
    let full = map.bytes();
    assert!(full < 50_000 * 36, "{full}");
    for n in 0..50_000 {
        map.remove(BlockHash::new(n));
    }
    assert!(map.bytes() < full / 20, "{} of {full}", map.bytes());
}
