//! Warm restart of an engine feed: from a snapshot and what came since, the index is the cache at every step, as if it had
//! never been away.
#![cfg(feature = "vllm")]

mod support;

use kv_index::engine::{EngineFeed, ReplayForm};
use kv_index::{BatchOutcome, BlockSize, ChainSeed, Config, Index, Pod};
use pointsman_test_support::SplitMix64;
use support::engine::{Engine, Feed};
use support::truth::Way;

/// A fresh process: the index from its last snapshot.
fn reborn(snapshot: &[u8]) -> (Index, Pod) {
    let index = Index::restore(Config::default(), snapshot).expect("a whole snapshot");
    let pod = index.pod("a").expect("it was there");
    (index, pod)
}

fn first(way: Way, engine: &Engine) -> (Vec<u8>, usize) {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let feed = EngineFeed::new(&index, pod, way.config(&engine.pool)).expect("live");
    assert!(!feed.is_resumed());
    let batches = engine.replay(&feed, Some(feed.connected())).len();
    (index.snapshot(), batches)
}

/// Lives of a gateway one after the other, each from the snapshot of the one before, while the engine works, also while no
/// gateway is there.
fn lives(way: Way, seed: u64) {
    let mut rng = SplitMix64::new(seed ^ 0xA5);
    let mut engine = Engine::new(seed, 10_000, ReplayForm::WithTopic);
    (0..20).for_each(|_| drop(engine.publish()));
    let (mut snapshot, mut known) = first(way, &engine);
    for life in 0..8 {
        let note = format!("{way:?}, seed {seed}, life {life}");
        let missed = rng.below(12);
        (0..missed).for_each(|_| drop(engine.publish()));
        let restarts = rng.below(4) == 0;
        if restarts {
            engine.restart();
            (0..rng.between(1, 30)).for_each(|_| drop(engine.publish()));
        }
        let (index, pod) = reborn(&snapshot);
        let feed = EngineFeed::new(&index, pod, way.config(&engine.pool)).expect("live");
        assert!(feed.is_resumed(), "{note}");
        let replayed = engine.replay(&feed, Some(feed.connected()));
        engine.compare(way, &index, pod, &note);
        if !restarts {
            assert_eq!(replayed.len(), missed + 1, "the last that was known and what came since: {note}");
            assert_eq!(replayed[0], BatchOutcome::Duplicate, "{note}");
            assert!(replayed.len() < known, "not all again: {note}");
        }
        for step in 0..rng.between(1, 20) {
            let frames = engine.publish();
            engine.deliver(&feed, &frames);
            engine.compare(way, &index, pod, &format!("{note}, step {step}"));
            known += 1;
        }
        known += missed;
        snapshot = index.snapshot();
    }
}

#[test]
fn a_gateway_that_comes_back_knows_what_it_knew_and_asks_for_the_rest() {
    for way in Way::ALL {
        (0..4).for_each(|seed| lives(way, seed));
    }
}

/// A snapshot that is taken before the feed is made again has what the one before had.
#[test]
fn what_no_feed_has_taken_up_stays_in_the_next_snapshot() {
    let mut engine = Engine::new(3, 10_000, ReplayForm::WithTopic);
    (0..40).for_each(|_| drop(engine.publish()));
    let (snapshot, _) = first(Way::Tokens, &engine);
    let (index, pod) = reborn(&reborn(&snapshot).0.snapshot());
    let feed = EngineFeed::new(&index, pod, Way::Tokens.config(&engine.pool)).expect("live");
    assert!(feed.is_resumed());
    engine.compare(Way::Tokens, &index, pod, "twice from a snapshot");
}

/// Other names, or nobody to ask: from nothing, as ever.
#[test]
fn a_feed_that_is_configured_otherwise_starts_from_nothing() {
    let mut engine = Engine::new(4, 10_000, ReplayForm::WithTopic);
    (0..40).for_each(|_| drop(engine.publish()));
    let (snapshot, batches) = first(Way::Tokens, &engine);
    let usual = Way::Tokens.config(&engine.pool);
    let mut others = vec![usual.clone(); 3];
    others[0].mode = kv_index::engine::HashMode::Tokens(ChainSeed::new("another"));
    others[1].block_size = BlockSize::new(8).expect("not zero");
    others[2].replay = false;
    for config in others {
        let (index, pod) = reborn(&snapshot);
        let feed = EngineFeed::new(&index, pod, config.clone()).expect("live");
        assert!(!feed.is_resumed(), "{config:?}");
        assert_eq!(index.pod_stats(pod).expect("live").blocks, 0);
    }
    let (index, pod) = reborn(&snapshot);
    index.apply(pod, kv_index::EventSemantics::Copies, &kv_index::Event::Cleared).expect("live");
    let feed: Feed<'_> = EngineFeed::new(&index, pod, usual).expect("live");
    assert!(!feed.is_resumed(), "what it held is gone");
    assert_eq!(engine.replay(&feed, Some(feed.connected())).len(), batches);
    engine.compare(Way::Tokens, &index, pod, "all again");
}
