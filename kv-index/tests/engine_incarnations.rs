//! Gap recovery across restarts: what is missing is given up neither for an earlier incarnation nor before a replay
//! was requested.
#![cfg(feature = "vllm")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Duration;

use kv_index::engine::{EngineFeed, EngineFeedConfig, ReplayForm, Replayed, replay_request};
use kv_index::{
    BatchOutcome, BlockHash, BlockSize, ChangeObserver, Config, Event, EventSemantics, Index, Parent, Pod, Stored,
};

use support::engine::Engine;
use support::observer::LossCounter;
use support::pack::Packer;
use support::pool::model;
use support::publisher::{Frames, Publisher};
use support::truth::Way;

type Feed<'i> = EngineFeed<&'i Index>;

/// The next batch. What is in it does not matter here.
fn publish(engine: &mut Publisher, time: &mut f64) -> Frames {
    *time += 1.0;
    let mut payload = Packer::default();
    payload.array(3).float(*time).array(1).map(1).text("type").text("AllBlocksCleared").uint(0);
    engine.publish(payload.0)
}

/// Asks until there is nothing more to ask for.
fn replay(engine: &Publisher, feed: &Feed<'_>, from: u64) -> Vec<BatchOutcome> {
    let (mut ask, mut verdicts) = (Some(from), Vec::new());
    while let Some(from) = ask.take() {
        for reply in engine.replay(&replay_request(from)) {
            match feed.receive_replay(&reply).expect("well-formed") {
                Replayed::Batch(received) => verdicts.push(received.outcome),
                Replayed::End { replay_from: again } => ask = again,
                other => panic!("{other:?}"),
            }
        }
    }
    verdicts
}

