//! Transcripts of sequenced streams: duplicates, gaps, restarts, inventories.

use super::*;
use crate::index::streams::StreamId;
use crate::{BlockHash, Config, Inventory, InventoryBlock, Matches, Parent, Stored};

fn chain() -> Vec<BlockHash> {
    (1..=10).map(BlockHash::new).collect()
}

/// Offers batch `sequence` of a stream that stores block after block.
fn offer(feed: &Feed<'_>, incarnation: u64, sequence: u64, gap: OnGap) -> BatchOutcome {
    let chain = chain();
    let at = sequence as usize;
    let parent = if at == 0 { Parent::Root } else { Parent::Block(chain[at - 1]) };
    let events = [Event::Stored(Stored::new(parent, &chain[at..=at]))];
    feed.offer(&Batch { incarnation, sequence, events: &events }, gap).expect("live")
}

fn depth(index: &Index, pod: Pod) -> usize {
    let mut matches = Matches::default();
    index.search(&chain(), &mut matches);
    matches.depth(pod.id())
}

fn applied(stored: usize, removed: usize) -> ApplyStats {
    ApplyStats { stored, removed, ..ApplyStats::default() }
}

#[test]
fn a_gap_is_asked_for_filled_and_gone_past() {
    let index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let feed = Feed::new(&index, pod, FeedConfig::default());
    assert_eq!(offer(&feed, 1, 0, OnGap::Wait), BatchOutcome::Applied(applied(1, 0)));
    assert_eq!(offer(&feed, 1, 3, OnGap::Wait), BatchOutcome::Gap { from: 1, to: 3, restarted: false });
    assert_eq!(depth(&index, pod), 1, "what comes after a gap waits");
    for sequence in [0, 1, 2, 3] {
        let expected = if sequence == 0 { BatchOutcome::Duplicate } else { BatchOutcome::Applied(applied(1, 0)) };
        assert_eq!(offer(&feed, 1, sequence, OnGap::Wait), expected);
    }
    assert_eq!(depth(&index, pod), 4);
}

#[test]
fn a_gap_given_up_forgets_what_may_be_untrue() {
    let index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let feed = Feed::new(&index, pod, FeedConfig::default());
    offer(&feed, 1, 0, OnGap::Wait);
    offer(&feed, 1, 1, OnGap::Wait);
    assert_eq!(offer(&feed, 1, 5, OnGap::Forget), BatchOutcome::GapSkipped(applied(1, 2)));
    assert_eq!(depth(&index, pod), 0, "block 5 alone leads nowhere");
    assert_eq!(offer(&feed, 1, 4, OnGap::Wait), BatchOutcome::Duplicate, "too late");
    assert_eq!(offer(&feed, 1, 6, OnGap::Wait), BatchOutcome::Applied(applied(1, 0)));
}

#[test]
fn a_restart_forgets_at_once_even_if_its_first_batches_are_missing() {
    let index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let feed = Feed::new(&index, pod, FeedConfig::default());
    offer(&feed, 1, 0, OnGap::Wait);
    assert_eq!(offer(&feed, 2, 0, OnGap::Wait), BatchOutcome::Restarted(applied(1, 1)));
    assert_eq!(offer(&feed, 1, 1, OnGap::Wait), BatchOutcome::Stale);
    assert_eq!(offer(&feed, 2, 1, OnGap::Wait), BatchOutcome::Applied(applied(1, 0)));
    assert_eq!(offer(&feed, 3, 2, OnGap::Wait), BatchOutcome::Gap { from: 0, to: 2, restarted: true });
    assert_eq!(depth(&index, pod), 0);
    assert_eq!(offer(&feed, 3, 0, OnGap::Wait), BatchOutcome::Applied(applied(1, 0)));
    assert_eq!(depth(&index, pod), 1);
}

#[test]
fn two_transports_of_one_stream_share_a_position_and_two_streams_do_not() {
    let index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let (nats, zmq) = (Feed::new(&index, pod, FeedConfig::default()), Feed::new(&index, pod, FeedConfig::default()));
    let other = Feed::new(&index, pod, FeedConfig { stream: StreamId(1), ..FeedConfig::default() });
    offer(&nats, 1, 0, OnGap::Wait);
    assert_eq!(offer(&zmq, 1, 0, OnGap::Wait), BatchOutcome::Duplicate);
    offer(&zmq, 1, 1, OnGap::Wait);
    assert_eq!(offer(&nats, 1, 1, OnGap::Wait), BatchOutcome::Duplicate);
    assert!(matches!(offer(&other, 1, 0, OnGap::Wait), BatchOutcome::Applied(_)));
}

