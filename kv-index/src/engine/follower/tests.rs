//! Transcripts of a follower: what it asks for, when, and what searches see meanwhile.

use std::sync::Arc;

use super::*;
use crate::blocks::chain::ChainSeed;
use crate::blocks::{BlockSize, ChangeObserver, Event};
use crate::engine::{EngineFeedConfig, ReplayForm, ReplayReply};
use crate::index::config::Config;

const MS: Duration = Duration::from_millis(1);

struct World {
    index: Index,
    pod: Pod,
    start: Instant,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "any moment does to count from")]
    fn new() -> Self {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").unwrap();
        Self { index, pod, start: Instant::now() }
    }

    fn follow(&self, change: impl FnOnce(&mut FollowerConfig)) -> Follower<&Index> {
        let feed = EngineFeedConfig::tokens(ChainSeed::new("m"), BlockSize::new(4).unwrap());
        let mut config = FollowerConfig::new(feed);
        change(&mut config);
        Follower::new(&self.index, self.pod, config, self.start).unwrap()
    }

    fn is_found(&self) -> bool {
        self.index.alive().contains(self.pod.id())
    }
}

/// A batch without events, published at this time.
fn payload(time: f64) -> Vec<u8> {
    let mut payload = vec![0x93, 0xcb];
    payload.extend(time.to_be_bytes());
    payload.extend([0x90, 0xc0]);
    payload
}

fn live(sequence: u64) -> Vec<Vec<u8>> {
    Message { topic: b"t", sequence, payload: &payload(1.0 + sequence as f64) }.to_frames().to_vec()
}

fn replayed(sequence: u64) -> Vec<Vec<u8>> {
    let payload = payload(1.0 + sequence as f64);
    ReplayReply::Batch(Message { topic: b"t", sequence, payload: &payload }).to_frames(ReplayForm::WithTopic)
}

fn end() -> Vec<Vec<u8>> {
    ReplayReply::End.to_frames(ReplayForm::WithTopic)
}

fn actions(follower: &mut Follower<&Index>) -> Vec<FollowerAction> {
    std::iter::from_fn(|| follower.next_action()).collect()
}

use FollowerAction::{DropReplay, Replay as Request, Subscribe};

