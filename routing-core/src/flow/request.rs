//! What waits: a request as the queue sees it, its ticket, and what is known of it when it leaves.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request as flow control sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowRequest {
    /// The band, by its place in [`FlowConfig::bands`](super::FlowConfig::bands); see [`FlowQueue::band_of`](super::FlowQueue::band_of).
    pub band: usize,
    /// Who shares fairly with others: a tenant, a user, an adapter. Nobody in particular if empty.
    pub key: Arc<str>,
    /// Tokens that serving it takes: its prompt and its answer.
    pub tokens: u64,
    /// Those of its prompt that have to be computed: what [`ShortestFirst`](super::FlowOrder::ShortestFirst) goes by.
    pub new_tokens: u64,
    /// Bytes that it keeps in memory.
    pub bytes: u64,
    /// When its answer is of no use any more; the end of the band's time to live, where that is earlier.
    pub deadline: Option<Instant>,
    /// Whether others are shed to make room for it; they are, unless told not to.
    pub displaces: bool,
}

impl FlowRequest {
    /// A request of a band and a key that takes so many tokens to serve.
    pub fn new(band: usize, key: impl Into<Arc<str>>, tokens: u64) -> Self {
        Self { band, key: key.into(), tokens, new_tokens: tokens, bytes: 0, deadline: None, displaces: true }
    }

    /// The same with so many tokens to compute of its prompt.
    #[must_use]
    pub fn new_tokens(self, tokens: u64) -> Self {
        Self { new_tokens: tokens, ..self }
    }

    /// The same with so many bytes.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// The same with a deadline.
    #[must_use]
    pub fn deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// The same, for which nobody is shed: of one that will not wait.
    #[must_use]
    pub fn without_displacing(self) -> Self {
        Self { displaces: false, ..self }
    }
}

/// What a waiting request is found again by. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

/// A request that waits.
#[derive(Debug)]
#[non_exhaustive]
pub struct Waiting<'q, T> {
    /// Its ticket.
    pub ticket: Ticket,
    /// What was put into the queue.
    pub item: &'q T,
    /// Its band's place.
    pub band: usize,
    /// How full that band may make a pod.
    pub ceiling: f32,
    /// When it came.
    pub came: Instant,
}

/// A request that left to be served.
#[derive(Debug)]
#[non_exhaustive]
pub struct Taken<T> {
    /// What was put into the queue.
    pub item: T,
    /// How long it waited.
    pub waited: Duration,
    /// What its key was charged: to be corrected by [`FlowQueue::served`](super::FlowQueue::served), once it is known.
    pub charge: Charge,
}

/// What a key was charged for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// By its name: settings may have changed when it is corrected.
    pub(super) band: Arc<str>,
    pub(super) key: Arc<str>,
    pub(super) tokens: u64,
}

impl Charge {
    /// The tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }
}

/// Why a request waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waited {
    /// It did not.
    No,
    /// No pod had room for its band.
    Saturated,
    /// Others waited before it.
    Behind,
    /// The pod that it was decided for had no room.
    Affinity,
    /// That pod had room, and its program's context did not fit its cache beside those of others.
    Program,
}

/// What flow control did to a request: part of a [trace](crate::Trace).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowTrace {
    /// Its band.
    pub band: Arc<str>,
    /// Its key.
    pub key: Arc<str>,
    /// Why it waited first.
    pub why: Waited,
    /// How long.
    pub waited: Duration,
    /// Requests that waited when it came.
    pub ahead: usize,
}

impl FlowTrace {
    /// Of a request that did not wait.
    #[must_use]
    pub fn passed(band: Arc<str>, key: Arc<str>) -> Self {
        Self { band, key, why: Waited::No, waited: Duration::ZERO, ahead: 0 }
    }
}
