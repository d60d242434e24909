//! Transport and timer: the HTTP client and the clock that the embedding program supplies.

use std::error::Error;
use std::future::Future;
use std::io;
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
    /// The streamed body of a response. Pending, it is polled again once it woke its task, and not before.
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
    /// The connection was not even tried, for want of something of this process or its machine: file descriptors, ports, memory of
    /// sockets. No pod is charged for it.
    #[error("out of local resources: {0}")]
    Local(Box<str>),
}

impl TransportError {
    /// The error of a connection that was not established, by its causes: [`Self::Local`] where the want was local, or else
    /// [`Self::Connect`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    ///
    /// use routing_exec::TransportError;
    ///
    /// let too_many_open_files = io::Error::from_raw_os_error(24);
    /// # #[cfg(unix)]
    /// assert!(matches!(TransportError::not_connected(&too_many_open_files), TransportError::Local(_)));
    /// let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    /// assert!(matches!(TransportError::not_connected(&refused), TransportError::Connect(_)));
    /// ```
    #[must_use]
    pub fn not_connected(error: &(dyn Error + 'static)) -> Self {
        let why = chain(error);
        if is_local(error) { Self::Local(why) } else { Self::Connect(why) }
    }
}

/// What an error and everything behind it say.
pub(crate) fn chain(error: &dyn Error) -> Box<str> {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text.into()
}

/// Whether a connection was not made for want of something local, by the error and everything behind it.
pub(crate) fn is_local(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(is_local_io) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn is_local_io(error: &io::Error) -> bool {
    // Not every address that cannot be had is a port: but no pod can be reached where none is.
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::OutOfMemory)
        || error.raw_os_error().is_some_and(|code| LOCAL_CODES.contains(&code))
        // What it wraps is not among its sources.
        || error.get_ref().is_some_and(|inner| is_local(inner))
}

/// ENOMEM, ENFILE, EMFILE, and ENOBUFS as Linux and as BSDs number it; `io::ErrorKind` has no names for most of them. On Linux 55 is an error
/// that no socket has, and on BSDs there is no 105 of sockets.
#[cfg(unix)]
const LOCAL_CODES: &[i32] = &[12, 23, 24, 55, 105];
/// WSAEMFILE and WSAENOBUFS.
#[cfg(not(unix))]
const LOCAL_CODES: &[i32] = &[10024, 10055];

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Connect(why) => Self::Connect(why),
            TransportError::Reset(why) => Self::Truncated(why),
            TransportError::Local(why) => Self::LocalResources(why),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of a client, whose cause is another.
    #[derive(Debug, thiserror::Error)]
    #[error("client error")]
    struct Wrapped(#[source] Box<dyn Error + Send + Sync>);

    #[test]
    #[cfg(unix)]
    fn a_local_want_is_found_however_deep_it_is() {
        let is_local = |error: io::Error| {
            let inside = io::Error::other(Wrapped(Box::new(error)));
            let not_connected = TransportError::not_connected(&Wrapped(Box::new(inside)));
            matches!(Failure::from(not_connected), Failure::LocalResources(_))
        };
        for code in [12, 23, 24, 105] {
            assert!(is_local(io::Error::from_raw_os_error(code)), "{code}");
        }
        assert!(is_local(io::ErrorKind::AddrNotAvailable.into()));
        for kind in [io::ErrorKind::ConnectionRefused, io::ErrorKind::TimedOut, io::ErrorKind::ConnectionReset] {
            assert!(!is_local(kind.into()), "{kind}");
        }
    }
}
