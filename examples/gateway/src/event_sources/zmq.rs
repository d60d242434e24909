//! ZeroMQ event source: subscribes to one engine's PUB socket and replays gaps from its ROUTER socket.
//!
//! The subscription is made first and the replay requested afterwards, so that nothing falls between the two. After an idle
//! time a replay is requested too: a lost batch shows otherwise only when the next one comes.
//!
//! The rule: a pod's blocks are forgotten only where they are known to be wrong, or where the engine publishes and yet does not
//! replay. A partition costs nothing.
//!
//! Security: frames have no size limit in the `zeromq` crate, which allocates by the announced length, so a peer at an engine's
//! address can exhaust this process's memory. Nothing is encrypted or authenticated. Subscribe only to trusted engines over a
//! trusted network.

mod follower;
mod replay;
mod subscription;

use std::sync::Arc;
use std::time::Duration;

use kv_index::engine::EngineFeedConfig;
use kv_index::{EventSemantics, Index, Pod, PodRetired};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::follower::Follower;
use crate::config::{Removals, ZmqEndpoints};
use pointsman_reporter::source_status::{SourceState, SourceStatus};

/// Timeouts and intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests set all of it")]
pub struct Timing {
    /// Time without a message after which a replay checks for missed batches.
    pub idle: Duration,
    /// Timeout of one reply of a replay.
    pub reply: Duration,
    /// Timeout of a whole replay.
    pub replay: Duration,
    /// First retry delay; doubled each time.
    pub retry_initial: Duration,
    /// Longest retry delay.
    pub retry_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        Self { idle: s(2), reply: s(2), replay: s(60), retry_initial: ms(100), retry_max: s(2) }
    }
}

/// A subscription to one engine.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the arguments of `run`")]
pub struct Subscriber {
    /// The index that is fed.
    pub index: Arc<Index>,
    /// The pod that the engine is.
    pub pod: Pod,
    /// How messages are decoded. Whether there is a replay, and what evictions count, follows from the endpoints.
    pub feed: EngineFeedConfig,
    /// The engine's sockets.
    pub endpoints: ZmqEndpoints,
    /// Where state and counters are published.
    pub status: Arc<SourceStatus>,
    /// Timeouts and intervals.
    pub timing: Timing,
}

impl Subscriber {
    /// Runs until stopped, or until the pod is retired. Nothing is left when it returns.
    ///
    /// What a snapshot brought is out of sight from the call on, until the engine is known to be the one it was.
    pub fn run(mut self, stop: CancellationToken) -> impl Future<Output = ()> + Send + 'static {
        self.index.suspend(self.pod);
        async move {
            self.feed.replay = self.endpoints.replay.is_some();
            self.feed.semantics = match self.endpoints.removals {
                Removals::LastCopy => EventSemantics::Membership,
                _ => EventSemantics::Copies,
            };
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
    }

    async fn until_gone(self, tasks: &TaskTracker) -> Result<(), PodRetired> {
        let mut follower = Follower::new(self, tasks)?;
        loop {
            follower.next().await?;
        }
    }
}
