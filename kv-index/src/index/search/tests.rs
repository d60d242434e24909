//! Search case by case: holes, look-ups and laziness; the model covers the rest.

use super::*;
use crate::{BlockSize, ChainHasher, ChainSeed, Config, Event, EventSemantics, Parent, Pod, Removed, Stored};

fn chain(blocks: u64) -> Vec<BlockHash> {
    (1..=blocks).map(|n| BlockHash::new(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ n)).collect()
}

fn store(index: &Index, pod: Pod, chain: &[BlockHash], from: usize, to: usize) {
    let parent = if from == 0 { Parent::Root } else { Parent::Block(chain[from - 1]) };
    index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::new(parent, &chain[from..to]))).expect("live");
}

fn remove(index: &Index, pod: Pod, blocks: &[BlockHash]) {
    index.apply(pod, EventSemantics::Membership, &Event::Removed(Removed::new(blocks))).expect("live");
}

/// The depth by `search`, after checking that `scan` says the same of every pod.
fn depth(index: &Index, chain: &[BlockHash], pod: Pod) -> usize {
    let (mut found, mut scanned) = (Matches::default(), Matches::default());
    index.search(chain, &mut found);
    index.scan(chain, &mut scanned);
    assert_eq!(found.groups(), scanned.groups());
    found.depth(pod.id())
}

#[test]
fn an_eviction_in_the_middle_stops_the_match_there_until_it_heals() {
    let index: Index = Index::new(Config::default());
    let (a, b) = (index.join("a").unwrap(), index.join("b").unwrap());
    let chain = chain(100);
    store(&index, a, &chain, 0, 100);
    store(&index, b, &chain, 0, 100);
    remove(&index, a, &chain[40..41]);
    assert_eq!((depth(&index, &chain, a), depth(&index, &chain, b)), (40, 100));
    assert_eq!(index.stats().detached_spans, 1);
    store(&index, a, &chain, 40, 41);
    assert_eq!(depth(&index, &chain, a), 100, "the tail counts again");
    assert_eq!(index.stats().detached_spans, 0);
}

/// A pod that names false parents harms itself alone: what others hold is found, whoever came first.
#[test]
fn a_false_parent_changes_no_answer_about_others() {
    let block = |n: u64| BlockHash::new(n);
    let (truth, lie) = ([1, 2, 3, 4].map(block), [1, 99, 3, 4].map(block));
    for liar_first in [true, false] {
        let index: Index = Index::new(Config::default());
        let (honest, short, liar) = (index.join("a").unwrap(), index.join("b").unwrap(), index.join("c").unwrap());
        if liar_first {
            store(&index, liar, &lie, 0, 4);
        }
        store(&index, honest, &truth, 0, 4);
        store(&index, short, &truth, 0, 2);
        store(&index, liar, &lie, 0, 4);
        let mut matches = Matches::default();
        for depth in 1..=4 {
            index.search(&truth[..depth], &mut matches);
            assert_eq!((matches.depth(honest.id()), matches.depth(short.id())), (depth, depth.min(2)));
        }
        index.audit();
    }
}

/// A lie that keeps the depths: the liar's segment leaves the chain and comes upon it again.
#[test]
fn a_false_block_in_the_middle_changes_no_answer_about_others() {
    let block = |n: u64| BlockHash::new(n);
    let (truth, side, lie) = ([1, 2, 3].map(block), [1, 9].map(block), [1, 9, 3].map(block));
    let index: Index = Index::new(Config::default());
    let (honest, other, liar) = (index.join("a").unwrap(), index.join("b").unwrap(), index.join("c").unwrap());
    store(&index, honest, &side, 0, 2);
    store(&index, liar, &lie, 0, 3);
    store(&index, other, &truth, 0, 2);
    let mut matches = Matches::default();
    index.search(&truth, &mut matches);
    assert_eq!((matches.depth(honest.id()), matches.depth(other.id())), (1, 2));
    index.audit();
}

/// A liar's segment leaves the chain and comes upon it again, and a pod that does not say what it stores behind all of it follows has all of it:
/// it has the chain only as far as that segment is on it.
#[test]
fn a_silent_pod_behind_a_false_parent_has_no_more_than_it_holds() {
    let block = |n: u64| BlockHash::new(n);
    let index: Index = Index::new(Config::default());
    let (liar, silent) = (index.join("a").unwrap(), index.join("b").unwrap());
    store(&index, liar, &[1, 2, 3, 4].map(block), 0, 4);
    store(&index, silent, &[1, 2, 3].map(block), 0, 3);
    let behind = [block(4)];
    let stored = Event::Stored(Stored::new(Parent::Unknown, &behind));
    index.apply(silent, EventSemantics::Membership, &stored).expect("live");
    for beyond in [&[][..], &[14][..]] {
        let chain: Vec<_> = [1, 12, 13, 4].iter().chain(beyond).map(|&n| block(n)).collect();
        assert_eq!(depth(&index, &chain, silent), 1);
        let index: Index = Index::restore(Config::default(), &index.snapshot()).expect("our own");
        assert_eq!(depth(&index, &chain, index.pod("b").unwrap()), 1, "after a restart too");
    }
    index.audit();
}

