//! What waits: a request as the queue sees it, its ticket, and what is known of it when it leaves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::program::ProgramTurn;

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
    /// Those of its prompt: what [`ShortestFirst`](super::FlowOrder::ShortestFirst) goes by, without those that its pod holds, once that is known.
    pub prompt_tokens: u64,
    /// Bytes that it keeps in memory.
    pub bytes: u64,
    /// When its answer is of no use any more; the end of the band's time to live, where that is earlier.
    pub deadline: Option<Instant>,
    /// The program that it is a turn of, where the host knows it: what [`AttainedService`](super::FlowOrder::AttainedService) goes by. Else it
    /// is that of the first decision about it.
    pub program: Option<ProgramTurn>,
    /// Whether others are shed to make room for it; they are, unless told not to.
    pub displaces: bool,
}

impl FlowRequest {
    /// A request of a band and a key that takes so many tokens to serve.
    pub fn new(band: usize, key: impl Into<Arc<str>>, tokens: u64) -> Self {
        let (key, bytes, deadline, program) = (key.into(), 0, None, None);
        Self { band, key, tokens, prompt_tokens: tokens, bytes, deadline, program, displaces: true }
    }

    /// The same with so many tokens of prompt.
    #[must_use]
    pub fn prompt_tokens(self, tokens: u64) -> Self {
        Self { prompt_tokens: tokens, ..self }
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

    /// The same as a turn of a program.
    #[must_use]
    pub fn program(self, program: ProgramTurn) -> Self {
        Self { program: Some(program), ..self }
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
    /// What its turn was decided by, where that is its program's attained service and it waited.
    pub program: Option<ProgramStanding>,
}

/// What put a request of a program where it was in the order of [attained service](super::FlowOrder::AttainedService).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramStanding {
    /// Tokens that its program was served.
    pub service: u64,
    /// The [level](super::ServiceLevels::level) of that.
    pub level: u32,
    /// Turns that follow it, as its client tells.
    pub remaining: u32,
    /// Whether it was the last of several of its program that waited, and went earlier for that, by a level at most.
    pub is_last: bool,
}

impl FlowTrace {
    /// Of a request that did not wait.
    #[must_use]
    pub fn passed(band: Arc<str>, key: Arc<str>) -> Self {
        Self { band, key, why: Waited::No, waited: Duration::ZERO, ahead: 0, program: None }
    }
}
