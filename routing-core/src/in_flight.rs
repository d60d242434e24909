//! In-flight guard: one request's share of a pod's load, released on drop.

/// Held while a request is on a pod; let go when dropped.
///
/// Whoever counts load hands these out, and whoever sends requests keeps them: neither has to know the other.
pub trait InFlightGuard: Send {
    /// The pod's answer began: its prefill is done.
    fn first_byte(&mut self) {}
}

/// Nothing is counted.
impl InFlightGuard for () {}
