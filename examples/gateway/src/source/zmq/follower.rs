//! What a follower does with what it hears, what is replayed to it, and what it does not hear.
//!
//! Live messages go to the feed also while a replay runs. From the first one that does not join on they wait for its end.
//! The rules that must never break: there is one ask at a time, and what waits is bounded.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use kv_index::engine::{EngineFeed, ReceiveError, Replayed};
use kv_index::{BatchOutcome, Index, PodRetired};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use super::replay::{Cause, Replay};
use super::subscription::{Heard, Subscription};
use super::{Endpoints, Follow};
use pointsman_reporter::source_status::SourceState;

/// A pod's events, being followed.
pub(super) struct Follower<'t> {
    what: Follow,
    tasks: &'t TaskTracker,
    feed: EngineFeed<Arc<Index>>,
    /// Whether the feed has been given a batch.
    fed: bool,
    subscription: Subscription,
    connected: bool,
    replay: Option<Replay>,
    /// Live messages that wait for the end of the replay, oldest first.
    waiting: VecDeque<Vec<Bytes>>,
    /// Asks in a row that came to nothing while the engine published.
    failures: u32,
    /// When to ask again after an ask came to nothing.
    retry: Option<Instant>,
    /// When to ask whether something was missed.
    idle: Instant,
    /// The last replay brought news, and nothing has been heard live since.
    overtaken: bool,
}

