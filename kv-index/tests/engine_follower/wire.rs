//! Wire model: an engine's two sockets as queues, their faults as steps, and a follower at the other end.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kv_index::engine::{
    Disconnect, Follower, FollowerAction, FollowerConfig, FollowerStatus, ReplayForm, replay_request,
};
use kv_index::{Config, Index, Pod};

use super::support::engine::Engine;
use super::support::publisher::Frames;
use super::support::truth::Way;

/// What happens next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The engine works and publishes so many batches.
    Publish(usize),
    /// So many live messages arrive.
    Hear(usize),
    /// So many replies arrive.
    Reply(usize),
    /// So many milliseconds pass.
    Wait(u64),
    /// So many live messages on their way are lost.
    Lose(usize),
    /// The first one on its way comes twice.
    Double,
    /// The first two on their way change places.
    Swap,
    /// The first one on its way is damaged.
    Garble,
    /// The first reply on its way is damaged: its frames, so that it is no reply any more.
    GarbleReply,
    /// The engine dies and another comes up at the same sockets.
    Restart,
    /// The same behind a proxy that keeps the connections; what the dead engine had sent is dropped.
    RestartUnseen,
    CutSubscription,
    /// In the middle of it, or before it begins.
    CutReplay,
    RefuseSubscriptions(bool),
    RefuseReplays(bool),
    /// Replay requests are taken and not answered.
    AnswerNothing(bool),
}

pub(crate) struct Wire {
    engine: Engine,
    way: Way,
    index: &'static Index,
    pod: Pod,
    follower: Follower<&'static Index>,
    now: Instant,
    /// Live messages on their way; none where there is no subscription.
    live: Option<VecDeque<(u64, Frames)>>,
    /// Replies on their way; none where there is no replay.
    replies: Option<VecDeque<Frames>>,
    refuses_subscriptions: bool,
    refuses_replays: bool,
    answers_nothing: bool,
    replay_failed: bool,
    began_late: bool,
    /// Incarnation and sequence of the last batch that was applied.
    applied: Option<(u64, u64)>,
    incarnation: u64,
    ambiguous: bool,
}

/// Few enough that tests come to them.
const MAX_WAITING: (usize, usize) = (6, 300);

impl Wire {
    pub(crate) fn new(seed: u64, way: Way, keeps: usize) -> Self {
        Self::with(seed, way, keeps, true)
    }

    pub(crate) fn without_replay(seed: u64, way: Way) -> Self {
        Self::with(seed, way, 1, false)
    }

    #[expect(clippy::disallowed_methods, reason = "any moment does to count from")]
    fn with(seed: u64, way: Way, keeps: usize, replay: bool) -> Self {
        let engine = Engine::new(seed, keeps, ReplayForm::WithTopic);
        // Leaked: a follower that borrows beside its index would need more words than it is worth.
        let index: &'static Index = Box::leak(Box::new(Index::new(Config::default())));
        let pod = index.join("a").expect("room");
        let mut config = FollowerConfig::new(way.config(&engine.pool));
        config.feed.replay = replay;
        (config.max_waiting_messages, config.max_waiting_bytes) = MAX_WAITING;
        let now = Instant::now();
        let follower = Follower::new(index, pod, config, now).expect("live");
        let mut wire = Self {
            engine,
            way,
            index,
            pod,
            follower,
            now,
            live: None,
            replies: None,
            refuses_subscriptions: false,
            refuses_replays: false,
            answers_nothing: false,
            replay_failed: false,
            began_late: false,
            applied: None,
            incarnation: 0,
            ambiguous: false,
        };
        wire.act();
        wire
    }

    pub(crate) fn step(&mut self, step: Step) {
        match step {
            Step::Publish(count) => (0..count).for_each(|_| {
                let frames = (self.incarnation, self.engine.publish());
                self.live.iter_mut().for_each(|live| live.push_back(frames.clone()));
            }),
            Step::Hear(count) => (0..count).for_each(|_| self.hear()),
            Step::Reply(count) => (0..count).for_each(|_| self.reply()),
            Step::Wait(ms) => self.wait(ms),
            Step::Lose(count) => self.live.iter_mut().for_each(|live| drop(live.drain(..count.min(live.len())))),
            Step::Double => self.live.iter_mut().for_each(|live| {
                live.front().cloned().into_iter().for_each(|first| live.push_front(first));
            }),
            Step::Swap => self.live.iter_mut().filter(|live| live.len() > 1).for_each(|live| live.swap(0, 1)),
            Step::Garble => {
                self.live.iter_mut().flat_map(|live| live.front_mut()).for_each(|first| first.1[2][0] = 0xc1)
            }
            Step::GarbleReply => {
                self.replies.iter_mut().flat_map(|replies| replies.front_mut()).for_each(|first| first.truncate(1));
            }
            Step::Restart => {
                self.restart();
                self.cut_subscription();
                self.cut_replay();
            }
            Step::RestartUnseen => {
                self.restart();
                self.live.iter_mut().for_each(VecDeque::clear);
                self.replies.iter_mut().for_each(VecDeque::clear);
            }
            Step::CutSubscription => self.cut_subscription(),
            Step::CutReplay => self.cut_replay(),
            Step::RefuseSubscriptions(refuses) => self.refuses_subscriptions = refuses,
            Step::RefuseReplays(refuses) => self.refuses_replays = refuses,
            Step::AnswerNothing(answers_nothing) => self.answers_nothing = answers_nothing,
        }
        self.act();
        let (messages, bytes) = self.follower.waiting();
        assert!(messages <= MAX_WAITING.0 && bytes <= MAX_WAITING.1, "{messages} messages, {bytes} bytes wait");
    }

