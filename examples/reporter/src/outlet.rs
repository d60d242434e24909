//! The way from a reporter to a gateway, whatever the transport.

use std::future::Future;

use crate::wire::{Answer, Message, Resync};

/// Carries messages, one at a time.
pub trait Outlet: Send + 'static {
    /// Sends a message and waits for what became of it.
    ///
    /// Bounded in time by the outlet itself. Whether a message without an answer arrived is not known; it is sent again.
    ///
    /// # Errors
    ///
    /// When there is no answer, or it is a refusal.
    fn send(&mut self, message: &Message) -> impl Future<Output = Result<Answer, OutletError>> + Send;

    /// A gateway asks for an inventory by itself. Dropped and called anew at any time; never ends where gateways
    /// only answer.
    fn asked(&mut self) -> impl Future<Output = Resync> + Send {
        std::future::pending()
    }
}

/// Why a message has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutletError {
    /// The gateway was not reached, or did not answer in time, or is failing. The message is sent again.
    #[error("no answer from the gateway: {0}")]
    Lost(String),
    /// The gateway will not take this message. An operator corrects the worker's or the gateway's configuration.
    #[error("refused with status {status}: {reason}")]
    Refused {
        /// As HTTP has it.
        status: u16,
        /// The gateway's own words.
        reason: String,
    },
}