#[test]
fn the_first_of_several_holes_counts() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let chain = chain(64);
    store(&index, pod, &chain, 0, 64);
    for at in [50, 10, 30] {
        remove(&index, pod, &chain[at..=at]);
    }
    assert_eq!(depth(&index, &chain, pod), 10);
    store(&index, pod, &chain, 10, 11);
    assert_eq!(depth(&index, &chain, pod), 30);
    // The hole grows forward: what is before it now ends earlier.
    remove(&index, pod, &chain[28..30]);
    assert_eq!(depth(&index, &chain, pod), 28);
}

#[test]
fn a_hole_on_one_branch_costs_the_other_nothing() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let (left, mut right) = (chain(60), chain(60));
    for (n, hash) in right.iter_mut().enumerate().skip(20) {
        *hash = BlockHash::new(1_000_000 + n as u64);
    }
    store(&index, pod, &left, 0, 60);
    store(&index, pod, &right, 20, 60);
    remove(&index, pod, &left[40..41]);
    assert_eq!((depth(&index, &left, pod), depth(&index, &right, pod)), (40, 60));
}

#[test]
fn stores_out_of_order_and_under_an_absent_parent() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let chain = chain(30);
    store(&index, pod, &chain, 20, 30);
    assert_eq!(depth(&index, &chain, pod), 0);
    store(&index, pod, &chain, 10, 20);
    assert_eq!(depth(&index, &chain, pod), 0);
    store(&index, pod, &chain, 0, 10);
    assert_eq!(depth(&index, &chain, pod), 30);
    assert!(!index.pod_stats(pod).unwrap().slow_path);
}

#[test]
fn what_nobody_told_the_parent_of_is_found_by_its_hash() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let chain = chain(8);
    let unknown = Event::Stored(Stored::new(Parent::Unknown, &chain[4..]));
    index.apply(pod, EventSemantics::Membership, &unknown).unwrap();
    assert_eq!(depth(&index, &chain, pod), 0);
    store(&index, pod, &chain, 0, 4);
    assert_eq!(depth(&index, &chain, pod), 8);
    assert!(!index.pod_stats(pod).unwrap().slow_path, "it begins a segment");
}

/// A liar has the block in the middle of a segment, behind something that it does not follow; who does not say what it follows is
/// found all the same.
#[test]
fn a_pod_that_does_not_say_is_looked_up_where_it_stops() {
    let index: Index = Index::new(Config::default());
    let block = |n: u64| BlockHash::new(n);
    let (truth, lie) = ([1, 2, 3, 4].map(block), [90, 91, 3, 92].map(block));
    let (silent, liar) = (index.join("a").unwrap(), index.join("b").unwrap());
    store(&index, liar, &lie, 0, 4);
    index.apply(silent, EventSemantics::Membership, &Event::Stored(Stored::new(Parent::Unknown, &truth[2..]))).unwrap();
    store(&index, silent, &truth, 0, 2);
    assert!(index.pod_stats(silent).unwrap().slow_path);
    assert_eq!(depth(&index, &truth, silent), 4);
    index.audit();
    remove(&index, silent, &truth);
    assert!(!index.pod_stats(silent).unwrap().slow_path, "it holds nothing");
}

#[test]
fn a_contradicted_parent_is_counted_and_answers_stay_exact() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let chain = chain(8);
    store(&index, pod, &chain, 0, 8);
    let wrong = Event::Stored(Stored::new(Parent::Block(chain[6]), &chain[2..3]));
    index.apply(pod, EventSemantics::Membership, &wrong).unwrap();
    assert_eq!(index.stats().parent_conflicts, 1);
    assert_eq!(depth(&index, &chain, pod), 8);
    remove(&index, pod, &chain[1..2]);
    assert_eq!(depth(&index, &chain, pod), 1);
}

/// However many holes there are, the first one counts, and what healed leaves nothing behind.
#[test]
fn a_thousand_holes_open_and_heal() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let chain = chain(8_200);
    store(&index, pod, &chain, 0, 8_200);
    let holes: Vec<usize> = (1..=1_024).map(|n| n * 8).collect();
    for &at in holes.iter().rev() {
        remove(&index, pod, &chain[at..=at]);
        assert_eq!(depth(&index, &chain, pod), at);
    }
    assert_eq!(index.stats().detached_spans, 1_024);
    for (n, &at) in holes.iter().enumerate() {
        store(&index, pod, &chain, at, at + 1);
        let next = holes.get(n + 1).copied().unwrap_or(8_200);
        assert_eq!(depth(&index, &chain, pod), next);
    }
    assert_eq!((index.stats().detached_spans, index.stats().segments), (0, 1));
}

