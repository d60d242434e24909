//! Load shedding: which requests do not get to wait, or not any longer, and when to come again.

use std::time::Duration;

use super::FlowTrace;

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
    /// When it is likely to be served, if it comes again: what waits before it, by the tokens that left for pods lately. None where it never will
    /// be.
    pub retry_after: Option<Duration>,
    /// How long it waited.
    pub waited: Duration,
    /// Why, and behind whom.
    pub trace: FlowTrace,
}

impl<T> Shed<T> {
    /// The same of one that waited before.
    pub(super) fn traced(self, trace: Option<FlowTrace>) -> Self {
        let Some(trace) = trace else { return self };
        Self { waited: trace.waited, trace, ..self }
    }
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
    /// No pod has room for it, and its host does not let it wait.
    #[error("no pod has room for it now")]
    Saturated,
}

impl ShedReason {
    /// The status that an HTTP client is told: 429 where fewer requests would have helped, 503 where it waited in vain, 413 where it is too large,
    /// which clients do not send again.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::BandFull | Self::QueueFull | Self::Saturated => 429,
            Self::TooLarge => 413,
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
            Self::Saturated => "saturated",
        }
    }
}
