//! Recovery transcripts: streams that lose, repeat and restart, each ending in the right state.
#![cfg(feature = "vllm")]

mod support;

use kv_index::engine::{DropReason, EngineFeed, EngineFeedConfig, ReceiveError, ReplayForm, Replayed, replay_request};
use kv_index::{BatchOutcome, BlockSize, Config, Index, Pod};
use pointsman_test_support::SplitMix64;
use support::engine::{Engine, Feed};
use support::pack::Packer;
use support::pool::model;
use support::publisher::{Frames, Publisher};
use support::truth::Way;

fn with_feed(way: Way, keeps: usize, form: ReplayForm, test: impl Fn(Engine, &Index, Pod, &Feed<'_>)) {
    let engine = Engine::new(7, keeps, form);
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let feed = EngineFeed::new(&index, pod, way.config(&engine.pool)).expect("live");
    test(engine, &index, pod, &feed);
}

#[test]
fn a_gap_is_replayed_and_the_stream_goes_on() {
    for (way, form) in
        Way::ALL.into_iter().flat_map(|way| [(way, ReplayForm::WithTopic), (way, ReplayForm::WithoutTopic)])
    {
        with_feed(way, 1000, form, |mut engine, index, pod, feed| {
            for _ in 0..20 {
                let frames = engine.publish();
                assert!(matches!(engine.deliver(feed, &frames)[..], [BatchOutcome::Applied(_)]));
            }
            let lost: Vec<_> = (0..3).map(|_| engine.publish()).collect();
            let frames = engine.publish();
            let verdicts = engine.deliver(feed, &frames);
            // The last applied batch comes again to show that the engine is the one we know; then the missing ones.
            let [BatchOutcome::Gap { from: 20, to: 23, restarted: false }, BatchOutcome::Duplicate, missing @ ..] =
                &verdicts[..]
            else {
                panic!("{verdicts:?}")
            };
            assert_eq!(missing.len(), 4);
            assert!(missing.iter().all(|verdict| matches!(verdict, BatchOutcome::Applied(_))), "{missing:?}");
            engine.compare(way, index, pod, "after the replay");
            // What was lost comes late after all.
            for frames in lost {
                assert_eq!(engine.deliver(feed, &frames), [BatchOutcome::Duplicate]);
            }
            let frames = engine.publish();
            assert!(matches!(engine.deliver(feed, &frames)[..], [BatchOutcome::Applied(_)]));
            engine.compare(way, index, pod, "after going on");
        });
    }
}

#[test]
fn what_a_gateway_missed_before_it_started_is_replayed_too() {
    for way in Way::ALL {
        with_feed(way, 1000, ReplayForm::WithTopic, |mut engine, index, pod, feed| {
            for _ in 0..30 {
                engine.publish();
            }
            let verdicts = engine.replay(feed, Some(feed.connected()));
            assert_eq!(verdicts.len(), 30);
            engine.compare(way, index, pod, "after connecting");
        });
    }
}

/// A replay that starts too late cannot be trusted to join on: what was known is forgotten, and what comes counts.
#[test]
fn a_replay_that_starts_too_late_costs_what_was_known() {
    for way in Way::ALL {
        with_feed(way, 5, ReplayForm::WithTopic, |mut engine, index, pod, feed| {
            for _ in 0..40 {
                let frames = engine.publish();
                engine.deliver(feed, &frames);
            }
            for _ in 0..8 {
                engine.publish();
            }
            let frames = engine.publish();
            let verdicts = engine.deliver(feed, &frames);
            let [BatchOutcome::Gap { .. }, BatchOutcome::GapSkipped(_), rest @ ..] = &verdicts[..] else {
                panic!("{verdicts:?}")
            };
            assert_eq!(rest.len(), 4);

            // The same as a feed that only ever saw those five batches.
            let fresh: Index = Index::new(Config::default());
            let twin = fresh.join("twin").expect("room");
            let mut config = way.config(&engine.pool);
            config.replay = false;
            let other = EngineFeed::new(&fresh, twin, config).expect("live");
            for reply in engine.publisher.replay(&replay_request(0)) {
                other.receive_replay(&reply).expect("well-formed");
            }
            assert_eq!(index.digest(pod), fresh.digest(twin));
            assert_eq!(feed.drop_counts(), other.drop_counts());

            // Nothing is claimed that is not there, whatever comes; and once the engine empties its cache, all is known.
            for _ in 0..30 {
                let frames = engine.publish();
                engine.deliver(feed, &frames);
                for (found, held) in way.depths(index, pod, &engine.pool, &engine.traffic.prompts) {
                    assert!(found <= held, "{found} blocks claimed, {held} held");
                }
            }
            engine.pool.requests().into_iter().for_each(|id| engine.pool.finish(id));
            engine.pool.reset();
            let payload = engine.pool.payload(engine.time + 0.5).expect("a reset is announced");
            let frames = engine.publisher.publish(payload);
            engine.deliver(feed, &frames);
            for _ in 0..20 {
                let frames = engine.publish();
                engine.deliver(feed, &frames);
                engine.compare(way, index, pod, "after the reset");
            }
        });
    }
}

#[test]
fn a_sequence_that_goes_backwards_is_a_new_engine() {
    for way in Way::ALL {
        with_feed(way, 1000, ReplayForm::WithTopic, |mut engine, index, pod, feed| {
            let mut old = Vec::new();
            for _ in 0..40 {
                let frames = engine.publish();
                engine.deliver(feed, &frames);
                old.push(frames);
            }
            engine.restart();
            // The first batches of the new incarnation are lost; the third is the first news of it.
            engine.publish();
            engine.publish();
            let frames = engine.publish();
            let verdicts = engine.deliver(feed, &frames);
            assert!(matches!(verdicts[0], BatchOutcome::Gap { from: 0, to: 2, restarted: true }), "{verdicts:?}");
            engine.compare(way, index, pod, "after the restart");
            // The old engine's batches, late: higher numbers, earlier times.
            for frames in &old[35..] {
                assert_eq!(engine.deliver(feed, frames), [BatchOutcome::Stale]);
            }
            for _ in 0..20 {
                let frames = engine.publish();
                engine.deliver(feed, &frames);
            }
            engine.compare(way, index, pod, "after going on");
        });
    }
}

/// The engine restarted while nobody listened, and has come further than the old one was: only the overlap tells.
#[test]
fn a_restart_that_nobody_saw_is_noticed_on_connecting() {
    for way in Way::ALL {
        with_feed(way, 1000, ReplayForm::WithTopic, |mut engine, index, pod, feed| {
            for _ in 0..10 {
                let frames = engine.publish();
                engine.deliver(feed, &frames);
            }
            engine.restart();
            for _ in 0..25 {
                engine.publish();
            }
            let from = feed.connected();
            assert_eq!(from, 9);
            let verdicts = engine.replay(feed, Some(from));
            assert!(matches!(verdicts[0], BatchOutcome::Gap { from: 0, to: 9, restarted: true }), "{verdicts:?}");
            engine.compare(way, index, pod, "after connecting");
        });
    }
}

/// The new process runs where the clock is an hour behind: its times say that its batches are old.
#[test]
fn a_restart_under_a_clock_that_is_behind_is_noticed() {
    for (way, lived) in Way::ALL.into_iter().flat_map(|way| [(way, 20), (way, 300)]) {
        with_feed(way, 1000, ReplayForm::WithTopic, |mut engine, index, pod, feed| {
            engine.time = 1_000_000.0;
            for _ in 0..lived {
                let frames = engine.publish();
                engine.deliver(feed, &frames);
            }
            engine.restart();
            engine.time -= 3600.0;
            for _ in 0..5 {
                let frames = engine.publish();
                engine.deliver(feed, &frames);
                engine.compare(way, index, pod, "after the restart");
            }
        });
    }
}

#[test]
fn two_transports_that_bring_everything_twice_change_nothing() {
    for way in Way::ALL {
        with_feed(way, 1000, ReplayForm::WithTopic, |mut engine, index, pod, feed| {
            let messages: Vec<_> = (0..200).map(|_| engine.publish()).collect();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for frames in &messages {
                            let verdict = feed.receive(frames).expect("well-formed").outcome;
                            assert!(
                                matches!(verdict, BatchOutcome::Applied(_) | BatchOutcome::Duplicate),
                                "{verdict:?}"
                            );
                        }
                    });
                }
            });
            engine.compare(way, index, pod, "after both");
        });
    }
}

