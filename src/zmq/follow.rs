//! Following an engine's events into a router, as a tokio task.

use kv_index::Pod;
use kv_index::engine::FollowerConfig;
use tokio::task::JoinHandle;

use super::{Endpoint, EndpointError, Subscriber, SubscriberConfig, SubscriberStatus};
use crate::router::{FeedError, Router};

/// The task that follows one engine. Dropping it ends the task, and the pod holds what it held.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct Following {
    task: JoinHandle<()>,
    status: SubscriberStatus,
}

impl Following {
    /// State and counters.
    #[must_use]
    pub fn status(&self) -> &SubscriberStatus {
        &self.status
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why an engine is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The address is none.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The router cannot be fed by it.
    #[error(transparent)]
    Feed(#[from] FeedError),
}

impl<const W: usize> Router<W> {
    /// Follows an engine's events from its PUB socket, and replays what is missing from its ROUTER socket if there is one, by a
    /// task of the current tokio runtime: `tcp://host:port` each.
    ///
    /// # Errors
    ///
    /// When an address is none, the pod left, or the router cannot be fed by engines.
    pub fn follow(&self, pod: Pod, events: &str, replay: Option<&str>) -> Result<Following, FollowError> {
        let mut config = SubscriberConfig::new(events.parse()?, FollowerConfig::new(self.feed_config(pod)?));
        config.replay = replay.map(str::parse::<Endpoint>).transpose()?;
        self.follow_with(pod, config)
    }

    /// The same by a configuration of one's own, made of [`Router::feed_config`].
    ///
    /// # Errors
    ///
    /// When the pod left.
    pub fn follow_with(&self, pod: Pod, config: SubscriberConfig) -> Result<Following, FollowError> {
        let subscriber = Subscriber::new(std::sync::Arc::clone(self.index()), pod, config).map_err(FeedError::from)?;
        let status = subscriber.status();
        let task = tokio::spawn(async move {
            // Its pod left.
            let _ = subscriber.run().await;
        });
        Ok(Following { task, status })
    }
}
