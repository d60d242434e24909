//! Edge cases: several streams of one pod, and replays that do not come.

use super::*;

/// Two streams of one pod, both at their beginning.
fn two_streams<'i>(index: &'i Index, pod: Pod) -> [Feed<'i>; 2] {
    [0, 1].map(|stream| {
        let mut config = EngineFeedConfig::engine_hashes(size(2));
        config.stream = StreamId(stream);
        EngineFeed::new(index, pod, config).unwrap()
    })
}

/// What the other stream lost has to be told again: its next batch, after block 5, waits for its first.
fn begins_anew(other: &Feed<'_>) {
    let received = other.receive_batch(1, &batch(2.0, vec![stored(&[6], Some(5), &[1, 4], 2)])).unwrap();
    assert!(matches!(received.outcome, BatchOutcome::Gap { from: 0, .. }), "{received:?}");
}

/// Making a feed for one stream forgets the pod's blocks, those of its other streams too.
#[test]
fn a_feed_made_anew_makes_other_streams_begin_anew() {
    setup(|index, pod| {
        let [one, two] = two_streams(index, pod);
        one.receive_batch(0, &batch(1.0, vec![stored(&[1], None, &[1, 2], 2)])).unwrap();
        two.receive_batch(0, &batch(1.0, vec![stored(&[5], None, &[1, 3], 2)])).unwrap();
        let _again: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        begins_anew(&two);
    });
}

/// So does a replayed batch that is damaged.
#[test]
fn a_batch_that_cannot_be_had_makes_other_streams_begin_anew() {
    setup(|index, pod| {
        let [one, two] = two_streams(index, pod);
        one.receive_batch(0, &batch(1.0, vec![stored(&[1], None, &[1, 2], 2)])).unwrap();
        two.receive_batch(0, &batch(1.0, vec![stored(&[5], None, &[1, 3], 2)])).unwrap();
        one.connected();
        let reply =
            ReplayReply::Batch(Message { topic: b"", sequence: 1, payload: &[0xc1] }).to_frames(ReplayForm::WithTopic);
        assert!(one.receive_replay(&reply).is_err());
        begins_anew(&two);
    });
}

/// And so does news that everything was cleared.
#[test]
fn a_clear_makes_other_streams_begin_anew() {
    setup(|index, pod| {
        let [one, two] = two_streams(index, pod);
        two.receive_batch(0, &batch(1.0, vec![stored(&[5], None, &[1, 3], 2)])).unwrap();
        one.receive_batch(0, &batch(1.0, vec![EngineEvent::Cleared])).unwrap();
        begins_anew(&two);
    });
}

/// What the pod held before is forgotten.
#[test]
fn a_feed_starts_from_nothing() {
    setup(|index, pod| {
        let old = [BlockHash::new(5)];
        index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(&old))).unwrap();
        let _feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        assert_eq!(blocks(index, pod), 0);
    });
}

/// Without that the state would go stale.
#[test]
fn a_replay_that_never_comes_is_asked_for_again() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        live(&feed, 0, 0.0, 10);
        assert_eq!(live(&feed, 2, 2.0, 12).replay_from, Some(0));
        // Nobody answers: vLLM has no replay socket unless it is set up.
        let asked = (3..1000).filter(|n| live(&feed, *n, *n as f64, 10 + n).replay_from.is_some()).count();
        assert!(asked > 0, "{:?}; blocks {}", live(&feed, 1000, 1000.0, 1010).outcome, blocks(index, pod));
    });
}

/// The replay socket is known to be gone: the stream goes on without what is missing.
#[test]
fn a_replay_that_failed_is_not_waited_for() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        live(&feed, 0, 0.0, 10);
        assert_eq!(live(&feed, 2, 2.0, 12).replay_from, Some(0));
        feed.replay_failed();
        assert!(matches!(live(&feed, 3, 3.0, 13).outcome, BatchOutcome::GapSkipped(_)));
        assert_eq!(blocks(index, pod), 1);
    });
}
