//! A connection that may be closed, opening or open, as one thing to wait for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::codec::Frames;
use super::connection::{Connection, ConnectionConfig, open};
use super::endpoint::Endpoint;
use super::error::ZmqError;
use super::handshake::SocketType;

/// One of a subscriber's two connections. Dropping or replacing it closes what it was.
pub(super) enum Link {
    Closed,
    Opening(Pin<Box<dyn Future<Output = Result<Connection, ZmqError>> + Send>>),
    Open(Box<Connection>),
}

/// What happened on a link.
#[derive(Debug)]
pub(super) enum LinkEvent {
    Opened,
    Message(Frames),
    Ended(ZmqError),
}

impl Link {
    pub(super) fn open(endpoint: &Endpoint, ours: SocketType, first: Frames, config: ConnectionConfig) -> Self {
        Self::Opening(Box::pin(open(endpoint.clone(), ours, first, config)))
    }

    /// The next event; never one where it is closed. Can be cancelled without a loss.
    pub(super) async fn next(&mut self) -> LinkEvent {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<LinkEvent> {
        let result = match self {
            Self::Closed => return Poll::Pending,
            Self::Opening(opening) => ready!(opening.as_mut().poll(cx)).map(|connection| {
                *self = Self::Open(Box::new(connection));
                LinkEvent::Opened
            }),
            Self::Open(connection) => ready!(connection.poll_message(cx)).map(LinkEvent::Message),
        };
        Poll::Ready(result.unwrap_or_else(|error| {
            *self = Self::Closed;
            LinkEvent::Ended(error)
        }))
    }
}