#[test]
fn a_restart_of_one_stream_makes_the_others_begin_anew() {
    let index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let one = Feed::new(&index, pod, FeedConfig::default());
    let two = Feed::new(&index, pod, FeedConfig { stream: StreamId(1), ..FeedConfig::default() });
    offer(&one, 1, 0, OnGap::Wait);
    offer(&two, 1, 0, OnGap::Wait);
    offer(&two, 1, 1, OnGap::Wait);
    assert!(matches!(offer(&one, 2, 1, OnGap::Wait), BatchOutcome::Gap { restarted: true, .. }));
    let applied = index.stats().applied;
    assert_eq!(applied.stored - applied.removed, index.stats().block_replicas, "what a restart forgot is counted");
    assert_eq!(offer(&two, 1, 2, OnGap::Wait), BatchOutcome::Gap { from: 0, to: 2, restarted: false });
    assert!(matches!(offer(&two, 1, 0, OnGap::Wait), BatchOutcome::Applied(_)), "its blocks are wanted again");
}

#[test]
fn a_consumer_is_object_safe_and_a_gone_pod_says_so() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let feed = Feed::new(&index, pod, FeedConfig::default());
    let consumer: &dyn Consumer = &feed;
    index.retire(pod);
    let batch = Batch { incarnation: 1, sequence: 0, events: &[] };
    assert_eq!(consumer.consume(&batch), Err(PodRetired(pod)));
    assert_eq!(consumer.skip_gap(&batch), Err(PodRetired(pod)));
}

/// The first so many blocks of the chain, under a number.
fn list(feed: &Feed<'_>, incarnation: u64, sequence: u64, blocks: usize) -> BatchOutcome {
    let parents = std::iter::once(Parent::Root).chain(chain().into_iter().map(Parent::Block));
    let blocks: Vec<_> =
        chain().into_iter().zip(parents).take(blocks).map(|(h, p)| InventoryBlock::new(h, p)).collect();
    feed.reconcile(&Inventory { incarnation, sequence, blocks: &blocks }).expect("live")
}

#[test]
fn an_inventory_stands_for_whatever_is_before_its_number() {
    let index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let feed = Feed::new(&index, pod, FeedConfig::default());
    let other = Feed::new(&index, pod, FeedConfig { stream: StreamId(1), ..FeedConfig::default() });
    offer(&other, 1, 0, OnGap::Wait);
    assert_eq!(feed.cursor(), Ok(None));
    assert!(
        matches!(list(&feed, 1, 5, 3), BatchOutcome::Applied(_)),
        "of a stream that is new, like a batch given up for"
    );
    assert_eq!(feed.cursor(), Ok(Some(Cursor { incarnation: 1, next: 6 })));
    assert_eq!(list(&feed, 1, 5, 9), BatchOutcome::Duplicate);
    assert_eq!(offer(&feed, 1, 4, OnGap::Wait), BatchOutcome::Duplicate, "what came before it is in it");
    assert_eq!(depth(&index, pod), 3);
    assert!(matches!(list(&feed, 1, 9, 2), BatchOutcome::GapSkipped(ApplyStats { removed: 1, stored: 0, .. })));
    assert!(matches!(list(&feed, 2, 3, 4), BatchOutcome::Restarted(ApplyStats { removed: 0, stored: 2, .. })));
    assert_eq!(list(&feed, 1, 99, 0), BatchOutcome::Stale);
    assert_eq!(offer(&feed, 2, 4, OnGap::Wait), BatchOutcome::Applied(applied(1, 0)));
    assert_eq!(depth(&index, pod), 5);
    assert_eq!(
        offer(&other, 1, 1, OnGap::Wait),
        BatchOutcome::Applied(ApplyStats { already_held: 1, ..ApplyStats::default() })
    );
}

/// A batch that gives a gap up forgets first; an inventory over a gap, or of a new life, must not.
#[test]
fn what_an_inventory_keeps_is_found_all_the_while() {
    let index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let feed = Feed::new(&index, pod, FeedConfig::default());
    list(&feed, 1, 0, 5);
    let rounds = if cfg!(miri) { 5 } else { 500 };
    std::thread::scope(|scope| {
        let listing = scope.spawn(|| {
            for round in 1..rounds {
                list(&feed, 1 + round / 10, 3 * round, 5 + (round % 6) as usize);
            }
        });
        while !listing.is_finished() {
            assert!((5..=10).contains(&depth(&index, pod)), "the first five never left");
        }
    });
}

/// Nothing comes behind the last number there is, so it is nobody's: it is not applied, however often it comes.
#[test]
fn the_last_number_of_all_is_foreign() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let feed = Feed::new(&index, pod, FeedConfig::default());
    let chain = chain();
    let events = [Event::Stored(Stored::prompt(&chain))];
    let batch = |sequence| Batch { incarnation: 1, sequence, events: &events };
    for gap in [OnGap::Wait, OnGap::Forget, OnGap::Forget] {
        assert_eq!(feed.offer(&batch(u64::MAX), gap), Ok(BatchOutcome::Foreign));
    }
    let inventory = Inventory { incarnation: 1, sequence: u64::MAX, blocks: &[] };
    assert_eq!((feed.reconcile(&inventory), feed.cursor()), (Ok(BatchOutcome::Foreign), Ok(None)));
    assert!(matches!(feed.offer(&batch(u64::MAX - 1), OnGap::Forget), Ok(BatchOutcome::Applied(_))));
    assert_eq!(feed.offer(&batch(u64::MAX - 1), OnGap::Forget), Ok(BatchOutcome::Duplicate));
}
