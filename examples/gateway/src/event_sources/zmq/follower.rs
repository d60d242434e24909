//! Gap detection and replay: the state machine between live messages, replies of a replay, and silence.
//!
//! Live messages go to the feed also while a replay runs. From the first one that leaves a gap they wait for its end.
//! The rules: there is one replay at a time, and what waits is bounded.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use kv_index::engine::{EngineFeed, ReceiveError, Replayed};
use kv_index::{BatchOutcome, Index, PodRetired};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use super::Subscriber;
use super::replay::{Cause, Replay};
use super::subscription::{SocketUpdate, Subscription};
use crate::config::ZmqEndpoints;
use pointsman_reporter::source_status::SourceState;

/// The subscriber of one pod's events.
pub(super) struct Follower<'t> {
    config: Subscriber,
    tasks: &'t TaskTracker,
    feed: EngineFeed<Arc<Index>>,
    /// Whether the feed has been given a batch.
    fed: bool,
    subscription: Subscription,
    connected: bool,
    replay: Option<Replay>,
    /// Live messages that wait for the end of the replay, oldest first.
    waiting: VecDeque<Vec<Bytes>>,
    /// Replays in a row that failed while the engine published.
    failures: u32,
    /// When to request a replay again after one failed.
    retry: Option<Instant>,
    /// When to check for missed batches.
    idle: Instant,
    /// The last replay brought news, and nothing has been heard live since.
    overtaken: bool,
}

impl<'t> Follower<'t> {
    /// Begins from nothing, and what the pod held before is forgotten; or from a snapshot, which counts once the engine is
    /// known to be the one it was.
    pub(super) fn new(config: Subscriber, tasks: &'t TaskTracker) -> Result<Self, PodRetired> {
        let feed = EngineFeed::new(config.index.clone(), config.pod, config.feed.clone())?;
        if !feed.is_resumed() {
            config.index.resume(config.pod);
        }
        let subscription = Subscription::open(tasks, &config.endpoints.events, &config.endpoints.topic, config.timing);
        let idle = Instant::now() + config.timing.idle;
        Ok(Self {
            config,
            tasks,
            fed: feed.is_resumed(),
            feed,
            subscription,
            connected: false,
            replay: None,
            waiting: VecDeque::new(),
            failures: 0,
            retry: None,
            idle,
            overtaken: false,
        })
    }

    /// Handles the next event.
    pub(super) async fn next(&mut self) -> Result<(), PodRetired> {
        tokio::select! {
            heard = self.subscription.next() => match heard {
                SocketUpdate::Connected => self.connected(),
                SocketUpdate::Message(frames) => self.live(frames)?,
                SocketUpdate::Disconnected => self.disconnected(),
            },
            reply = next_reply(&mut self.replay) => match reply {
                Some(frames) => self.reply(&frames)?,
                None => self.replay_broken(),
            },
            () = sleep_until(self.retry.unwrap_or(self.idle)) => self.on_timer()?,
        }
        Ok(())
    }

    fn connected(&mut self) {
        self.connected = true;
        self.config.status.set(SourceState::Live);
        self.request_missing(Cause::Missing);
    }

    fn disconnected(&mut self) {
        // Whoever is there next may be another engine: until that is known, nothing is expected of the pod.
        self.config.index.suspend(self.config.pod);
        self.reconnecting();
    }

    fn reconnecting(&mut self) {
        self.connected = false;
        self.replay = None;
        self.retry = None;
        // An engine that was going away says nothing about one that stays and does not answer.
        self.failures = 0;
        self.waiting.clear();
        self.config.status.set(SourceState::Connecting);
    }

    fn live(&mut self, frames: Vec<Bytes>) -> Result<(), PodRetired> {
        self.overtaken = false;
        self.idle = Instant::now() + self.config.timing.idle;
        if let Some(replay) = &mut self.replay {
            replay.live = true;
            if !self.waiting.is_empty() {
                self.wait(frames);
                return Ok(());
            }
        }
        let received = match self.feed.receive(&frames) {
            Ok(received) => received,
            Err(error) => return self.count_error(error),
        };
        self.fed = true;
        self.config.status.count(received.outcome);
        if self.replay.is_none() && received.replay_from.is_none() {
            self.trust(received.outcome);
        }
        if let Some(start) = received.replay_from {
            // Also where a replay is under way: then the engine has restarted since.
            self.request_replay(start, Cause::Missing);
        }
        if self.replay.is_some() && matches!(received.outcome, BatchOutcome::Gap { .. }) {
            self.wait(frames);
        }
        Ok(())
    }

    /// Lets searches find the pod again once a batch shows that its engine is the one that was known, or a new one whose
    /// predecessor's blocks are forgotten.
    fn trust(&self, outcome: BatchOutcome) {
        use BatchOutcome::{Applied, Duplicate, GapSkipped, Restarted};
        if matches!(outcome, Applied(_) | Duplicate | GapSkipped(_) | Restarted(_)) {
            self.config.index.resume(self.config.pod);
        }
    }

