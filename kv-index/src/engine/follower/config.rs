//! Timeouts, retry backoff and memory bounds of a follower.

use std::time::Duration;

use crate::engine::feed::EngineFeedConfig;

/// How an engine's publisher is followed.
///
/// Whether there is a replay socket is said by [`EngineFeedConfig::replay`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FollowerConfig {
    /// How messages are decoded.
    pub feed: EngineFeedConfig,
    /// Time without a message after which a replay checks for missed batches: 2 s.
    pub idle: Duration,
    /// Timeout of one reply of a replay: 2 s.
    pub reply_timeout: Duration,
    /// Timeout of a whole replay: 60 s.
    pub replay_timeout: Duration,
    /// First pause before the next attempt to subscribe, doubled each time: 100 ms.
    pub retry_initial: Duration,
    /// Longest such pause, and the pause after a replay that broke off: 2 s.
    pub retry_max: Duration,
    /// Live messages that may wait for the end of a replay: 4096, some seconds of a busy engine.
    pub max_waiting_messages: usize,
    /// Bytes of the payloads that may wait: 64 MiB.
    pub max_waiting_bytes: usize,
}

impl FollowerConfig {
    /// The defaults that the fields name.
    #[must_use]
    pub fn new(feed: EngineFeedConfig) -> Self {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        Self {
            feed,
            idle: s(2),
            reply_timeout: s(2),
            replay_timeout: s(60),
            retry_initial: ms(100),
            retry_max: s(2),
            max_waiting_messages: 4096,
            max_waiting_bytes: 64 << 20,
        }
    }
}