/// A feed that knew `lived` batches of an engine, and then heard that it started anew and has nothing to say.
fn with_new_incarnation(lived: usize, test: impl Fn(&mut Publisher, &mut f64, &Feed<'_>)) {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let size = BlockSize::new(4).expect("not zero");
    let feed = EngineFeed::new(&index, pod, EngineFeedConfig::tokens(model(), size)).expect("live");
    let (mut engine, mut time) = (Publisher::new(1000, ReplayForm::WithTopic), 0.0);
    for _ in 0..lived {
        let frames = publish(&mut engine, &mut time);
        assert!(matches!(feed.receive(&frames).expect("well-formed").outcome, BatchOutcome::Applied(_)));
    }
    engine = Publisher::new(1000, ReplayForm::WithTopic);
    assert_eq!(replay(&engine, &feed, feed.connected()), []);
    test(&mut engine, &mut time, &feed);
}

#[test]
fn the_first_batch_of_a_silent_new_life_is_asked_for_if_it_is_missed() {
    with_new_incarnation(20, |engine, time, feed| {
        publish(engine, time);
        let frames = publish(engine, time);
        let received = feed.receive(&frames).expect("well-formed");
        assert!(matches!(received.outcome, BatchOutcome::Gap { from: 0, to: 1, .. }), "{received:?}");
        let verdicts = replay(engine, feed, received.replay_from.expect("it can be replayed"));
        assert!(matches!(verdicts[..], [BatchOutcome::Applied(_), BatchOutcome::Applied(_)]), "{verdicts:?}");
    });
}

/// The replay that is under way when a new engine's first batch comes begins where the old one was: in the new one's numbers
/// too late, and what it lacks can still be had.
#[test]
fn a_replay_of_the_old_life_costs_the_new_one_nothing() {
    with_new_incarnation(20, |engine, time, feed| {
        for _ in 0..5 {
            let frames = publish(engine, time);
            feed.receive(&frames).expect("well-formed");
        }
        let asked = feed.connected();
        *engine = Publisher::new(1000, ReplayForm::WithTopic);
        let first = publish(engine, time);
        let received = feed.receive(&first).expect("well-formed");
        assert!(matches!(received.outcome, BatchOutcome::Restarted(_)), "{received:?}");
        let asks_anew = received.replay_from.expect("the replay under way is not the new engine's");
        for _ in 0..8 {
            publish(engine, time);
        }
        assert_eq!((asked, asks_anew), (4, 0));
        let verdicts = replay(engine, feed, asks_anew);
        assert_eq!(verdicts[0], BatchOutcome::Duplicate);
        assert!(verdicts[1..].iter().all(|verdict| matches!(verdict, BatchOutcome::Applied(_))), "{verdicts:?}");
        assert_eq!(verdicts.len(), 9);
    });
}

/// A host that asks in silence whether something was missed hears that nothing was: the next gap is asked for as any other.
#[test]
fn an_ask_in_silence_does_not_cost_the_next_gap() {
    with_new_incarnation(20, |engine, time, feed| {
        for _ in 0..3 {
            let frames = publish(engine, time);
            feed.receive(&frames).expect("well-formed");
        }
        assert_eq!(replay(engine, feed, feed.connected()), [BatchOutcome::Duplicate]);
        publish(engine, time);
        let frames = publish(engine, time);
        let received = feed.receive(&frames).expect("well-formed");
        assert!(matches!(received.outcome, BatchOutcome::Gap { from: 3, to: 4, .. }), "{received:?}");
        let verdicts = replay(engine, feed, received.replay_from.expect("it can be replayed"));
        assert!(
            matches!(verdicts[..], [BatchOutcome::Duplicate, BatchOutcome::Applied(_), BatchOutcome::Applied(_)]),
            "{verdicts:?}"
        );
    });
}

/// One batch with a number that cannot be right costs the state once, not at each gap that follows.
#[test]
fn a_number_far_ahead_is_given_up_once() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let size = BlockSize::new(4).expect("not zero");
    let feed = EngineFeed::new(&index, pod, EngineFeedConfig::tokens(model(), size)).expect("live");
    let (mut engine, mut time) = (Publisher::new(1000, ReplayForm::WithTopic), 0.0);
    feed.receive(&publish(&mut engine, &mut time)).expect("well-formed");
    let mut odd = publish(&mut Publisher::new(0, ReplayForm::WithTopic), &mut time);
    odd[1] = (u64::MAX - 1).to_be_bytes().to_vec();
    let received = feed.receive(&odd).expect("well-formed");
    assert_eq!(replay(&engine, &feed, received.replay_from.expect("something is missing")), [BatchOutcome::Duplicate]);
    for _ in 0..3 {
        let frames = publish(&mut engine, &mut time);
        assert!(matches!(feed.receive(&frames).expect("well-formed").outcome, BatchOutcome::Applied(_)));
        replay(&engine, &feed, feed.connected());
        publish(&mut engine, &mut time);
        let frames = publish(&mut engine, &mut time);
        let received = feed.receive(&frames).expect("well-formed");
        let verdicts = replay(&engine, &feed, received.replay_from.expect("it can be replayed"));
        assert!(
            matches!(verdicts[..], [BatchOutcome::Duplicate, BatchOutcome::Applied(_), BatchOutcome::Applied(_)]),
            "{verdicts:?}"
        );
    }
}

/// Behind the last number there is none: a batch that has it is nobody's, however often it comes, and the stream goes on.
#[test]
fn the_last_number_of_all_is_foreign() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let size = BlockSize::new(4).expect("not zero");
    let feed = EngineFeed::new(&index, pod, EngineFeedConfig::tokens(model(), size)).expect("live");
    let (mut engine, mut time) = (Publisher::new(1000, ReplayForm::WithTopic), 0.0);
    for _ in 0..3 {
        let frames = publish(&mut engine, &mut time);
        assert!(matches!(feed.receive(&frames).expect("well-formed").outcome, BatchOutcome::Applied(_)));
        let mut odd = publish(&mut Publisher::new(0, ReplayForm::WithTopic), &mut time);
        odd[1] = u64::MAX.to_be_bytes().to_vec();
        let received = feed.receive(&odd).expect("well-formed");
        assert_eq!((received.outcome, received.replay_from), (BatchOutcome::Foreign, None));
    }
}

