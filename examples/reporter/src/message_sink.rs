//! Message sink: the trait that binds a reporter to a transport (HTTP, NATS, gRPC).

use std::future::Future;

use crate::wire::{Ack, Message, ResyncRequest};

/// Delivers messages, one at a time.
pub trait MessageSink: Send + 'static {
    /// Sends a message and waits for its acknowledgement, with a timeout of its own.
    ///
    /// # Errors
    ///
    /// When there is no acknowledgement (the message may have arrived, and is sent again), or the gateway rejects it.
    fn send(&mut self, message: &Message) -> impl Future<Output = Result<Ack, SinkError>> + Send;

    /// The next request for an inventory by a stream consumer. Dropped and called anew at any time; never ends for
    /// transports on which gateways only answer.
    fn resync_request(&mut self) -> impl Future<Output = ResyncRequest> + Send {
        std::future::pending()
    }
}

/// Why a message was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The gateway was not reached, did not answer in time, or is failing. The message is sent again.
    #[error("no acknowledgement from the gateway: {0}")]
    Unacknowledged(String),
    /// The gateway rejects this message. An operator corrects the worker's or the gateway's configuration.
    #[error("rejected with status {status}: {reason}")]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// The gateway's own words.
        reason: String,
    },
}

impl SinkError {
    pub(crate) fn unacknowledged(error: impl std::fmt::Display) -> Self {
        Self::Unacknowledged(error.to_string())
    }
}
