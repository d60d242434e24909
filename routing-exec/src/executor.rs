//! Executor: takes a plan and a request, and returns the streamed response.

mod body;
mod deadlines;
mod execution;
mod future;
mod host;
mod timers;
mod transport;
mod transport_executor;
mod upstream;
mod wakeups;

use std::error::Error;
use std::future::Future;

use bytes::Bytes;
use http::Response;
use http_body::Body;

pub use self::body::{DispatchBody, ResponseTruncated};
pub use self::deadlines::Deadlines;
pub use self::future::DispatchFuture;
pub use self::host::DispatchHost;
#[cfg(any(feature = "tower", feature = "hyper-util", feature = "reqwest"))]
pub(crate) use self::transport::chain;
#[cfg(feature = "tower")]
pub(crate) use self::transport::is_local;
pub use self::transport::{Timer, Transport, TransportError};
pub use self::transport_executor::TransportExecutor;
use crate::breaker::BreakersId;
use crate::dispatch::Dispatch;

/// Executes routing plans.
///
/// A [`Dispatch`] is the unit of work: a plan, the client's request and its [hooks](crate::Hook), as a sans-IO state machine.
/// [`TransportExecutor`] drives it over an HTTP client, for one pod, prefill → decode, or more steps. An implementation may
/// drive it by other means, and then retries, handoffs and hooks work as they do there; or only read [`Dispatch::plan`] and
/// [`Dispatch::request`], and respond by itself.
///
/// # Contract
///
/// - Dropping the future, or the response's body, cancels the dispatch.
/// - [`DispatchHost::finished`] is called exactly once, before the body ends.
///
/// # Examples
///
/// An executor that sends nothing and responds with the name of the plan's first step, and a caller that is generic over it.
///
/// ```
/// # use std::convert::Infallible;
/// # use std::pin::{Pin, pin};
/// # use std::task::{Context, Poll, Waker};
/// use std::future::{Future, ready};
/// use std::sync::Arc;
///
/// use bytes::Bytes;
/// use http::{Request, Response};
/// # use http_body::{Body, Frame};
/// use routing_core::{PlanStep, Role, RoutingPlan};
/// use routing_exec::handoff::Plain;
/// use routing_exec::{ClientRequest, Dispatch, DispatchConfig, DispatchHost, DispatchOutcome, DispatchReport, Executor};
///
/// # struct Full(Option<Bytes>);
/// # impl Body for Full {
/// #     type Data = Bytes;
/// #     type Error = Infallible;
/// #     fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
/// #         Poll::Ready(self.0.take().map(|data| Ok(Frame::data(data))))
/// #     }
/// # }
/// struct DryRun;
///
/// impl Executor for DryRun {
///     type Body<H: DispatchHost> = Full; // A body of one chunk.
///
///     fn execute<H: DispatchHost>(
///         &self,
///         dispatch: Dispatch,
///         mut host: H,
///     ) -> impl Future<Output = Response<Full>> + Send + 'static {
///         let step = dispatch.plan().steps()[0].name.to_string();
///         host.finished(DispatchReport::new(DispatchOutcome::Completed(200)));
///         ready(Response::new(Full(Some(step.into()))))
///     }
/// }
///
/// async fn serve<E: Executor>(executor: &E, request: Request<Bytes>, plan: RoutingPlan) -> Response<E::Body<()>> {
///     let config = DispatchConfig::new(Arc::new(Plain::default()), Arc::new(()));
///     let (parts, body) = request.into_parts();
///     let dispatch = Dispatch::new(config, ClientRequest::new(&parts, body, 7), plan, Vec::new());
///     executor.execute(dispatch, ()).await
/// }
///
/// let plan = RoutingPlan::new(1, [PlanStep::new("decode", Role::Both, &[])]);
/// let response = serve(&DryRun, Request::new(Bytes::from("{}")), plan);
/// # let Poll::Ready(response) = pin!(response).poll(&mut Context::from_waker(Waker::noop())) else { panic!() };
/// assert_eq!(response.into_body().0.unwrap(), "decode");
/// ```
pub trait Executor: Send + Sync + 'static {
    /// The streamed body of a response.
    type Body<H: DispatchHost>: Body<Data = Bytes, Error: Error + Send + Sync> + Send + Unpin + 'static;

    /// Executes a dispatch up to the head of the client's response; reading the body executes the rest.
    fn execute<H: DispatchHost>(
        &self,
        dispatch: Dispatch,
        host: H,
    ) -> impl Future<Output = Response<Self::Body<H>>> + Send + 'static;

    /// Which circuit breakers it has, if it has some and tells. By that, a router tells an executor of its own from another
    /// router's, which would send its requests to the other's pods: they have the same ids.
    fn breakers_id(&self) -> Option<BreakersId> {
        None
    }
}
