//! Event follower, sans-IO: the state machine that keeps one pod in step with its engine's publisher.
//!
//! A publisher has a PUB socket, which loses messages, and mostly a ROUTER socket that replays the last ones. A [`Follower`] is
//! told what happens on both and what time it is, and says what to do: subscribe, request a replay, drop it. No socket, clock
//! or task is here.
//!
//! - The subscription is made first and the replay requested afterwards, so that nothing falls between the two. After an idle
//!   time a replay is requested too: a lost batch shows otherwise only when the next one comes.
//! - Live messages are applied also while a replay runs. From the first one that leaves a gap they wait for its end, within bounds of
//!   count and bytes.
//! - There is one replay at a time. One that brings news while nothing comes live shows that the connection is dead, whatever TCP
//!   says: the subscription is made anew.
//! - While the subscription is down, the replay socket is asked every idle time: an engine whose PUB socket cannot be
//!   reached is followed late, not lost. The state stays [`FollowerState::Connecting`] meanwhile.
//!
//! The rule: a pod's blocks are forgotten only where they are known to be wrong, or where the engine publishes and yet does not
//! replay. A partition costs nothing. A pod whose engine may be another is [suspended](crate::Index::suspend) until a replay or
//! a batch shows which it is.

mod action;
mod config;
mod replay;
mod status;
#[cfg(test)]
mod tests;
mod waiting;

use std::ops::Deref;
use std::time::{Duration, Instant};

use crate::blocks::OutOfStep;
use crate::feeds::BatchOutcome;
use crate::index::Index;
use crate::pods::{Pod, PodRetired};

use super::feed::{EngineFeed, ReceiveError};
use super::frames::Message;

use self::replay::{Cause, Replay};
use self::waiting::Waiting;

pub use self::action::{Disconnect, FollowerAction};
pub use self::config::FollowerConfig;
pub use self::status::{FollowerState, FollowerStatus};

/// Follows one engine's publisher on behalf of a pod.
///
/// After every call, do what [`next_action`](Self::next_action) says until it says nothing, and call [`tick`](Self::tick) when the
/// [`deadline`](Self::deadline) has come. `pointsman::zmq` does so over ZeroMQ sockets.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use kv_index::engine::{EngineFeedConfig, Follower, FollowerAction, FollowerConfig, FollowerState, ReplayForm, ReplayReply};
/// use kv_index::{BlockSize, ChainSeed, Config, Index};
///
/// let index: Index = Index::new(Config::default());
/// let pod = index.join("pod-a")?;
/// let feed = EngineFeedConfig::tokens(ChainSeed::new("llama-8b"), BlockSize::new(16).unwrap());
/// let now = Instant::now();
/// let mut follower = Follower::new(&index, pod, FollowerConfig::new(feed), now)?;
/// assert_eq!(follower.next_action(), Some(FollowerAction::Subscribe));
///
/// // The owner of the sockets has connected: what was published before is asked for.
/// follower.connected(now);
/// assert_eq!(follower.next_action(), Some(FollowerAction::Replay { from: 0 }));
/// follower.reply(&ReplayReply::End.to_frames(ReplayForm::WithTopic), now)?;
/// assert_eq!(follower.next_action(), Some(FollowerAction::DropReplay));
/// assert_eq!(follower.status().state, FollowerState::Live);
///
/// // Nothing comes for a while: was something lost?
/// assert_eq!(follower.deadline(), now + Duration::from_secs(2));
/// follower.tick(follower.deadline())?;
/// assert_eq!(follower.next_action(), Some(FollowerAction::Replay { from: 0 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Follower<I> {
    index: I,
    pod: Pod,
    config: FollowerConfig,
    feed: EngineFeed<I>,
    /// Whether the feed has been given a batch.
    fed: bool,
    /// Since when there is a subscription.
    connected: Option<Instant>,
    /// When to subscribe again.
    resubscribe: Option<Instant>,
    /// The pause before the next subscription.
    pause: Duration,
    replay: Option<Replay>,
    /// Live messages that wait for the end of the replay.
    waiting: Waiting,
    /// Whether a live message arrived since the last replay that failed, or since the silence that the next one checks.
    heard: bool,
    /// Replays in a row that failed while the engine published.
    failures: u32,
    /// When to request a replay again after one failed.
    retry: Option<Instant>,
    /// When to check for missed batches.
    idle: Instant,
    /// The last replay brought news, and nothing has been heard live since.
    overtaken: bool,
    status: FollowerStatus,
    /// What is to be done. A later request stands for an earlier one, so no queue is needed.
    subscribe: bool,
    replay_action: Option<FollowerAction>,
}

