//! Transport and timer: the HTTP client and the clock that the embedding program supplies.

use std::future::Future;
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use routing_core::Pod;

use crate::failure::Failure;

/// An HTTP client, as an executor uses it: sends one request to one pod and streams the response.
///
/// Implemented for functions `Fn(Pod, Request<Bytes>) -> Future`; [`TransportExecutor`](crate::TransportExecutor) has an example.
pub trait Transport: Send + Sync + 'static {
    /// The streamed body of a response.
    type Body: Body<Data = Bytes, Error: std::fmt::Display> + Send + 'static;

    /// Sends a request to a pod. Its URI has a path and no authority; resolving the pod's address is up to the transport.
    ///
    /// Dropping the future, or the response's body, cancels the request. The future borrows nothing: clone what it needs.
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

/// Why a transport has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The connection was not established: the pod never received the request.
    #[error("connect failed: {0}")]
    Connect(Box<str>),
    /// The connection broke while the request or its response was in flight.
    #[error("connection reset: {0}")]
    Reset(Box<str>),
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Connect(why) => Self::Connect(why),
            TransportError::Reset(why) => Self::Truncated(why),
        }
    }
}

/// A clock and its timers.
pub trait Timer: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Instant;

    /// Completes at the given time.
    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static;
}
