//! What a run is told, and what it says to do.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, response};
use routing_core::Pod;
use routing_core::RoutingPlan;

use crate::failure::Failure;
use crate::record::Report;

/// One request to one pod. Never used again in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId(pub(crate) u32);

/// A timer of a run. Arming it again moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the two clocks of a run: complete by nature")]
pub enum TimerId {
    /// An attempt's: to its first byte, then between its chunks.
    Attempt(AttemptId),
    /// The whole run's.
    Deadline,
}

/// What happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input {
    /// A pod's answer begins.
    Head(AttemptId, response::Parts),
    /// A piece of a pod's answer.
    Chunk(AttemptId, Bytes),
    /// A pod's answer is complete.
    End(AttemptId, Option<HeaderMap>),
    /// An attempt failed: no connection, or it broke.
    Failed(AttemptId, Failure),
    /// A timer that was armed went off.
    Expired(TimerId),
    /// The client is gone.
    ClientGone,
    /// The host wants the request to end.
    Cancel,
    /// The plan that was asked for; none if there is none.
    Replanned(Option<RoutingPlan>),
}

/// What to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// Send a request to a pod. Its URI has no authority: where the pod listens is the host's to know, never the request's.
    Send {
        /// What it is called from now on.
        attempt: AttemptId,
        /// Where it goes.
        pod: Pod,
        /// The step that it is for.
        step: usize,
        /// What is sent.
        request: Request<Bytes>,
    },
    /// Give an attempt up: nothing of it is wanted any more.
    Cancel(AttemptId),
    /// The request's share of a pod's load begins, for a step of the plan; comes just before the attempt is sent.
    Hold(AttemptId, Pod, usize),
    /// The attempt's prefill is done: its answer began.
    FirstByte(AttemptId),
    /// The request's share of the pod's load ends.
    Release(AttemptId),
    /// The pod did well, or failed, in this attempt; at most once for each pod. It may come after the attempt's release.
    Judge(AttemptId, Pod, Verdict),
    /// Set a timer.
    Arm(TimerId, Instant),
    /// Decide anew, without these pods, and answer with [`Input::Replanned`].
    Replan(Vec<Pod>),
    /// Begin the client's answer.
    Head(response::Parts),
    /// A piece of the client's answer.
    Forward(Bytes),
    /// The trailers of the client's answer.
    Trailers(HeaderMap),
    /// Answer the client with this, whole.
    Answer(Response<Bytes>),
    /// The client's answer breaks off: what it got is not all. It must not look complete.
    Abort,
    /// The run is over. Nothing comes after it.
    Finish(Report),
}

/// What a breaker should think of a pod after a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It answered, and so long after it was asked its first byte came.
    Good(Duration),
    /// It answered. How soon shows nothing: its answer came whole, or it waited for another pod.
    Answered,
    /// It failed.
    Bad(Failure),
}