impl<I, const WORDS: usize> Follower<I>
where
    I: Deref<Target = Index<WORDS>> + Clone,
{
    /// Begins from nothing, and what the pod held before is forgotten; or from a snapshot, which is out of sight until the engine
    /// is known to be the one it was.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    pub fn new(index: I, pod: Pod, config: FollowerConfig, now: Instant) -> Result<Self, PodRetired> {
        index.suspend(pod);
        let feed = EngineFeed::new(index.clone(), pod, config.feed.clone())?;
        if !feed.is_resumed() {
            index.resume(pod);
        }
        config.feed.observer.iter().for_each(|observer| observer.out_of_step(Some(OutOfStep::Disconnected)));
        Ok(Self {
            index,
            pod,
            fed: feed.is_resumed(),
            feed,
            connected: None,
            resubscribe: None,
            pause: config.retry_initial,
            replay: None,
            waiting: Waiting::new(config.max_waiting_messages, config.max_waiting_bytes),
            heard: false,
            failures: 0,
            retry: None,
            idle: after(now, config.idle),
            overtaken: false,
            status: FollowerStatus::default(),
            subscribe: true,
            replay_action: None,
            config,
        })
    }

    /// The subscription is made: messages published from now on arrive.
    pub fn connected(&mut self, now: Instant) {
        self.connected = Some(now);
        self.resubscribe = None;
        self.status.connections += 1;
        self.set(FollowerState::Live);
        self.request_missing(Cause::Missing, now);
    }

    /// The subscription ended, or could not be made. It is asked for again after a pause.
    ///
    /// The pause doubles with every connection that brought nothing, so that a peer which accepts and breaks off is not
    /// called without end.
    pub fn disconnected(&mut self, why: Disconnect, now: Instant) {
        self.count_violation(why);
        if let Some(since) = self.connected {
            // Whoever is there next may be another engine: until that is known, nothing is expected of the pod.
            self.index.suspend(self.pod);
            self.reconnecting(now);
            if now.saturating_duration_since(since) >= self.config.retry_max {
                self.pause = self.config.retry_initial;
            }
        }
        self.resubscribe = Some(after(now, self.pause));
        self.pause = self.pause.saturating_mul(2).min(self.config.retry_max);
    }

    /// A message came live.
    ///
    /// # Errors
    ///
    /// When the pod is retired: there is nobody to follow any more. Messages that cannot be read are counted.
    pub fn message<F: AsRef<[u8]>>(&mut self, frames: &[F], now: Instant) -> Result<(), PodRetired> {
        (self.overtaken, self.heard) = (false, true);
        self.idle = after(now, self.config.idle);
        let message = match Message::parse(frames) {
            Ok(message) => message,
            Err(error) => return self.count_error(error.into()),
        };
        if let Some(replay) = &mut self.replay {
            replay.live = true;
            if !self.waiting.is_empty() {
                self.waiting.push(message.sequence, message.payload);
                return Ok(());
            }
        }
        let received = match self.feed.receive(frames) {
            Ok(received) => received,
            Err(error) => return self.count_error(error),
        };
        self.fed = true;
        self.pause = self.config.retry_initial;
        self.status.count(received.outcome, now);
        if self.replay.is_none() && received.replay_from.is_none() {
            self.trust(received.outcome);
        }
        if let Some(start) = received.replay_from {
            // Also where a replay is under way: then the engine has restarted since.
            self.request_replay(start, Cause::Missing, now);
        }
        if self.replay.is_some() && matches!(received.outcome, BatchOutcome::Gap { .. }) {
            self.waiting.push(message.sequence, message.payload);
        }
        Ok(())
    }

    /// The deadline has come, or any other time: calling it too often does no harm.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    pub fn tick(&mut self, now: Instant) -> Result<(), PodRetired> {
        if self.index.name(self.pod).is_none() {
            return Err(PodRetired(self.pod));
        }
        if self.resubscribe.is_some_and(|at| at <= now) {
            self.resubscribe = None;
            self.subscribe = true;
        }
        if self.replay.as_ref().is_some_and(|replay| replay.deadline() <= now) {
            self.replay_broken(Disconnect::Closed, now);
        }
        if self.retry.unwrap_or(self.idle) <= now {
            self.check(now);
        }
        Ok(())
    }

    /// What to do next, if anything.
    pub fn next_action(&mut self) -> Option<FollowerAction> {
        if std::mem::take(&mut self.subscribe) {
            return Some(FollowerAction::Subscribe);
        }
        self.replay_action.take()
    }

    /// When to call [`tick`](Self::tick) at the latest.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        let check = self.retry.unwrap_or(self.idle);
        let replay = self.replay.as_ref().map(Replay::deadline);
        [replay, self.resubscribe].into_iter().flatten().fold(check, Instant::min)
    }

    /// State and counters.
    #[must_use]
    pub fn status(&self) -> FollowerStatus {
        FollowerStatus { dropped: self.status.dropped + self.dropped(), ..self.status }
    }

    /// The feed, with what it dropped and verified. Another one once an engine that was silent is known to be new.
    #[must_use]
    pub fn feed(&self) -> &EngineFeed<I> {
        &self.feed
    }

    /// Live messages that wait for the end of a replay, and the bytes of their payloads.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.waiting.size()
    }

    /// Events that the feed dropped.
    fn dropped(&self) -> u64 {
        self.feed.drop_counts().iter().map(|(_, dropped)| dropped.events).sum()
    }

    /// Checks for missed batches.
    fn check(&mut self, now: Instant) {
        self.idle = after(now, self.config.idle);
        if self.replay.is_some() {
            return;
        }
        // What came before a silence does not show that the engine publishes; what comes between two tries does.
        self.heard &= self.retry.is_some();
        if std::mem::take(&mut self.overtaken) && self.connected.is_some() {
            // The engine publishes and nothing arrives: the connection is dead. It is known to be there: it has just been asked.
            self.reconnecting(now);
            self.subscribe = true;
            return;
        }
        self.request_missing(Cause::Silence, now);
    }

    fn reconnecting(&mut self, now: Instant) {
        self.set(FollowerState::Connecting);
        self.connected = None;
        self.idle = after(now, self.config.idle);
        self.retry = None;
        self.drop_replay();
        // An engine that was going away says nothing about one that stays and does not answer.
        (self.heard, self.failures) = (false, 0);
        self.waiting.clear();
    }

    /// Lets searches find the pod again once a batch shows that its engine is the one that was known, or a new one whose
    /// predecessor's blocks are forgotten.
    fn trust(&self, outcome: BatchOutcome) {
        use BatchOutcome::{Applied, Duplicate, GapSkipped, Restarted};
        if matches!(outcome, Applied(_) | Duplicate | GapSkipped(_) | Restarted(_)) {
            self.index.resume(self.pod);
        }
    }

    /// Without a subscription nothing else is true but that there is none.
    fn set(&mut self, state: FollowerState) {
        if self.connected.is_none() || self.status.state == state {
            return;
        }
        self.status.state = state;
        let how = match state {
            FollowerState::Live => None,
            FollowerState::Connecting => Some(OutOfStep::Disconnected),
            FollowerState::Replaying => Some(OutOfStep::Replaying),
            FollowerState::Lost => Some(OutOfStep::Lost),
        };
        self.config.feed.observer.iter().for_each(|observer| observer.out_of_step(how));
    }

    fn count_violation(&mut self, why: Disconnect) {
        self.status.errors += u64::from(why == Disconnect::Violation);
    }

    /// Counts a message that could not be read; only a retired pod ends the following.
    fn count_error(&mut self, error: ReceiveError) -> Result<(), PodRetired> {
        self.status.errors += 1;
        match error {
            ReceiveError::PodRetired(gone) => Err(gone),
            _ => Ok(()),
        }
    }
}

/// So long after a moment. Durations are the host's: one beyond the range of `Instant` is as good as never.
fn after(moment: Instant, duration: Duration) -> Instant {
    moment.checked_add(duration.min(NEVER)).unwrap_or(moment)
}

/// Longer than a process lives, within the range of `Instant`.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