    /// Faults end, and everything comes to rest.
    pub(crate) fn recover(&mut self) {
        self.refuses_subscriptions = false;
        self.refuses_replays = false;
        self.answers_nothing = false;
        self.settle();
    }

    /// Time passes and everything arrives, until there is nothing new to ask for.
    pub(crate) fn settle(&mut self) {
        for _ in 0..40 {
            while self.live.as_ref().is_some_and(|live| !live.is_empty())
                || self.replies.as_ref().is_some_and(|replies| !replies.is_empty())
            {
                self.step(Step::Hear(3));
                self.step(Step::Reply(4));
            }
            self.step(Step::Wait(700));
        }
        // A check for missed batches may have just been asked for.
        while self.replies.as_ref().is_some_and(|replies| !replies.is_empty()) {
            self.step(Step::Reply(1));
        }
    }

    /// The engine empties its cache and says so, which everybody hears.
    pub(crate) fn clear(&mut self) {
        self.engine.pool.requests().into_iter().for_each(|id| self.engine.pool.finish(id));
        self.engine.pool.reset();
        self.engine.time += 0.5;
        let payload = self.engine.pool.payload(self.engine.time).expect("a reset is announced");
        let frames = (self.incarnation, self.engine.publisher.publish(payload));
        self.live.iter_mut().for_each(|live| live.push_back(frames.clone()));
        self.act();
        self.settle();
    }

    pub(crate) fn agrees(&self, note: &str) {
        self.engine.compare(self.way, self.index, self.pod, note);
    }

    pub(crate) fn claims_nothing_false(&self) {
        for (found, held) in self.way.depths(self.index, self.pod, &self.engine.pool, &self.engine.traffic.prompts) {
            assert!(found <= held, "{found} blocks claimed, {held} held");
        }
    }

    pub(crate) fn is_found(&self) -> bool {
        self.index.alive().contains(self.pod.id())
    }

    pub(crate) fn status(&self) -> FollowerStatus {
        self.follower.status()
    }

    /// Whether something was given up, or is about to be.
    pub(crate) fn given_up(&self) -> bool {
        self.status().lost > 0 || self.replay_failed
    }

    /// Whether an engine's first batches may have been gone before they were asked for.
    pub(crate) fn began_late(&self) -> bool {
        self.began_late || self.incarnation > 0
    }

    /// Whether an engine went on, by chance, with the very number that the one before it would have used next, and its own batches
    /// before that one were not heard. If no replay shows them either, nobody can know.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }

    fn restart(&mut self) {
        self.engine.restart();
        self.incarnation += 1;
    }

    fn hear(&mut self) {
        if let Some((incarnation, frames)) = self.live.as_mut().and_then(VecDeque::pop_front) {
            let before = self.status().batches;
            self.follower.message(&frames, self.now).expect("live");
            self.ambiguous |= self.goes_on(before, incarnation, &frames[1]);
            self.act();
        }
    }

    fn reply(&mut self) {
        if let Some(frames) = self.replies.as_mut().and_then(VecDeque::pop_front) {
            let before = self.status().batches;
            self.follower.reply(&frames, self.now).expect("live");
            self.ambiguous |= frames.get(2).is_some_and(|number| self.goes_on(before, self.incarnation, number));
            self.act();
        }
    }

    /// Notes a batch that was applied. Returns whether it is another engine's than the last one, and numbered as if it were not.
    fn goes_on(&mut self, before: u64, incarnation: u64, number: &[u8]) -> bool {
        if self.status().batches == before {
            return false;
        }
        let sequence = u64::from_be_bytes(number.try_into().expect("eight bytes"));
        let last = self.applied.replace((incarnation, sequence));
        last.is_some_and(|last| last.0 != incarnation && last.1.checked_add(1) == Some(sequence))
    }

    /// In small pieces, as a timer that is never late.
    fn wait(&mut self, ms: u64) {
        let until = self.now + Duration::from_millis(ms);
        while self.follower.deadline() <= until {
            self.now = self.now.max(self.follower.deadline());
            self.follower.tick(self.now).expect("live");
            self.act();
        }
        self.now = until;
    }

    fn cut_subscription(&mut self) {
        if self.live.take().is_some() {
            self.follower.disconnected(Disconnect::Closed, self.now);
        }
    }

    fn cut_replay(&mut self) {
        if self.replies.take().is_some() {
            self.follower.replay_broken(Disconnect::Closed, self.now);
        }
    }

    /// Does what the follower asks for.
    fn act(&mut self) {
        self.replay_failed |= self.status().state == kv_index::engine::FollowerState::Lost;
        while let Some(action) = self.follower.next_action() {
            match action {
                FollowerAction::Subscribe if self.refuses_subscriptions => {
                    self.live = None;
                    self.follower.disconnected(Disconnect::Closed, self.now);
                }
                FollowerAction::Subscribe => {
                    self.live = Some(VecDeque::new());
                    self.follower.connected(self.now);
                }
                FollowerAction::Replay { .. } if self.refuses_replays => {
                    self.replies = None;
                    self.follower.replay_broken(Disconnect::Closed, self.now);
                }
                FollowerAction::Replay { from } => {
                    self.follower.replay_sent(self.now);
                    let replies = self.engine.publisher.replay(&replay_request(from));
                    let starts_at = |number: u64| replies[0][2] == number.to_be_bytes();
                    self.began_late |= from == 0 && !starts_at(0) && replies.len() > 1;
                    let replies = if self.answers_nothing { VecDeque::new() } else { replies.into() };
                    self.replies = Some(replies);
                }
                FollowerAction::DropReplay => self.replies = None,
            }
        }
    }
}