#[test]
fn attempts_to_subscribe_back_off_and_a_batch_makes_them_quick_again() {
    let world = World::new();
    let mut follower = world.follow(|config| config.feed.replay = false);
    assert_eq!(actions(&mut follower), [Subscribe]);
    let mut now = world.start;
    let mut pauses = Vec::new();
    for round in 0..7 {
        if round % 2 == 1 {
            // It accepts and breaks off: no better than one that is not there.
            follower.connected(now);
        }
        follower.disconnected(Disconnect::Violation, now);
        let at = follower.resubscribe.unwrap();
        pauses.push((at - now).as_millis());
        follower.tick(at - MS).unwrap();
        assert_eq!(actions(&mut follower), []);
        follower.tick(at).unwrap();
        assert_eq!(actions(&mut follower), [Subscribe]);
        now = at;
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
    assert_eq!(follower.status().errors, 7);
    follower.connected(now);
    follower.message(&live(0), now).unwrap();
    follower.disconnected(Disconnect::Closed, now);
    assert_eq!(follower.resubscribe, Some(now + 100 * MS));
    assert_eq!((follower.status().errors, follower.status().connections), (7, 4));
}

#[test]
fn replays_are_polled_while_the_subscription_is_down() {
    let world = World::new();
    let mut follower = world.follow(|_| {});
    actions(&mut follower);
    follower.disconnected(Disconnect::Closed, world.start);
    let now = world.start + follower.config.idle;
    follower.tick(now).unwrap();
    assert_eq!(actions(&mut follower), [Subscribe, Request { from: 0 }]);
    // The next attempt fails too; the replay goes on.
    follower.disconnected(Disconnect::Closed, now);
    follower.reply(&replayed(0), now).unwrap();
    follower.reply(&end(), now).unwrap();
    assert_eq!(actions(&mut follower), [DropReplay]);
    assert_eq!((follower.status().batches, follower.status().state), (1, FollowerState::Connecting));
    assert!(world.is_found(), "the replay shows what the engine holds");
    // And when the replays end too, nobody knows any more.
    let now = now + follower.config.idle;
    follower.tick(now).unwrap();
    assert!(actions(&mut follower).contains(&Request { from: 0 }));
    follower.replay_broken(Disconnect::Closed, now);
    assert!(!world.is_found());
    assert_eq!(follower.status().state, FollowerState::Connecting);
    // Until they come back.
    let now = now + follower.config.retry_max;
    follower.tick(now).unwrap();
    follower.reply(&replayed(0), now).unwrap();
    follower.reply(&end(), now).unwrap();
    assert!(world.is_found());
}

#[test]
fn a_replay_is_broken_off_when_a_reply_or_its_end_is_late() {
    let world = World::new();
    let mut follower = world.follow(|_| {});
    let begun = world.start;
    follower.connected(begun);
    assert_eq!(actions(&mut follower), [Subscribe, Request { from: 0 }]);
    // The request takes a while to be sent: that is not the engine's time.
    follower.replay_sent(begun + 1500 * MS);
    follower.tick(begun + 3400 * MS).unwrap();
    assert_eq!(actions(&mut follower), []);
    follower.tick(begun + 3500 * MS).unwrap();
    assert_eq!(actions(&mut follower), [DropReplay]);
    assert_eq!(follower.status().state, FollowerState::Replaying);
    assert_eq!(follower.deadline(), begun + 5500 * MS, "asked again after a pause");
    follower.tick(begun + 5500 * MS).unwrap();
    assert_eq!(actions(&mut follower), [Request { from: 0 }]);
    // Replies without an end.
    let mut now = begun + 5500 * MS;
    for sequence in 0.. {
        now += 1900 * MS;
        follower.reply(&replayed(sequence), now).unwrap();
        follower.tick(now).unwrap();
        if actions(&mut follower) == [DropReplay] {
            break;
        }
    }
    assert!(now < begun + 5500 * MS + 62 * 1000 * MS, "{:?}", now - begun);
    assert_eq!(follower.status().errors, 0, "late is not wrong");
}

#[test]
fn what_waits_for_a_replay_is_bounded_and_comes_after_it() {
    let world = World::new();
    let size = payload(1.0).len();
    let mut follower = world.follow(|config| {
        (config.max_waiting_messages, config.max_waiting_bytes) = (8, 3 * size);
    });
    follower.connected(world.start);
    (5..100).for_each(|sequence| follower.message(&live(sequence), world.start).unwrap());
    assert_eq!(follower.waiting(), (3, 3 * size));
    assert_eq!(actions(&mut follower), [Subscribe, Request { from: 0 }]);
    (0..5).for_each(|sequence| follower.reply(&replayed(sequence), world.start).unwrap());
    follower.reply(&end(), world.start).unwrap();
    assert_eq!(follower.status().batches, 8, "those that were replayed, and the three that waited");
    assert_eq!(follower.waiting(), (0, 0));
    // What found no room comes with the next gap.
    follower.message(&live(100), world.start).unwrap();
    assert_eq!(actions(&mut follower).last(), Some(&Request { from: 7 }));
}

#[test]
fn an_engine_that_publishes_and_does_not_replay_costs_what_was_known() {
    let world = World::new();
    let mut follower = world.follow(|_| {});
    let mut now = world.start;
    follower.connected(now);
    follower.reply(&end(), now).unwrap();
    (0..3).for_each(|sequence| follower.message(&live(sequence), now).unwrap());
    for round in 0..3 {
        assert_ne!(follower.status().state, FollowerState::Lost, "round {round}");
        follower.message(&live(10 + round), now).unwrap();
        follower.message(&live(20 + round), now).unwrap();
        follower.replay_broken(Disconnect::Closed, now);
        now += follower.config.retry_max;
        if round < 2 {
            follower.tick(now).unwrap();
        }
    }
    assert_eq!(follower.status().state, FollowerState::Lost);
    follower.message(&live(30), now).unwrap();
    assert_eq!(follower.status().lost, 1);
}

/// A port that refuses answers before the next message can come.
#[test]
fn replays_that_are_refused_at_once_are_given_up_too() {
    let world = World::new();
    let mut follower = world.follow(|_| {});
    let mut now = world.start;
    follower.connected(now);
    follower.replay_broken(Disconnect::Closed, now);
    for round in 0..3 {
        assert_ne!(follower.status().state, FollowerState::Lost, "round {round}");
        follower.message(&live(10 + round), now).unwrap();
        now += follower.config.retry_max;
        follower.tick(now).unwrap();
        follower.replay_broken(Disconnect::Closed, now);
    }
    assert_eq!(follower.status().state, FollowerState::Lost);
}

/// Nothing is published, so nothing says that the engine is there and does not replay.
#[test]
fn an_engine_that_is_silent_is_not_given_up() {
    let world = World::new();
    let mut follower = world.follow(|_| {});
    let mut now = world.start;
    follower.connected(now);
    follower.reply(&end(), now).unwrap();
    follower.message(&live(0), now).unwrap();
    for _ in 0..10 {
        now = follower.deadline();
        follower.tick(now).unwrap();
        follower.replay_broken(Disconnect::Closed, now);
    }
    assert_eq!((follower.status().lost, follower.failures), (0, 0));
    assert_eq!(follower.status().state, FollowerState::Replaying);
}

#[test]
fn a_retired_pod_is_noticed_at_the_next_deadline_and_message() {
    let world = World::new();
    let mut follower = world.follow(|_| {});
    assert!(world.index.retire(world.pod));
    assert_eq!(follower.tick(follower.deadline()), Err(PodRetired(world.pod)));
    assert_eq!(follower.message(&live(0), world.start), Err(PodRetired(world.pod)));
}

#[test]
fn durations_beyond_the_range_of_time_are_never() {
    let world = World::new();
    let mut follower = world.follow(|config| {
        (config.idle, config.reply_timeout, config.replay_timeout) = (Duration::MAX, Duration::MAX, Duration::MAX);
        (config.retry_initial, config.retry_max) = (Duration::MAX, Duration::MAX);
    });
    let later = world.start + Duration::from_secs(24 * 3600);
    follower.connected(world.start);
    follower.message(&live(3), world.start).unwrap();
    follower.replay_sent(world.start);
    follower.reply(&replayed(0), world.start).unwrap();
    follower.tick(later).unwrap();
    assert_eq!(actions(&mut follower), [Subscribe, Request { from: 0 }], "a reply is waited for");
    follower.replay_broken(Disconnect::Closed, later);
    follower.disconnected(Disconnect::Closed, later);
    follower.disconnected(Disconnect::Closed, later);
    assert!(follower.deadline() > later + Duration::from_secs(365 * 24 * 3600));
}

/// What an observer was told of gaps and of the follower, in words.
#[derive(Debug, Default)]
struct Told(std::sync::Mutex<Vec<String>>);

impl ChangeObserver for Told {
    fn changed(&self, _: &Event<'_>) {}

    fn gap(&self, is_open: bool) {
        self.0.lock().unwrap().push(format!("gap {is_open}"));
    }

    fn out_of_step(&self, how: Option<OutOfStep>) {
        self.0.lock().unwrap().push(how.map_or("in step".into(), |how| format!("{how:?}")));
    }
}

#[test]
fn an_observer_is_told_of_gaps_and_of_what_is_out_of_step() {
    let (world, told) = (World::new(), Arc::new(Told::default()));
    let mut follower = world.follow(|config| config.feed.observer = Some(Arc::clone(&told) as _));
    let tells = || std::mem::take(&mut *told.0.lock().unwrap());
    assert_eq!(tells(), ["gap false", "Disconnected"]);
    follower.connected(world.start);
    follower.reply(&replayed(0), world.start).unwrap();
    follower.reply(&end(), world.start).unwrap();
    assert_eq!(tells(), ["in step", "Replaying", "in step"]);
    // A gap, which a replay closes.
    follower.message(&live(1), world.start).unwrap();
    follower.message(&live(3), world.start).unwrap();
    assert_eq!(tells(), ["gap true", "Replaying"]);
    follower.message(&live(4), world.start).unwrap();
    (1..3).for_each(|sequence| follower.reply(&replayed(sequence), world.start).unwrap());
    assert_eq!(tells(), [""; 0], "still open");
    follower.reply(&end(), world.start).unwrap();
    assert_eq!(tells(), ["gap false", "in step"]);
    // One that nothing closes.
    for sequence in [10, 11, 12] {
        follower.message(&live(sequence), world.start).unwrap();
        follower.replay_broken(Disconnect::Closed, world.start);
        follower.tick(follower.deadline()).unwrap();
    }
    assert_eq!(tells(), ["gap true", "Replaying", "Lost"]);
    follower.disconnected(Disconnect::Closed, world.start);
    assert_eq!(tells(), ["Disconnected"]);
}