/// The engine had answered when it published on; what was lost then is seen to be missing before the answer's end is.
#[test]
fn what_was_missed_since_it_was_asked_is_asked_for_again() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let size = BlockSize::new(4).expect("not zero");
    let feed = EngineFeed::new(&index, pod, EngineFeedConfig::tokens(model(), size)).expect("live");
    let (mut engine, mut time) = (Publisher::new(1000, ReplayForm::WithTopic), 0.0);
    feed.receive(&publish(&mut engine, &mut time)).expect("well-formed");
    let answer = engine.replay(&replay_request(feed.connected()));
    publish(&mut engine, &mut time);
    let received = feed.receive(&publish(&mut engine, &mut time)).expect("well-formed");
    assert!(matches!(received.outcome, BatchOutcome::Gap { from: 1, to: 2, .. }), "{received:?}");
    let ends: Vec<_> = answer.iter().map(|reply| feed.receive_replay(reply).expect("well-formed")).collect();
    let Some(&Replayed::End { replay_from: Some(from) }) = ends.last() else { panic!("{ends:?}") };
    let verdicts = replay(&engine, &feed, from);
    assert!(
        matches!(verdicts[..], [BatchOutcome::Duplicate, BatchOutcome::Applied(_), BatchOutcome::Applied(_)]),
        "{verdicts:?}"
    );
}

/// The engine keeps ten batches: what came before them it holds, and will not announce again.
#[test]
fn an_observer_is_told_of_what_came_before_the_first_batch_that_can_be_had() {
    for (batches, forgets) in [(30, 1), (10, 0)] {
        let (mut engine, index) = (Engine::new(7, 10, ReplayForm::WithTopic), Index::new(Config::default()));
        let index: &Index = &index;
        let pod = index.join("a").expect("room");
        let observer = Arc::new(LossCounter::default());
        let mut config = Way::ALL[0].config(&engine.pool);
        config.observer = Some(observer.clone());
        let feed = EngineFeed::new(index, pod, config).expect("live");
        let last = (0..batches).map(|_| engine.publish()).last().expect("some");
        engine.deliver(&feed, &last);
        let frames = engine.publish();
        engine.deliver(&feed, &frames);
        assert_eq!(observer.count(), forgets, "of {batches} batches");
    }
}

/// Nobody who writes to another pod waits for an update while its observer is told, which may wait for them or write there itself.
#[test]
fn an_observer_may_write_to_other_pods() {
    let (mut engine, index) =
        (Engine::new(7, 10, ReplayForm::WithTopic), Arc::<Index>::new(Index::new(Config::default())));
    let [pod, other] = ["a", "b"].map(|name| index.join(name).expect("room"));
    let observer = Arc::new(Writes { index: Arc::clone(&index), pod: other, written: AtomicUsize::new(0) });
    let mut config = Way::ALL[0].config(&engine.pool);
    config.observer = Some(observer.clone());
    let feed = EngineFeed::new(&*index, pod, config).expect("live");
    let last = (0..30).map(|_| engine.publish()).last().expect("some");
    engine.deliver(&feed, &last);
    assert_eq!(observer.written.load(Relaxed), 2, "it waits for who waits for it");
}

/// Writes to a pod, and waits for another thread that does.
#[derive(Debug)]
struct Writes {
    index: Arc<Index>,
    pod: Pod,
    written: AtomicUsize,
}