/// A pod that lost the start of a prompt and all behind it holds nothing of it, whatever is left of the segment.
#[test]
fn a_stray_counts_once_what_it_follows_came_back_and_not_before() {
    let index: Index = Index::new(Config::default());
    let (a, b) = (index.join("a").unwrap(), index.join("b").unwrap());
    let chain = chain(12);
    store(&index, b, &chain, 0, 12);
    store(&index, a, &chain, 4, 8);
    assert_eq!((depth(&index, &chain, a), depth(&index, &chain, b)), (0, 12));
    // Two ways to the same place: behind what came, and behind another stray.
    store(&index, a, &chain, 8, 12);
    store(&index, a, &chain, 0, 3);
    assert_eq!(depth(&index, &chain, a), 3);
    remove(&index, a, &chain[6..7]);
    store(&index, a, &chain, 3, 4);
    assert_eq!(depth(&index, &chain, a), 6);
    assert_eq!(index.stats().blocks, 12);
    store(&index, a, &chain, 6, 7);
    assert_eq!(depth(&index, &chain, a), 12);
    assert_eq!((index.stats().blocks, index.stats().segments), (12, 1));
}

/// A search looks up one head a segment, however long the chain and however many pods stop in it.
#[test]
fn probes_grow_with_segments_and_nothing_else() {
    for blocks in [16u64, 128, 1_024, 8_192] {
        for edges in [1u64, 4, 16] {
            let index: Index = Index::new(Config::default());
            let chain = chain(blocks + 8);
            for n in 1..=edges {
                let pod = index.join(&format!("pod-{n}")).unwrap();
                store(&index, pod, &chain, 0, (blocks * n / edges) as usize);
            }
            let mut matches = Matches::default();
            index.search(&chain, &mut matches);
            assert_eq!(matches.groups().len() as u64, edges);
            assert!(matches.lookups() <= 3 + edges as usize, "{} lookups", matches.lookups());
            assert!(index.stats().segments <= 2 + edges as usize / 2, "{} segments", index.stats().segments);

            // Blocks that came last one first, one by one, lie in segments that double in length.
            let index: Index = Index::new(Config::default());
            for n in 1..=edges {
                let pod = index.join(&format!("pod-{n}")).unwrap();
                for at in (0..(blocks * n / edges) as usize).rev() {
                    store(&index, pod, &chain, at, at + 1);
                }
            }
            index.search(&chain, &mut matches);
            assert_eq!(matches.groups().len() as u64, edges);
            let most = (2 + edges as usize) * (2 + blocks.ilog2() as usize);
            assert!(matches.lookups() <= most, "{} lookups", matches.lookups());
        }
    }
}

#[test]
fn a_lazy_search_hashes_in_proportion_to_what_matched() {
    let hasher = ChainHasher::new(ChainSeed::new("m"), BlockSize::new(16).unwrap());
    let tokens: Vec<u32> = (0..100_000).collect();
    let blocks = hasher.hash(&tokens);
    let mut buffer = Vec::new();
    for held in [0, 1, 10, 300, 3_000, 6_250] {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").unwrap();
        let other = index.join("b").unwrap();
        store(&index, pod, &blocks, 0, held.max(1));
        if held == 0 {
            remove(&index, pod, &blocks[..1]);
        }
        // Another prompt that starts the same and goes on for long must not lure the search on.
        let mut longer = tokens[..held * 16].to_vec();
        longer.extend(7..50_000);
        let longer = hasher.hash(&longer);
        store(&index, other, &longer, 0, longer.len());
        let mut matches = Matches::default();
        let mut lazy = hasher.lazy(&tokens, &mut buffer);
        index.search_lazy(&mut lazy, &mut matches);
        assert_eq!(matches.depth(pod.id()), held);
        let hashed = lazy.hashes().len();
        assert!(hashed <= 4 * held + 2 * GALLOP, "{hashed} hashed for {held} held");
    }
}

#[test]
fn an_empty_chain_and_an_empty_index() {
    let index: Index = Index::new(Config::default());
    let mut matches = Matches::default();
    index.search(&[], &mut matches);
    assert!(matches.groups().is_empty() && matches.deepest().is_none());
    index.search(&chain(9), &mut matches);
    assert!(matches.groups().is_empty());
    assert_eq!((matches.blocks(), matches.lookups()), (9, 1), "one look tells");
}
