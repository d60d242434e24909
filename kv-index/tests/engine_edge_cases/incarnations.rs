//! Edge cases: restart detection when clocks and replies mislead.

use super::*;

/// a restart on a clock that is behind is noticed, and then everything of the new engine is stale until the clock catches up
#[test]
fn a_restart_seen_in_a_replay_under_a_clock_that_is_behind_is_followed() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        for n in 0..6 {
            live(&feed, n, 1000.0 + n as f64, 10 + n);
        }
        // new process, clock 900 s behind, published 0..=7 while we were away
        let mut ask = Some(feed.connected());
        let mut rounds = 0;
        while let Some(from) = ask {
            for n in from..8 {
                reply(&feed, n, 100.0 + n as f64, 50 + n);
            }
            ask = end(&feed);
            rounds += 1;
            assert!(rounds < 10);
        }
        let mut last = None;
        for n in 8..20 {
            last = Some(live(&feed, n, 100.0 + n as f64, 50 + n));
            if let Some(from) = last.as_ref().unwrap().replay_from {
                for m in from..=n {
                    reply(&feed, m, 100.0 + m as f64, 50 + m);
                }
                end(&feed);
            }
        }
        assert_eq!(blocks(index, pod), 20, "{last:?}");
    });
}

/// clock steps back in one incarnation, then a duplicate from before: a false restart
#[test]
fn a_clock_that_steps_back_is_no_restart() {
    setup(|index, pod| {
        let mut c = EngineFeedConfig::engine_hashes(size(2));
        c.replay = false;
        let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        for n in 0..6 {
            live(&feed, n, 1000.0 + n as f64, 10 + n);
        }
        live(&feed, 6, 990.0, 16);
        let r = live(&feed, 3, 1003.0, 13); // the other transport is a little late
        assert_eq!(r.outcome, BatchOutcome::Duplicate);
        assert_eq!(blocks(index, pod), 7);
    });
}

/// after a skipped batch, a restart is not noticed and the new incarnation's batches pass for duplicates
#[test]
fn a_restart_after_a_batch_that_could_not_be_had_is_noticed() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        for n in 0..3 {
            live(&feed, n, n as f64, 10 + n);
        }
        feed.connected();
        let bad =
            ReplayReply::Batch(Message { topic: b"", sequence: 3, payload: &[0xc1] }).to_frames(ReplayForm::WithTopic);
        assert!(feed.receive_replay(&bad).is_err());
        end(&feed);
        // engine restarts
        let mut verdicts = Vec::new();
        for n in 0..6 {
            verdicts.push(live(&feed, n, 100.0 + n as f64, 50 + n).outcome);
        }
        assert_eq!(blocks(index, pod), 6, "{verdicts:?}");
    });
}

/// replies of the dead engine, still in the replay socket, are taken for the new one's
#[test]
fn replies_of_the_dead_engine_are_stale() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        for n in 0..10 {
            live(&feed, n, n as f64, 10 + n);
        }
        assert_eq!(live(&feed, 12, 12.0, 22).replay_from, Some(9)); // 10 and 11 were lost
        // the engine answers, dies and restarts; the live socket is read first
        assert!(matches!(live(&feed, 0, 100.0, 50).outcome, BatchOutcome::Restarted(_)));
        assert_eq!(reply(&feed, 9, 9.0, 19).outcome, BatchOutcome::Stale);
        let v = reply(&feed, 10, 10.0, 20).outcome;
        assert_eq!(
            v,
            BatchOutcome::Stale,
            "an old engine's batch; depth of its block {}",
            depth(index, pod, &[BlockHash::new(20)])
        );
    });
}

/// infinite time
#[test]
fn a_time_without_end_is_no_time() {
    setup(|index, pod| {
        let mut c = EngineFeedConfig::engine_hashes(size(2));
        c.replay = false;
        let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        live(&feed, 0, f64::INFINITY, 10);
        live(&feed, 0, 5.0, 11);
        let v: Vec<_> = (1..5).map(|n| live(&feed, n, 5.0 + n as f64, 11 + n).outcome).collect();
        assert!(matches!(v[3], BatchOutcome::Applied(_)), "{v:?}");
    });
}
