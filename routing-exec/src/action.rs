//! Inputs and actions of the sans-IO dispatch state machine.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, response};
use routing_core::{Pod, RoutingPlan};

use crate::failure::Failure;
use crate::report::DispatchReport;

/// One request to one pod. Never reused within a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId(pub(crate) u32);

/// A timer of a dispatch. Setting it again moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the timers of a dispatch: complete by nature")]
pub enum TimerId {
    /// An attempt's timeout: to its first byte, then between its chunks.
    Attempt(AttemptId),
    /// The total bound of the whole dispatch.
    Deadline,
    /// The end of a pause, after which a request that could not be sent is sent again.
    Pause,
}

/// What happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input {
    /// The head of a pod's response.
    Head(AttemptId, response::Parts),
    /// A chunk of a pod's response.
    Chunk(AttemptId, Bytes),
    /// A pod's response is complete.
    End(AttemptId, Option<HeaderMap>),
    /// An attempt failed: no connection, or it broke.
    Failed(AttemptId, Failure),
    /// A pod's circuit breaker refused an attempt, and would not before this time has passed.
    Refused(AttemptId, Duration),
    /// A timer fired.
    Expired(TimerId),
    /// The client disconnected.
    ClientDisconnected,
    /// The embedding program cancels the request.
    Cancel,
    /// The response to [`Action::Replan`]; `None` if there is no other plan.
    Replanned(Option<RoutingPlan>),
}

impl Input {
    /// The attempt that it is about.
    pub(crate) fn attempt(&self) -> Option<AttemptId> {
        match self {
            Self::Head(id, _) | Self::Chunk(id, _) | Self::End(id, _) => Some(*id),
            Self::Failed(id, _) | Self::Refused(id, _) => Some(*id),
            Self::Expired(TimerId::Attempt(id)) => Some(*id),
            _ => None,
        }
    }
}

/// What to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// Send a request to a pod. Its URI has no authority: the pod's address is never the request's to name.
    Send {
        /// Identifies the attempt from now on.
        attempt: AttemptId,
        /// The destination.
        pod: Pod,
        /// The index of the plan's step.
        step: usize,
        /// The request.
        request: Request<Bytes>,
        /// Whether it goes past the pod's circuit breaker: no other pod is left, and the breaker's word is worth less than an
        /// answer.
        forced: bool,
    },
    /// Abandon an attempt.
    Cancel(AttemptId),
    /// Begin to count the request towards the pod's load, for a step of the plan; precedes [`Self::Send`].
    Acquire(AttemptId, Pod, usize),
    /// The attempt's prefill is done: its response has begun.
    FirstByte(AttemptId),
    /// Stop counting the request towards the pod's load.
    Release(AttemptId),
    /// A sample for the pod's circuit breaker, at most one for each pod. It may follow the attempt's release.
    Sample(AttemptId, Pod, BreakerSample),
    /// Take a pod's sample back: others failed the request too and none served it, so that it may be the request's own fault.
    Exonerate(AttemptId, Pod),
    /// Set a timer.
    SetTimer(TimerId, Instant),
    /// Make a new plan that excludes these pods, and respond with [`Input::Replanned`].
    Replan(Vec<Pod>),
    /// Begin the client's response.
    Head(response::Parts),
    /// A chunk of the client's response.
    Forward(Bytes),
    /// The trailers of the client's response.
    Trailers(HeaderMap),
    /// The whole of the client's response.
    Respond(Response<Bytes>),
    /// Abort the client's response: it is truncated, and must not look complete.
    Abort,
    /// The dispatch is over. No action follows.
    Finish(DispatchReport),
}

/// What a circuit breaker learns of a pod from a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerSample {
    /// It succeeded, with this time to first byte; `None` if that is no measure of the pod: its response was not streamed, or
    /// it waited for another pod.
    Success(Option<Duration>),
    /// It failed.
    Failure(Failure),
    /// It failed, and for want of retry budget no other pod was asked whether the request itself is at fault.
    Unconfirmed(Failure),
    /// It pushed back (429, 503), and says for how long, if it does.
    Overloaded(Option<Duration>),
}

impl BreakerSample {
    /// The same of a request that no other pod was asked to serve.
    pub(crate) fn unconfirmed(self) -> Self {
        match self {
            Self::Failure(failure) if failure.may_be_the_requests() => Self::Unconfirmed(failure),
            sample => sample,
        }
    }
}
