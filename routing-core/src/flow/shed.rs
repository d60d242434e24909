//! Load shedding: which requests do not get to wait, or not any longer, and when to come again.

use std::time::Duration;

/// A request that is not served, with what was put into the queue.
#[derive(Debug)]
#[non_exhaustive]
pub struct Shed<T> {
    /// What was put into the queue.
    pub item: T,
    /// Why.
    pub reason: ShedReason,
    /// Its band's place.
    pub band: usize,
    /// When it is likely to be served, if it comes again: what waits before it, by the tokens that left for pods lately.
    pub retry_after: Duration,
    /// How long it waited.
    pub waited: Duration,
}

/// Why a request is shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ShedReason {
    /// Its band is full, and no other key has more in it.
    #[error("too many requests of its priority are waiting")]
    BandFull,
    /// The queue is full, and nothing of less priority is in it.
    #[error("too many requests are waiting")]
    QueueFull,
    /// It waited, and made room for a request of more priority, or of a key that has less.
    #[error("it made room for others")]
    Displaced,
    /// Its time to live or its deadline is over.
    #[error("it waited for too long")]
    Expired,
    /// It is larger than what may wait altogether.
    #[error("it is larger than all that may wait")]
    TooLarge,
}

impl ShedReason {
    /// The status that an HTTP client is told: 429 where fewer requests would have helped, 503 where it waited in vain.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::BandFull | Self::QueueFull | Self::TooLarge => 429,
            Self::Displaced | Self::Expired => 503,
        }
    }

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BandFull => "band_full",
            Self::QueueFull => "queue_full",
            Self::Displaced => "displaced",
            Self::Expired => "expired",
            Self::TooLarge => "too_large",
        }
    }
}
