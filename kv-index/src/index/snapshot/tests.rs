//! Snapshot round trips and damaged bytes.

use super::*;
use crate::{Batch, BatchOutcome, Consumer, Event, EventSemantics, Feed, FeedConfig, Matches, Removed, Stored};

fn chain() -> Vec<BlockHash> {
    (1..=20).map(BlockHash::new).collect()
}

fn sample() -> Index {
    let index = Index::new(Config::default());
    let chain = chain();
    for name in ["a", "b"] {
        let pod = index.join(name).expect("room");
        let feed = Feed::new(&index, pod, FeedConfig::default());
        let places = [Location { device: 1, offset: 2, length: 3 }];
        let events = [
            Event::Stored(Stored::prompt(&chain)),
            Event::Stored(Stored::prompt(&chain[..3])),
            Event::Stored(Stored { locations: &places, ..Stored::prompt(&chain[..1]).in_tier(Tier::Disk) }),
            Event::Removed(Removed::new(&chain[9..10])),
        ];
        feed.consume(&Batch { incarnation: 1, sequence: 0, events: &events }).expect("live");
    }
    index
}

#[test]
fn a_snapshot_restores_itself() {
    let index = sample();
    let bytes = index.snapshot();
    let restored = <Index>::restore(Config::default(), &bytes).unwrap();
    assert_eq!(restored.snapshot().len(), bytes.len());
    restored.audit();
    let (mut live, mut back) = (Matches::default(), Matches::default());
    index.search(&chain(), &mut live);
    restored.search(&chain(), &mut back);
    assert_eq!(live.groups(), back.groups());
    for name in ["a", "b"] {
        let (pod, old) = (restored.pod(name).unwrap(), index.pod(name).unwrap());
        assert_eq!(restored.digest(pod), index.digest(old));
        assert!(pod.generation() > old.generation(), "an old handle must not name the restored pod");
    }
}

#[test]
fn restoring_and_replaying_what_overlaps_gives_the_live_index() {
    let index = sample();
    let bytes = index.snapshot();
    let chain = chain();
    let events = [Event::Removed(Removed::new(&chain[..1])), Event::Stored(Stored::prompt(&chain[..2]))];
    let later = Batch { incarnation: 1, sequence: 1, events: &events };
    let pod = index.pod("a").unwrap();
    Feed::new(&index, pod, FeedConfig::default()).consume(&later).unwrap();

    let restored = <Index>::restore(Config::default(), &bytes).unwrap();
    let again = restored.pod("a").unwrap();
    let feed = Feed::new(&restored, again, FeedConfig::default());
    let before = Batch { incarnation: 1, sequence: 0, events: &events };
    assert_eq!(feed.consume(&before), Ok(BatchOutcome::Duplicate), "the snapshot has it");
    assert!(matches!(feed.consume(&later), Ok(BatchOutcome::Applied(_))));
    assert_eq!(restored.digest(again), index.digest(pod));
}

#[test]
fn every_damaged_byte_and_every_cut_is_noticed() {
    let bytes = sample().snapshot();
    for at in 0..bytes.len() {
        assert!(<Index>::restore(Config::default(), &bytes[..at]).is_err(), "cut at {at}");
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(<Index>::restore(Config::default(), &damaged).is_err(), "damaged at {at}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let found = bytes.len() as u64 + 1;
    let error = <Index>::restore(Config::default(), &longer).unwrap_err();
    assert_eq!(error, SnapshotError::Length { expected: found - 1, found });
}

/// With a checksum made to fit, the contents are still checked, and a count that lies costs nothing.
#[test]
fn malformed_contents_under_a_good_checksum_are_errors() {
    let good = sample().snapshot();
    for at in HEADER..good.len() {
        for value in [0x00, 0x7F, 0xFF] {
            let mut bytes = good.clone();
            bytes[at] = value;
            let sum = chain::checksum(&bytes[HEADER..]);
            bytes[20..28].copy_from_slice(&sum.to_le_bytes());
            if let Ok(index) = <Index>::restore(Config::default(), &bytes) {
                index.audit();
            }
        }
    }
}

#[test]
fn the_errors_name_what_is_wrong() {
    let restore = |bytes: &[u8]| <Index>::restore(Config::default(), bytes).unwrap_err();
    assert_eq!(restore(b"hello"), SnapshotError::Magic);
    let mut bytes = sample().snapshot();
    bytes[8] = 9;
    assert_eq!(restore(&bytes).to_string(), "snapshot version 9, this build reads 4");
    let bytes = sample().snapshot();
    let narrow = <Index>::restore(Config::default().max_pods(1), &bytes).unwrap_err();
    assert_eq!(narrow, SnapshotError::TooManyPods { found: 2, room: 1 });
}

#[test]
fn blocks_beyond_the_bounds_are_left_out() {
    let bytes = sample().snapshot();
    let index = <Index>::restore(Config::default().max_blocks(7), &bytes).unwrap();
    let stats = index.stats();
    assert_eq!(stats.blocks, 7);
    assert!(stats.applied.refused > 0);
    index.audit();
}

/// What a liar said of a block is not what an honest pod said of it, after a restart neither.
#[test]
fn nobody_says_after_a_restart_what_another_said_before() {
    let block = |n: u64| BlockHash::new(n);
    let index: Index = Index::new(Config::default());
    let (liar, honest) = (index.join("a").unwrap(), index.join("b").unwrap());
    let store = |pod, parent, blocks: &[u64]| {
        let blocks: Vec<BlockHash> = blocks.iter().copied().map(block).collect();
        index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::new(parent, &blocks))).unwrap();
    };
    store(honest, Parent::Unknown, &[1]);
    store(liar, Parent::Root, &[9]);
    store(liar, Parent::Block(block(9)), &[1]);
    store(liar, Parent::Root, &[20, 21]);
    store(honest, Parent::Root, &[20]);
    store(honest, Parent::Unknown, &[21]);
    let restored = <Index>::restore(Config::default(), &index.snapshot()).unwrap();
    restored.audit();
    for index in [&index, &restored] {
        let pod = index.pod("b").unwrap();
        for chain in [vec![1], vec![21], vec![20, 21]] {
            let chain: Vec<BlockHash> = chain.into_iter().map(block).collect();
            let mut matches = Matches::default();
            index.search(&chain, &mut matches);
            assert_eq!(matches.depth(pod.id()), chain.len(), "{chain:?}");
        }
    }
}