/// Loss, repetition, delay, restarts and lost connections in any mixture, with a replay buffer that reaches back.
#[test]
fn whatever_the_wire_does_the_state_is_right_in_the_end() {
    for seed in 0..24 {
        let way = Way::ALL[seed as usize % 4];
        let mut engine = Engine::new(seed, 10_000, ReplayForm::WithTopic);
        let mut wire = SplitMix64::new(seed ^ 0xabcd);
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").expect("room");
        let feed = EngineFeed::new(&index, pod, way.config(&engine.pool)).expect("live");
        let mut delayed: Vec<Frames> = Vec::new();
        for _ in 0..300 {
            let frames = engine.publish();
            match wire.below(20) {
                0..2 => {}
                2..4 => delayed.push(frames),
                4 => {
                    engine.deliver(&feed, &frames);
                    engine.deliver(&feed, &frames);
                }
                5 if wire.percent(20) => {
                    engine.restart();
                    delayed.clear();
                }
                6 if wire.percent(30) => {
                    (0..wire.below(30)).for_each(|_| drop(engine.publish()));
                    engine.replay(&feed, Some(feed.connected()));
                }
                _ => {
                    engine.deliver(&feed, &frames);
                }
            }
            if !delayed.is_empty() && wire.percent(30) {
                let frames = delayed.remove(wire.below(delayed.len()));
                engine.deliver(&feed, &frames);
            }
        }
        engine.replay(&feed, Some(feed.connected()));
        engine.compare(way, &index, pod, &format!("seed {seed}"));
    }
}