impl ChangeObserver for Writes {
    fn changed(&self, _: &Event<'_>) {}

    #[expect(clippy::disallowed_methods, reason = "one that nobody waits for, if it hangs")]
    fn forgot(&self) {
        let (index, pod, (done, is_done)) = (Arc::clone(&self.index), self.pod, channel());
        let write = move |block| {
            let blocks = [BlockHash::new(block)];
            let stored = Event::Stored(Stored::new(Parent::Root, &blocks));
            index.apply(pod, EventSemantics::Membership, &stored).expect("live").stored
        };
        let others = write.clone();
        std::thread::spawn(move || done.send(others(1)));
        let Ok(written) = is_done.recv_timeout(Duration::from_secs(10)) else { return };
        self.written.fetch_add(written + write(2), Relaxed);
    }
}

/// An engine that starts anew while the replay of a gap is awaited: what it replays is told from what was heard of the one
/// before, nothing of the two is mixed, and nothing is lost.
#[test]
fn a_restart_under_a_pending_replay_mixes_nothing() {
    with_new_incarnation(20, |engine, time, feed| {
        let heard: Vec<Frames> = (0..10).map(|_| publish(engine, time)).collect();
        let received = feed.receive(&heard[4]).expect("well-formed");
        let from = received.replay_from.expect("four are missing");
        *engine = Publisher::new(1000, ReplayForm::WithTopic);
        let of_newest: Vec<Frames> = (0..4).map(|_| publish(engine, time)).collect();
        let replies = engine.replay(&replay_request(from));
        let (end, batches) = replies.split_last().expect("it ends");
        for reply in batches {
            let Replayed::Batch(received) = feed.receive_replay(reply).expect("well-formed") else { panic!("a batch") };
            assert!(matches!(received.outcome, BatchOutcome::Applied(_) | BatchOutcome::Restarted(_)), "{received:?}");
        }
        // What waited for the replay, as a transport hands it on.
        for late in &heard[4..] {
            assert_eq!(feed.receive(late).expect("well-formed").outcome, BatchOutcome::Stale);
        }
        for again in &of_newest {
            assert_eq!(feed.receive(again).expect("well-formed").outcome, BatchOutcome::Duplicate);
        }
        let Replayed::End { replay_from } = feed.receive_replay(end).expect("well-formed") else { panic!("the end") };
        if let Some(from) = replay_from {
            assert!(replay(engine, feed, from).iter().all(|verdict| *verdict == BatchOutcome::Duplicate));
        }
        let frames = publish(engine, time);
        assert!(matches!(feed.receive(&frames).expect("well-formed").outcome, BatchOutcome::Applied(_)));
    });
}

/// What was seen of an engine that is gone, and could not be applied, does not make its successor's batches look missing.
#[test]
fn numbers_seen_of_the_old_life_do_not_count_in_the_new_one() {
    with_new_incarnation(20, |engine, time, feed| {
        let heard: Vec<Frames> = (0..10).map(|_| publish(engine, time)).collect();
        feed.receive(&heard[9]).expect("well-formed");
        *engine = Publisher::new(1000, ReplayForm::WithTopic);
        let new: Vec<Frames> = (0..8).map(|_| publish(engine, time)).collect();
        for (at, frames) in new[..5].iter().enumerate() {
            let received = feed.receive(frames).expect("well-formed");
            let applied = matches!(received.outcome, BatchOutcome::Applied(_) | BatchOutcome::Restarted(_));
            assert!(applied, "{at}: {received:?}");
        }
        // One of the old ones comes late.
        assert_eq!(feed.receive(&heard[8]).expect("well-formed").outcome, BatchOutcome::Stale);
        let verdicts = replay(engine, feed, feed.connected());
        let (again, rest) = verdicts.split_first().expect("the last one comes again");
        assert_eq!(*again, BatchOutcome::Duplicate);
        assert!(rest.iter().all(|verdict| matches!(verdict, BatchOutcome::Applied(_))), "{verdicts:?}");
        assert_eq!(rest.len(), 3);
    });
}

/// The clock is set back after a restart: a replay shows that it is the engine's, and where there is none it is believed.
#[test]
fn a_clock_that_is_set_back_after_a_restart_costs_nothing() {
    for replays in [true, false] {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").expect("room");
        let mut config = EngineFeedConfig::tokens(model(), BlockSize::new(4).expect("not zero"));
        config.replay = replays;
        let feed = EngineFeed::new(&index, pod, config).expect("live");
        let (mut engine, mut time) = (Publisher::new(1000, ReplayForm::WithTopic), 100.0);
        (0..5).for_each(|_| drop(feed.receive(&publish(&mut engine, &mut time)).expect("well-formed")));
        (engine, time) = (Publisher::new(1000, ReplayForm::WithTopic), 5_000.0);
        let restarted = feed.receive(&publish(&mut engine, &mut time)).expect("well-formed").outcome;
        assert!(matches!(restarted, BatchOutcome::Restarted(_)), "{restarted:?}");
        time = 200.0;
        for _ in 0..3 {
            let frames = publish(&mut engine, &mut time);
            let received = feed.receive(&frames).expect("well-formed");
            let mut outcomes = vec![received.outcome];
            outcomes.extend(received.replay_from.into_iter().flat_map(|from| replay(&engine, &feed, from)));
            let applied = outcomes.iter().filter(|outcome| matches!(outcome, BatchOutcome::Applied(_))).count();
            assert_eq!(applied, 1, "{outcomes:?}");
        }
    }
}
