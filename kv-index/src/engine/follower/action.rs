//! Actions of a follower, and the ends of its connections.

/// What the owner of the sockets has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an owner of sockets has to know all of them")]
pub enum FollowerAction {
    /// Close the subscription, if there is one, and connect a new SUB socket. Then say
    /// [`connected`](super::Follower::connected) or [`disconnected`](super::Follower::disconnected).
    Subscribe,
    /// Drop the replay under way, if there is one, and request every batch from this sequence on
    /// ([`replay_request`](crate::engine::replay_request)), by a DEALER socket of its own: replies to a dropped request must never be
    /// taken for those to the next.
    Replay {
        /// The first sequence asked for.
        from: u64,
    },
    /// The replay is over, or given up: close its connection.
    DropReplay,
}

/// Why a connection ended, or was never made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the peer's fault or not: complete by nature")]
pub enum Disconnect {
    /// Nobody is there, or the peer went away.
    Closed,
    /// The peer broke the transport's protocol or its bounds: counted as an error.
    Violation,
}
