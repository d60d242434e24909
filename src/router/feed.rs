//! Engine feeds of a router: events read by the same model, block size and hash as requests.

use std::sync::Arc;

use kv_index::engine::{EngineFeed, EngineFeedConfig};
use kv_index::{Index, Pod, PodRetired};

use super::Router;

impl<const W: usize> Router<W> {
    /// A pod's end of its engine's event stream, which reads events by the same model, block size and hash as requests.
    ///
    /// # Errors
    ///
    /// When the pod left, or the router cannot be fed by an engine: prompts are hashed by the host, or guessed by their text.
    pub fn feed(&self, pod: Pod) -> Result<EngineFeed<Arc<Index<W>>>, FeedError> {
        let feed = EngineFeed::new(Arc::clone(self.index()), pod, self.feed_config(pod)?)?;
        if !feed.is_resumed() {
            // A follower that was dropped while its engine was away left it out of sight.
            self.index().resume(pod);
        }
        Ok(feed)
    }

    /// The configuration of [`Self::feed`], for followers that make their own feed.
    ///
    /// # Errors
    ///
    /// As [`Self::feed`].
    pub fn feed_config(&self, pod: Pod) -> Result<EngineFeedConfig, FeedError> {
        if self.live().is_predicted {
            return Err(FeedError::Predicted);
        }
        if self.fleet().handle(pod.id()) != Some(pod) {
            return Err(PodRetired(pod).into());
        }
        let mut config = self.0.model.feed_config().ok_or(FeedError::GivenHashes)?;
        config.observer = Some(self.0.audit.change_log(pod));
        Ok(config)
    }
}

/// Why a router cannot be fed by an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The pod left.
    #[error(transparent)]
    PodRetired(#[from] PodRetired),
    /// The profile guesses what pods hold by the text of prompts, and events would contradict it.
    #[error(
        "the profile guesses what pods hold, by the text of prompts: give the router a tokenizer (or `tokens_given`) to use \
         events"
    )]
    Predicted,
    /// The host makes the hashes: it feeds the index by itself.
    #[error("hashes are given by the host: feed the index by `kv_index::Feed`, with hashes of the same kind")]
    GivenHashes,
}