    /// Keeps a message for after the replay. One that finds no room is found missing later, and replayed.
    fn wait(&mut self, frames: Vec<Bytes>) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(frames);
        }
    }

    fn reply(&mut self, frames: &[Bytes]) -> Result<(), PodRetired> {
        let Some(replay) = &mut self.replay else { return Ok(()) };
        let cause = replay.cause;
        if frames.last().is_some_and(|payload| !payload.is_empty()) {
            replay.batches += 1;
        } else if let Some(start) = self.drain_waiting()? {
            self.request_replay(start, Cause::Missing);
            return Ok(());
        }
        match self.feed.receive_replay(frames) {
            Ok(Replayed::Batch(received)) => {
                self.fed = true;
                self.config.status.count(received.outcome);
                self.overtaken |= cause == Cause::Silence && received.outcome != BatchOutcome::Duplicate;
            }
            Ok(Replayed::End { replay_from: ask }) => self.end(ask)?,
            Ok(_) => {}
            Err(error) => {
                let broken = matches!(error, ReceiveError::Frames(_));
                self.count_error(error)?;
                if broken {
                    self.replay_broken();
                }
            }
        }
        Ok(())
    }

    /// Feeds the waiting messages, before the replay's end: the feed would request again what has come already.
    /// Returns where to replay from, if the engine is found to have restarted.
    fn drain_waiting(&mut self) -> Result<Option<u64>, PodRetired> {
        for frames in std::mem::take(&mut self.waiting) {
            match self.feed.receive(&frames) {
                Ok(received) => {
                    self.config.status.count(received.outcome);
                    if received.replay_from.is_some() {
                        return Ok(received.replay_from);
                    }
                    if matches!(received.outcome, BatchOutcome::Gap { .. }) {
                        // It leaves a gap, so all after it do. The feed requests a replay at the end.
                        break;
                    }
                }
                Err(error) => self.count_error(error)?,
            }
        }
        Ok(None)
    }

    fn end(&mut self, ask: Option<u64>) -> Result<(), PodRetired> {
        let Some(replay) = self.replay.take() else { return Ok(()) };
        self.failures = 0;
        self.idle = Instant::now() + self.config.timing.idle;
        self.config.status.set(SourceState::Live);
        if replay.batches == 0 && !replay.live && self.fed {
            // Not even the last batch that we have: another engine is there, and what this one knew is past.
            self.feed = EngineFeed::new(self.config.index.clone(), self.config.pod, self.config.feed.clone())?;
            self.config.index.resume(self.config.pod);
            self.fed = false;
            self.request_missing(Cause::Missing);
        } else if let Some(start) = ask {
            self.request_replay(start, Cause::Missing);
        } else {
            self.config.index.resume(self.config.pod);
        }
        Ok(())
    }

    /// The engine did not reply, or not to the end.
    fn replay_broken(&mut self) {
        let Some(replay) = self.replay.take() else { return };
        self.waiting.clear();
        self.retry = Some(Instant::now() + self.config.timing.retry_max);
        self.config.status.set(SourceState::Replaying);
        if replay.live {
            self.failures += 1;
        }
        if self.failures >= MAX_FAILURES {
            self.failures = 0;
            self.feed.replay_failed();
            self.config.status.set(SourceState::Lost);
        }
    }

    fn on_timer(&mut self) -> Result<(), PodRetired> {
        if self.config.index.name(self.config.pod).is_none() {
            return Err(PodRetired(self.config.pod));
        }
        self.idle = Instant::now() + self.config.timing.idle;
        if !self.connected || self.replay.is_some() {
            self.retry = None;
            return Ok(());
        }
        if std::mem::take(&mut self.overtaken) {
            // The engine publishes and nothing arrives: the connection is dead, whatever TCP says.
            self.resubscribe();
            return Ok(());
        }
        self.request_missing(Cause::Silence);
        Ok(())
    }

    /// Connects anew to an engine that is known to be there: it has just been asked.
    fn resubscribe(&mut self) {
        self.reconnecting();
        let ZmqEndpoints { events, topic, .. } = &self.config.endpoints;
        self.subscription = Subscription::open(self.tasks, events, topic, self.config.timing);
    }

    fn request_missing(&mut self, cause: Cause) {
        if self.config.endpoints.replay.is_some() {
            let start = self.feed.connected();
            self.request_replay(start, cause);
        }
    }

    /// Requests everything from `start` on. A replay under way is dropped.
    fn request_replay(&mut self, start: u64, cause: Cause) {
        let Some(endpoint) = &self.config.endpoints.replay else { return };
        self.config.status.replay();
        if cause == Cause::Missing {
            self.config.status.set(SourceState::Replaying);
        }
        self.retry = None;
        self.waiting.clear();
        self.replay = Some(Replay::request(self.tasks, endpoint, start, self.config.timing, cause));
    }

    /// Counts a message that could not be read; only a retired pod ends the subscriber.
    fn count_error(&mut self, error: ReceiveError) -> Result<(), PodRetired> {
        self.config.status.error();
        match error {
            ReceiveError::PodRetired(gone) => Err(gone),
            _ => Ok(()),
        }
    }
}

/// The next reply of a replay, none where it breaks off. Never where none runs.
async fn next_reply(replay: &mut Option<Replay>) -> Option<Vec<Bytes>> {
    match replay {
        Some(replay) => replay.next().await,
        None => std::future::pending().await,
    }
}

/// Live messages that may wait for a replay: some seconds of a busy engine.
const MAX_WAITING: usize = 4096;

/// Failed replays, while the engine publishes, after which the gap is given up.
const MAX_FAILURES: u32 = 3;
