//! Subscriber: one future that drives a [`Follower`] over a SUB and a DEALER socket.
//!
//! The rule: nothing is spawned, so that dropping the future ends everything it began.

use std::sync::{Arc, Mutex, PoisonError};

use kv_index::engine::{
    Disconnect, Follower, FollowerAction, FollowerConfig, FollowerState, FollowerStatus, replay_request,
};
use kv_index::{DEFAULT_POD_WORDS, Index, Pod, PodRetired};
use tokio::time::{Instant, sleep_until};

use super::connection::ConnectionConfig;
use super::endpoint::Endpoint;
use super::error::ZmqError;
use super::handshake::SocketType;
use super::link::{Link, LinkEvent};

/// How an engine is subscribed to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubscriberConfig {
    /// The engine's PUB socket.
    pub events: Endpoint,
    /// Its ROUTER socket for replays. Without one every gap costs what is known of the pod.
    pub replay: Option<Endpoint>,
    /// The topic, or its prefix; empty for all.
    pub topic: Box<str>,
    /// How events are decoded and recovered. Whether there are replays follows from the endpoint.
    pub follower: FollowerConfig,
    /// Timeouts and bounds of the connections.
    pub connection: ConnectionConfig,
}

impl SubscriberConfig {
    /// Every topic of a publisher, without replays.
    #[must_use]
    pub fn new(events: Endpoint, follower: FollowerConfig) -> Self {
        Self { events, replay: None, topic: "".into(), follower, connection: ConnectionConfig::default() }
    }
}

/// Keeps one pod of an index in step with its engine, over ZeroMQ.
///
/// See [the module](super) for an example.
pub struct Subscriber<const W: usize = DEFAULT_POD_WORDS> {
    config: SubscriberConfig,
    follower: Follower<Arc<Index<W>>>,
    status: SubscriberStatus,
    subscription: Link,
    replay: Link,
}

impl<const W: usize> Subscriber<W> {
    /// Prepares to follow; [`run`](Self::run) connects.
    ///
    /// What the pod held before is forgotten from here on; or, where a snapshot brought it, out of sight until the engine is known
    /// to be the one it was.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    pub fn new(index: Arc<Index<W>>, pod: Pod, mut config: SubscriberConfig) -> Result<Self, PodRetired> {
        config.follower.feed.replay = config.replay.is_some();
        let follower = Follower::new(index, pod, config.follower.clone(), Instant::now().into_std())?;
        let status = SubscriberStatus::default();
        Ok(Self { config, follower, status, subscription: Link::Closed, replay: Link::Closed })
    }

    /// Where state and counters can be read while it runs.
    #[must_use]
    pub fn status(&self) -> SubscriberStatus {
        self.status.clone()
    }

    /// Follows until the pod is retired. Drop the future to stop it: nothing is left behind.
    ///
    /// Needs a tokio runtime with I/O and time.
    pub async fn run(mut self) -> PodRetired {
        let _stopped = Stopped(self.status.clone());
        loop {
            if let Err(retired) = self.step().await {
                return retired;
            }
        }
    }

    /// Does what is to be done, and waits for the next event.
    async fn step(&mut self) -> Result<(), PodRetired> {
        while let Some(action) = self.follower.next_action() {
            self.act(action);
        }
        self.status.publish(self.follower.status());
        let deadline = self.follower.deadline();
        let (subscription, replay) = (&mut self.subscription, &mut self.replay);
        // Which of the two is looked at first is left to chance, so that a flood on one does not silence the other.
        let events = async {
            tokio::select! {
                event = subscription.next() => (SocketType::Sub, event),
                event = replay.next() => (SocketType::Dealer, event),
            }
        };
        // What has come counts before a deadline does: time that we took ourselves is not the engine's.
        let event = tokio::select! {
            biased;
            event = events => Some(event),
            () = sleep_until(deadline.into()) => None,
        };
        let now = Instant::now().into_std();
        match event {
            Some((SocketType::Sub, event)) => self.on_subscription(event, now)?,
            Some((_, event)) => self.on_replay(event, now)?,
            None => {}
        }
        if self.follower.deadline() <= now { self.follower.tick(now) } else { Ok(()) }
    }

    fn act(&mut self, action: FollowerAction) {
        let connection = self.config.connection;
        match (action, &self.config.replay) {
            (FollowerAction::Subscribe, _) => {
                // A subscription is a message of one frame, in ZMTP 3.0 and, for those who know 3.1, there too.
                let first = vec![[b"\x01", self.config.topic.as_bytes()].concat()];
                self.subscription = Link::open(&self.config.events, SocketType::Sub, first, connection);
            }
            (FollowerAction::Replay { from }, Some(endpoint)) => {
                self.replay = Link::open(endpoint, SocketType::Dealer, replay_request(from).into(), connection);
            }
            (FollowerAction::Replay { .. }, None) | (FollowerAction::DropReplay, _) => self.replay = Link::Closed,
        }
    }

    fn on_subscription(&mut self, event: LinkEvent, now: std::time::Instant) -> Result<(), PodRetired> {
        match event {
            LinkEvent::Opened => self.follower.connected(now),
            LinkEvent::Message(frames) => self.follower.message(&frames, now)?,
            LinkEvent::Ended(error) => {
                let why = self.ended(error);
                self.follower.disconnected(why, now);
            }
        }
        Ok(())
    }

    fn on_replay(&mut self, event: LinkEvent, now: std::time::Instant) -> Result<(), PodRetired> {
        match event {
            LinkEvent::Opened => self.follower.replay_sent(now),
            LinkEvent::Message(frames) => self.follower.reply(&frames, now)?,
            LinkEvent::Ended(error) => {
                let why = self.ended(error);
                self.follower.replay_broken(why, now);
            }
        }
        Ok(())
    }

    fn ended(&mut self, error: ZmqError) -> Disconnect {
        let why = if error.is_violation() { Disconnect::Violation } else { Disconnect::Closed };
        self.status.lock().1 = Some(error);
        why
    }
}

impl<const W: usize> std::fmt::Debug for Subscriber<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscriber").field("config", &self.config).field("status", &self.status).finish_non_exhaustive()
    }
}

/// State and counters of a [`Subscriber`], shared with it.
#[derive(Clone, Debug, Default)]
pub struct SubscriberStatus(Arc<Mutex<(FollowerStatus, Option<ZmqError>)>>);

impl SubscriberStatus {
    /// State and counters now. [`Connecting`](FollowerState::Connecting) before it runs and after it was stopped.
    #[must_use]
    pub fn get(&self) -> FollowerStatus {
        self.lock().0
    }

    /// Why a connection last ended or was not made.
    #[must_use]
    pub fn last_error(&self) -> Option<ZmqError> {
        self.lock().1.clone()
    }

    fn publish(&self, status: FollowerStatus) {
        self.lock().0 = status;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (FollowerStatus, Option<ZmqError>)> {
        // It is replaced whole, so one who panicked left nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that nobody follows any more, however it came to that.
struct Stopped(SubscriberStatus);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.lock().0.state = FollowerState::Connecting;
    }
}