impl<'t> Follower<'t> {
    /// Begins from nothing: what the pod held before is forgotten.
    pub(super) fn new(what: Follow, tasks: &'t TaskTracker) -> Result<Self, PodRetired> {
        let feed = EngineFeed::new(what.index.clone(), what.pod, what.feed.clone())?;
        let subscription = Subscription::open(tasks, &what.endpoints.events, &what.endpoints.topic, what.pace);
        let idle = Instant::now() + what.pace.idle;
        Ok(Self {
            what,
            tasks,
            feed,
            fed: false,
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

    /// Does what is due next.
    pub(super) async fn next(&mut self) -> Result<(), PodRetired> {
        tokio::select! {
            heard = self.subscription.next() => match heard {
                Heard::Connected => self.connected(),
                Heard::Message(frames) => self.live(frames)?,
                Heard::Cut => self.cut(),
            },
            reply = next_reply(&mut self.replay) => match reply {
                Some(frames) => self.reply(&frames)?,
                None => self.broken_off(),
            },
            () = sleep_until(self.retry.unwrap_or(self.idle)) => self.due()?,
        }
        Ok(())
    }

    fn connected(&mut self) {
        self.connected = true;
        self.what.status.set(SourceState::Live);
        self.ask_what_is_missing(Cause::Missing);
    }

    fn cut(&mut self) {
        self.connected = false;
        self.replay = None;
        self.retry = None;
        // An engine that was going away says nothing about one that stays and does not answer.
        self.failures = 0;
        self.waiting.clear();
        self.what.status.set(SourceState::Connecting);
    }

    fn live(&mut self, frames: Vec<Bytes>) -> Result<(), PodRetired> {
        self.overtaken = false;
        self.idle = Instant::now() + self.what.pace.idle;
        if let Some(replay) = &mut self.replay {
            replay.live = true;
            if !self.waiting.is_empty() {
                self.wait(frames);
                return Ok(());
            }
        }
        let received = match self.feed.receive(&frames) {
            Ok(received) => received,
            Err(error) => return self.unread(error),
        };
        self.fed = true;
        self.what.status.count(received.outcome);
        if let Some(start) = received.replay_from {
            // Also where an ask is under way: then the engine has started anew since.
            self.ask(start, Cause::Missing);
        }
        if self.replay.is_some() && matches!(received.outcome, BatchOutcome::Gap { .. }) {
            self.wait(frames);
        }
        Ok(())
    }

    /// Keeps a message for after the replay. What finds no room is found missing later, and asked for.
    fn wait(&mut self, frames: Vec<Bytes>) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(frames);
        }
    }

    fn reply(&mut self, frames: &[Bytes]) -> Result<(), PodRetired> {
        let Some(replay) = &mut self.replay else { return Ok(()) };
        let cause = replay.cause;
        if frames.last().is_some_and(|payload| !payload.is_empty()) {
            replay.brought += 1;
        } else if let Some(start) = self.offer_what_waits()? {
            self.ask(start, Cause::Missing);
            return Ok(());
        }
        match self.feed.receive_replay(frames) {
            Ok(Replayed::Batch(received)) => {
                self.fed = true;
                self.what.status.count(received.outcome);
                self.overtaken |= cause == Cause::Silence && received.outcome != BatchOutcome::Duplicate;
            }
            Ok(Replayed::End { replay_from: ask }) => self.end(ask)?,
            Ok(_) => {}
            Err(error) => {
                let broken = matches!(error, ReceiveError::Frames(_));
                self.unread(error)?;
                if broken {
                    self.broken_off();
                }
            }
        }
        Ok(())
    }

    /// Offers what waits, before the feed is told of the replay's end: it would ask again for what has come already.
    /// Where to ask from, if the engine is found to have started anew.
    fn offer_what_waits(&mut self) -> Result<Option<u64>, PodRetired> {
        for frames in std::mem::take(&mut self.waiting) {
            match self.feed.receive(&frames) {
                Ok(received) => {
                    self.what.status.count(received.outcome);
                    if received.replay_from.is_some() {
                        return Ok(received.replay_from);
                    }
                    if matches!(received.outcome, BatchOutcome::Gap { .. }) {
                        // It does not join on, so nothing after it does. The feed asks when it is told of the end.
                        break;
                    }
                }
                Err(error) => self.unread(error)?,
            }
        }
        Ok(None)
    }

    fn end(&mut self, ask: Option<u64>) -> Result<(), PodRetired> {
        let Some(replay) = self.replay.take() else { return Ok(()) };
        self.failures = 0;
        self.idle = Instant::now() + self.what.pace.idle;
        self.what.status.set(SourceState::Live);
        if replay.brought == 0 && !replay.live && self.fed {
            // Not even the last batch that we have: another engine is there, and what this one knew is past.
            self.feed = EngineFeed::new(self.what.index.clone(), self.what.pod, self.what.feed.clone())?;
            self.fed = false;
            self.ask_what_is_missing(Cause::Missing);
        } else if let Some(start) = ask {
            self.ask(start, Cause::Missing);
        }
        Ok(())
    }

    /// The engine did not answer, or not to the end.
    fn broken_off(&mut self) {
        let Some(replay) = self.replay.take() else { return };
        self.waiting.clear();
        self.retry = Some(Instant::now() + self.what.pace.retry_most);
        self.what.status.set(SourceState::Replaying);
        if replay.live {
            self.failures += 1;
        }
        if self.failures >= MOST_FAILURES {
            self.failures = 0;
            self.feed.replay_failed();
            self.what.status.set(SourceState::Lost);
        }
    }

    fn due(&mut self) -> Result<(), PodRetired> {
        if self.what.index.name(self.what.pod).is_none() {
            return Err(PodRetired(self.what.pod));
        }
        self.idle = Instant::now() + self.what.pace.idle;
        if !self.connected || self.replay.is_some() {
            self.retry = None;
            return Ok(());
        }
        if std::mem::take(&mut self.overtaken) {
            // The engine publishes and we do not hear it: the connection is dead, whatever it looks like.
            self.resubscribe();
            return Ok(());
        }
        self.ask_what_is_missing(Cause::Silence);
        Ok(())
    }

    fn resubscribe(&mut self) {
        self.cut();
        let Endpoints { events, topic, .. } = &self.what.endpoints;
        self.subscription = Subscription::open(self.tasks, events, topic, self.what.pace);
    }

    fn ask_what_is_missing(&mut self, cause: Cause) {
        if self.what.endpoints.replay.is_some() {
            let start = self.feed.connected();
            self.ask(start, cause);
        }
    }

    /// Asks for everything from `start` on. An ask that was under way is given up.
    fn ask(&mut self, start: u64, cause: Cause) {
        let Some(endpoint) = &self.what.endpoints.replay else { return };
        self.what.status.replay();
        if cause == Cause::Missing {
            self.what.status.set(SourceState::Replaying);
        }
        self.retry = None;
        self.waiting.clear();
        self.replay = Some(Replay::ask(self.tasks, endpoint, start, self.what.pace, cause));
    }

    /// Counts what could not be read; only that the pod is gone ends anything.
    fn unread(&mut self, error: ReceiveError) -> Result<(), PodRetired> {
        self.what.status.error();
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
const MOST_WAITING: usize = 4096;

/// After so many asks without an answer, while the engine publishes, what is missing is given up.
const MOST_FAILURES: u32 = 3;