/// SGLang announces that its cache is empty when it starts.
#[test]
fn a_start_up_clear_is_the_state_it_says() {
    let size = BlockSize::new(2).expect("not zero");
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let feed = EngineFeed::new(&index, pod, EngineFeedConfig::tokens(model(), size)).expect("live");
    let cleared = |time: f64| {
        let mut packer = Packer::default();
        packer.array(3).float(time).array(1).array(1).text("AllBlocksCleared").uint(0);
        packer.0
    };
    let stored = |time: f64| {
        let mut packer = Packer::default();
        packer.array(3).float(time).array(1).array(7).text("BlockStored").uints([11, 22].into_iter()).nil();
        packer.uints([1, 2, 3, 4].into_iter()).uint(2).nil().text("GPU").uint(0);
        packer.0
    };
    let mut publisher = Publisher::new(100, ReplayForm::WithoutTopic);
    feed.receive(&publisher.publish(cleared(1.0))).expect("well-formed");
    feed.receive(&publisher.publish(stored(2.0))).expect("well-formed");
    assert_eq!(index.pod_stats(pod).expect("live").blocks, 2);
    let mut reborn = Publisher::new(100, ReplayForm::WithoutTopic);
    let verdict = feed.receive(&reborn.publish(cleared(3.0))).expect("well-formed").outcome;
    assert!(matches!(verdict, BatchOutcome::Restarted(_)), "{verdict:?}");
    assert_eq!(index.pod_stats(pod).expect("live").blocks, 0);
    assert_eq!(feed.page_map_size().0, 0);
    feed.receive(&reborn.publish(stored(4.0))).expect("well-formed");
    assert_eq!(index.pod_stats(pod).expect("live").blocks, 2);
}

#[test]
fn a_damaged_batch_is_asked_for_again_and_costs_the_state_only_if_it_stays_damaged() {
    let way = Way::Tokens;
    with_feed(way, 1000, ReplayForm::WithTopic, |mut engine, index, pod, feed| {
        for _ in 0..10 {
            let frames = engine.publish();
            engine.deliver(feed, &frames);
        }
        let mut damaged = engine.publish();
        damaged[2].truncate(9);
        assert!(matches!(feed.receive(&damaged), Err(ReceiveError::Decode { sequence: 10, .. })));
        let frames = engine.publish();
        engine.deliver(feed, &frames);
        engine.compare(way, index, pod, "after the replay");

        // This one was published damaged.
        engine.publisher.publish(vec![0xc1]);
        let frames = engine.publish();
        let ask = feed.receive(&frames).expect("well-formed").replay_from.expect("a gap");
        let replies = engine.publisher.replay(&replay_request(ask));
        assert!(matches!(feed.receive_replay(&replies[1]), Err(ReceiveError::Decode { sequence: 12, .. })));
        assert_eq!(index.pod_stats(pod).expect("live").blocks, 0);
        assert_eq!(feed.drop_counts().of(DropReason::Undecodable).events, 1);
        assert!(
            matches!(feed.receive_replay(&replies[2]), Ok(Replayed::Batch(batch)) if matches!(batch.outcome, BatchOutcome::Applied(_)))
        );
    });
}

