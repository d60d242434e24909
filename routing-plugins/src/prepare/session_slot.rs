//! Slot of the session key.

use routing_core::Slot;

/// The session that a request belongs to, as a hash of its name that is the same in every gateway; none if it has none.
#[derive(Debug)]
pub struct Session;

impl Slot for Session {
    type Value = Option<u64>;
    const NAME: &'static str = "session.key";
}
