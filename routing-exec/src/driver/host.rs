//! What a host brings: how requests travel, how time passes, and what it wants to know.

use std::future::Future;
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use routing_core::Pod;
use routing_core::{InFlightGuard, PlanStep, RoutingPlan};

use crate::failure::Failure;
use crate::record::Report;

/// How requests reach pods: the host's own client.
///
/// A function `Fn(Pod, Request<Bytes>) -> Future` is one too; [`Driver`](crate::Driver) has an example.
pub trait Transport: Send + Sync + 'static {
    /// The body of an answer, as it comes in.
    type Body: Body<Data = Bytes, Error: std::fmt::Display> + Send + 'static;

    /// Sends a request to a pod. Its URI has a path and no authority; the transport knows where the pod is.
    ///
    /// Dropping the future, or the body it gives, cancels the request. The future borrows nothing: clone what it takes.
    fn send(
        &self,
        pod: Pod,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Self::Body>, TransportError>> + Send + 'static;
}

impl<F, A, B> Transport for F
where
    F: Fn(Pod, Request<Bytes>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Response<B>, TransportError>> + Send + 'static,
    B: Body<Data = Bytes, Error: std::fmt::Display> + Send + 'static,
{
    type Body = B;

    fn send(
        &self,
        pod: Pod,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<B>, TransportError>> + Send + 'static {
        self(pod, request)
    }
}

/// Why a transport has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// There is no connection: the pod never saw the request.
    #[error("no connection: {0}")]
    Connect(Box<str>),
    /// The connection broke while the request or its answer was under way.
    #[error("the connection broke: {0}")]
    Broken(Box<str>),
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Connect(why) => Self::Connect(why),
            TransportError::Broken(why) => Self::Cut(why),
        }
    }
}

/// How time passes: the host's own timers.
pub trait Timer: Send + Sync + 'static {
    /// The time.
    fn now(&self) -> Instant;

    /// Waits until then.
    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static;
}

/// What a host is asked and told while one run is carried out. Made for that run, so it may know its request.
///
/// A function `FnMut(Report)` is one too, which only wants to know the end; `()` is one that does not even want that.
pub trait Host: Send + 'static {
    /// A request's share of a pod's load.
    type Hold: InFlightGuard + 'static;

    /// A request is about to go to a pod: what is returned is kept until it is over.
    fn hold(&mut self, pod: Pod, step: &PlanStep) -> Self::Hold;

    /// Decides anew without these pods; none if that cannot be.
    fn replan(&mut self, _without: &[Pod]) -> Option<RoutingPlan> {
        None
    }

    /// The run is over. Called once, at the latest when the run's future and body are dropped.
    fn finished(&mut self, _report: Report) {}
}

/// A host that counts nothing and wants to know nothing.
impl Host for () {
    type Hold = ();

    fn hold(&mut self, _: Pod, _: &PlanStep) {}
}

impl<F: FnMut(Report) + Send + 'static> Host for F {
    type Hold = ();

    fn hold(&mut self, _: Pod, _: &PlanStep) {}

    fn finished(&mut self, report: Report) {
        self(report);
    }
}