/// The last batch that an engine published cannot be read, and then it is silent: it is no other engine, however often somebody looks.
#[test]
fn a_last_batch_that_cannot_be_read_is_no_restart() {
    with_feed(Way::Tokens, 1000, ReplayForm::WithTopic, |mut engine, _, _, feed| {
        for _ in 0..10 {
            let frames = engine.publish();
            engine.deliver(feed, &frames);
        }
        let damaged = engine.publisher.publish(vec![0xc1]);
        assert!(matches!(feed.receive(&damaged), Err(ReceiveError::Decode { sequence: 10, .. })));
        for look in 0..3 {
            let replies = engine.publisher.replay(&replay_request(feed.connected()));
            for reply in replies {
                match feed.receive_replay(&reply) {
                    Ok(Replayed::Batch(received)) => assert_eq!(received.outcome, BatchOutcome::Duplicate),
                    Ok(end) => assert_eq!(end, Replayed::End { replay_from: None }, "look {look}"),
                    Err(error) => assert!(matches!(error, ReceiveError::Decode { sequence: 10, .. }), "{error}"),
                }
            }
        }
        let frames = engine.publish();
        assert!(matches!(engine.deliver(feed, &frames)[..], [BatchOutcome::Applied(_)]));
    });
}

#[test]
fn without_a_replay_socket_a_gap_costs_the_state_at_once() {
    let engine = Engine::new(3, 10, ReplayForm::WithTopic);
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let mut config = Way::EngineHashes.config(&engine.pool);
    config.replay = false;
    let feed = EngineFeed::new(&index, pod, config).expect("live");
    let mut engine = engine;
    for _ in 0..10 {
        let frames = engine.publish();
        feed.receive(&frames).expect("well-formed");
    }
    engine.publish();
    let frames = engine.publish();
    let received = feed.receive(&frames).expect("well-formed");
    assert!(matches!(received.outcome, BatchOutcome::GapSkipped(_)), "{received:?}");
    assert_eq!(received.replay_from, None);
}

/// The replay socket answers, but with nothing: what is missing will not come, so the stream goes on without it.
#[test]
fn an_empty_replay_is_not_asked_for_for_ever() {
    let mut engine = Engine::new(3, 0, ReplayForm::WithTopic);
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let feed = EngineFeed::new(&index, pod, Way::Tokens.config(&engine.pool)).expect("live");
    engine.publish();
    let first = engine.publish();
    assert!(matches!(engine.deliver(&feed, &first)[..], [BatchOutcome::Gap { from: 0, to: 1, .. }]));
    let second = engine.publish();
    assert!(matches!(engine.deliver(&feed, &second)[..], [BatchOutcome::Applied(_)]));
    engine.publish();
    let third = engine.publish();
    assert!(matches!(engine.deliver(&feed, &third)[..], [BatchOutcome::Gap { from: 3, to: 4, .. }]));
    // Not even the last batch is there to come again: the engine is taken for another one, and the state with it.
    // That one is asked once too.
    let fourth = engine.publish();
    assert!(matches!(engine.deliver(&feed, &fourth)[..], [BatchOutcome::Gap { from: 0, to: 5, .. }]));
    let fifth = engine.publish();
    let verdicts = engine.deliver(&feed, &fifth);
    assert!(matches!(verdicts[..], [BatchOutcome::GapSkipped(_)]), "{verdicts:?}");
}

#[test]
fn another_block_size_is_an_error_that_names_both_and_the_pod_and_changes_nothing() {
    let mut engine = Engine::new(3, 10, ReplayForm::WithTopic);
    let index: Index = Index::new(Config::default());
    let pod = index.join("llama-0").expect("room");
    let size = BlockSize::new(16).expect("not zero");
    let feed = EngineFeed::new(&index, pod, EngineFeedConfig::tokens(model(), size)).expect("live");
    let frames = engine.publish();
    let error = feed.receive(&frames).expect_err("4 is not 16");
    assert_eq!(error, ReceiveError::BlockSize { pod: "llama-0".into(), engine: 4, index: 16 });
    assert_eq!(error.to_string(), "pod `llama-0` has blocks of 4 tokens, the index of 16");
    assert_eq!(index.pod_stats(pod).expect("live").blocks, 0);

    // With pages that accumulate the same stream is welcome, from its first batch on.
    let mut config = EngineFeedConfig::tokens(model(), size);
    config.accumulate = true;
    let feed = EngineFeed::new(&index, pod, config).expect("live");
    assert!(matches!(feed.receive(&frames).expect("well-formed").outcome, BatchOutcome::Applied(_)));
}
