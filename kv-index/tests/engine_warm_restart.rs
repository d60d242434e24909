//! Warm restart of an engine feed: from a snapshot and what came since, the index is the cache at every step, as if it had
//! never been away.
#![cfg(feature = "vllm")]

mod support;

use std::sync::Arc;

use kv_index::engine::{EngineFeed, ReplayForm};
use kv_index::{BatchOutcome, BlockSize, ChainSeed, Config, Event, EventSemantics, Index, Pod, StreamId};
use pointsman_test_support::SplitMix64;
use support::engine::{Engine, Feed};
use support::observer::LossCounter;
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
    index.apply(pod, EventSemantics::Copies, &Event::Cleared).expect("live");
    let feed: Feed<'_> = EngineFeed::new(&index, pod, usual).expect("live");
    assert!(!feed.is_resumed(), "what it held is gone");
    assert_eq!(engine.replay(&feed, Some(feed.connected())).len(), batches);
    engine.compare(Way::Tokens, &index, pod, "all again");
}

/// The blocks went without the feed's noticing, and a snapshot is taken before it does.
#[test]
fn names_of_a_pod_that_was_cleared_are_not_saved() {
    let mut engine = Engine::new(6, 10_000, ReplayForm::WithTopic);
    (0..40).for_each(|_| drop(engine.publish()));
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let feed = EngineFeed::new(&index, pod, Way::Tokens.config(&engine.pool)).expect("live");
    engine.replay(&feed, Some(feed.connected()));
    index.apply(pod, EventSemantics::Copies, &Event::Cleared).expect("live");
    let (index, pod) = reborn(&index.snapshot());
    let feed = EngineFeed::new(&index, pod, Way::Tokens.config(&engine.pool)).expect("live");
    assert!(!feed.is_resumed());
    engine.replay(&feed, Some(feed.connected()));
    engine.compare(Way::Tokens, &index, pod, "all again");
}

/// A second stream that has said nothing takes nothing away; one that has to begin anew makes the other do so, too.
#[test]
fn streams_of_one_pod_resume_together_or_begin_anew_together() {
    for changed in [false, true] {
        let mut engine = Engine::new(7, 10_000, ReplayForm::WithTopic);
        (0..40).for_each(|_| drop(engine.publish()));
        let config = Way::Tokens.config(&engine.pool);
        let mut silent = config.clone();
        silent.stream = StreamId(1);
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").expect("room");
        let feed = EngineFeed::new(&index, pod, config.clone()).expect("live");
        let _idle = EngineFeed::new(&index, pod, silent.clone()).expect("live");
        engine.replay(&feed, Some(feed.connected()));
        engine.compare(Way::Tokens, &index, pod, "before");
        let snapshot = index.snapshot();
        (0..5).for_each(|_| drop(engine.publish()));
        let (index, pod) = reborn(&snapshot);
        if changed {
            silent.mode = kv_index::engine::HashMode::Tokens(ChainSeed::new("another"));
        }
        let feed = EngineFeed::new(&index, pod, config).expect("live");
        let _idle = EngineFeed::new(&index, pod, silent).expect("live");
        let replayed = engine.replay(&feed, Some(feed.connected())).len();
        engine.compare(Way::Tokens, &index, pod, "after");
        assert_eq!(replayed, if changed { 45 } else { 6 }, "batches");
    }
}

/// That the engine holds blocks which it announced before anybody listened is still so after a restart.
#[test]
fn an_observer_is_told_again_of_what_was_lost() {
    for keeps in [5, 10_000] {
        let mut engine = Engine::new(8, keeps, ReplayForm::WithTopic);
        (0..40).for_each(|_| drop(engine.publish()));
        let (snapshot, _) = first(Way::Tokens, &engine);
        let (index, pod) = reborn(&snapshot);
        let observer = Arc::new(LossCounter::default());
        let mut config = Way::Tokens.config(&engine.pool);
        config.observer = Some(observer.clone());
        let feed = EngineFeed::new(&index, pod, config).expect("live");
        assert!(feed.is_resumed());
        assert_eq!(observer.count(), usize::from(keeps == 5));
    }
}
