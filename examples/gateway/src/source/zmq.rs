//! One engine's events by ZeroMQ, followed for as long as the pod is there.
//!
//! The subscription is made first and the replay asked for afterwards, so that nothing falls between the two. Where nothing
//! is heard for a while the engine is asked whether something was missed: a batch that is lost shows otherwise only when
//! the next one comes.
//!
//! The rule that must never break: what is known of a pod is given up only where it is known to be wrong, or where the engine
//! publishes and yet does not replay. A partition costs nothing.
//!
//! A frame may be as large as the engine likes: the `zeromq` crate has no limit, and makes room for a frame when it has read
//! its length. So whoever answers at an engine's address can have this process ask for more memory than there is, which
//! ends it. Nothing here is encrypted or authenticated either. Follow engines that you trust, over a network that you do.

mod follower;
mod replay;
mod subscription;

use std::sync::Arc;
use std::time::Duration;

use kv_index::engine::EngineFeedConfig;
use kv_index::{Index, Pod, PodRetired};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::follower::Follower;
use pointsman_reporter::source_status::{SourceState, SourceStatus};

/// Where an engine publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a subscriber has to know: complete by nature")]
pub struct Endpoints {
    /// Of its PUB socket, such as `tcp://10.0.0.5:5557`.
    pub events: String,
    /// Of its ROUTER socket for replays, if it has one. Without one every gap costs what is known of the pod.
    pub replay: Option<String>,
    /// What it calls its stream; empty takes everything.
    pub topic: String,
}

/// When to ask, and how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests set all of it")]
pub struct Pace {
    /// After so long without a message the engine is asked whether something was missed.
    pub idle: Duration,
    /// How long an engine may take to the next reply.
    pub answer: Duration,
    /// How long all replies to one ask may take.
    pub whole: Duration,
    /// How soon something that failed is tried again; twice as long each time that it fails again.
    pub retry: Duration,
    /// The longest pause before that.
    pub retry_most: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        Self { idle: s(2), answer: s(2), whole: s(60), retry: ms(100), retry_most: s(2) }
    }
}

/// Follows an engine's events until stopped, or until the pod is retired. Nothing is left when it returns.
pub async fn follow(
    index: Arc<Index>,
    pod: Pod,
    feed: EngineFeedConfig,
    endpoints: Endpoints,
    status: Arc<SourceStatus>,
    stop: CancellationToken,
) {
    Follow { index, pod, feed, endpoints, status, pace: Pace::default() }.run(stop).await;
}

/// What to follow, and how.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the arguments of `run`")]
pub struct Follow {
    /// Where the events go.
    pub index: Arc<Index>,
    /// Whose they are.
    pub pod: Pod,
    /// How they are read. Whether there is a replay is told by the endpoints.
    pub feed: EngineFeedConfig,
    /// Where they come from.
    pub endpoints: Endpoints,
    /// Who is told how it goes.
    pub status: Arc<SourceStatus>,
    /// When to ask, and how long to wait.
    pub pace: Pace,
}

impl Follow {
    /// As [`follow`].
    pub async fn run(mut self, stop: CancellationToken) {
        self.feed.replay = self.endpoints.replay.is_some();
        let tasks = TaskTracker::new();
        let status = self.status.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            _ = self.until_gone(&tasks) => {}
        }
        status.set(SourceState::Connecting);
        tasks.close();
        tasks.wait().await;
    }

    async fn until_gone(self, tasks: &TaskTracker) -> Result<(), PodRetired> {
        let mut follower = Follower::new(self, tasks)?;
        loop {
            follower.next().await?;
        }
    }
}
