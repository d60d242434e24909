//! What became of a request, as data.

use std::sync::Arc;
use std::time::Instant;

use routing_core::Pod;

use crate::error::RunError;
use crate::failure::Failure;

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Every attempt, in the order they were made.
    pub attempts: Vec<AttemptRecord>,
    /// Steps that were left out because their pods failed, and that the next step made up for.
    pub skipped: Vec<Arc<str>>,
    /// How often a handoff was dropped because the pod before did not give all that it takes.
    pub handoffs_dropped: u32,
    /// How often a new plan was asked for.
    pub replans: u32,
    /// Bytes that went to the client.
    pub bytes: u64,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The client has the whole answer of a pod, which had this status. It may be one of an error: a refusal that no other
    /// pod would change, or the last pod's own.
    Completed(u16),
    /// The client was told of this error, whole or within its stream.
    Failed(RunError),
    /// The client left.
    ClientGone,
    /// The host ended it, and the client was told so.
    Cancelled,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The step that it was for.
    pub step: Arc<str>,
    /// The pod that was asked.
    pub pod: Pod,
    /// When it was sent.
    pub sent: Instant,
    /// When its answer began.
    pub head: Option<Instant>,
    /// When its first byte came.
    pub first_byte: Option<Instant>,
    /// When it was over.
    pub ended: Option<Instant>,
    /// Bytes that it answered.
    pub bytes: u64,
    /// The status it answered with.
    pub status: Option<u16>,
    /// What became of it.
    pub fate: Fate,
}

impl AttemptRecord {
    pub(crate) fn begun(step: Arc<str>, pod: Pod, sent: Instant) -> Self {
        let (head, first_byte, ended, status) = (None, None, None, None);
        Self { step, pod, sent, head, first_byte, ended, bytes: 0, status, fate: Fate::Pending }
    }
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It is under way.
    Pending,
    /// Its answer is complete.
    Completed,
    /// It failed.
    Failed(Failure),
    /// It was given up, through no fault of its own.
    Cancelled,
}
