//! Errors of a ZMTP connection, and whose fault they are.

use std::io;

use routing_exec::TransportError;

use super::handshake::SocketType;

/// Why a connection was not made, or ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZmqError {
    /// The network: nobody listens, no route, a connection that was reset.
    #[error("i/o error: {0}")]
    Io(io::ErrorKind),
    /// This process or its machine lacks what a connection takes: file descriptors, ports, memory. The peer was not asked.
    #[error("out of local resources; check the limit of open files")]
    LocalResources,
    /// The peer closed the connection.
    #[error("closed by the peer")]
    Closed,
    /// No connection in time. The operator checks address and network.
    #[error("no connection in time; check the address")]
    ConnectTimeout,
    /// The peer accepted and did not finish the handshake. Something else than ZeroMQ may listen there.
    #[error("connected, but no ZMTP handshake in time; is this a ZeroMQ socket?")]
    HandshakeTimeout,
    /// The peer answered no heartbeat.
    #[error("no answer to a heartbeat")]
    HeartbeatTimeout,
    /// The first bytes are not ZMTP's. The operator checks the port.
    #[error("the peer does not speak ZMTP; check the port")]
    NotZmtp,
    /// A peer older than ZMTP 3 (libzmq before 4.0).
    #[error("the peer speaks ZMTP {major}, 3 is needed: update its libzmq to 4.0 or later")]
    Version {
        /// Its major version.
        major: u8,
    },
    /// The peer wants authentication or encryption.
    #[error("the peer's security mechanism is not NULL; configure its socket without CURVE, PLAIN or GSSAPI")]
    Mechanism,
    /// The handshake went wrong.
    #[error("malformed handshake")]
    Handshake,
    /// The peer's socket is of another kind. Mostly the addresses of events and replay are swapped.
    #[error("a {ours} socket cannot talk to the peer's socket; are the endpoints of events and replay swapped?")]
    SocketType {
        /// Our side.
        ours: SocketType,
    },
    /// The peer refused us by an ERROR command.
    #[error("the peer refused the connection")]
    Refused,
    /// A frame whose flags or length mean nothing.
    #[error("malformed frame")]
    Frame,
    /// A message that is too large, by what its frames announce.
    #[error(
        "message of at least {announced} bytes, at most {most} are taken; raise `max_message_bytes` if it is genuine"
    )]
    MessageTooLarge {
        /// Bytes that were announced so far.
        announced: u64,
        /// The bound.
        most: usize,
    },
    /// A message of too many frames.
    #[error("message of more than {most} frames")]
    TooManyFrames {
        /// The bound.
        most: usize,
    },
    /// A command that is too large.
    #[error("command of {announced} bytes, at most {most} are taken")]
    CommandTooLarge {
        /// Bytes that were announced.
        announced: u64,
        /// The bound.
        most: usize,
    },
}

impl ZmqError {
    /// Whether the peer broke the protocol or its bounds, rather than being away or slow.
    #[must_use]
    pub fn is_violation(&self) -> bool {
        !matches!(
            self,
            Self::Io(_)
                | Self::LocalResources
                | Self::Closed
                | Self::ConnectTimeout
                | Self::HandshakeTimeout
                | Self::HeartbeatTimeout
        )
    }
}

impl From<io::Error> for ZmqError {
    fn from(error: io::Error) -> Self {
        if let TransportError::Local(_) = TransportError::not_connected(&error) {
            return Self::LocalResources;
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Closed,
            kind => Self::Io(kind),
        }
    }
}
