//! Stock executor: drives a dispatch over a transport, a timer and optional circuit breakers.
//!
//! Its future owns everything it started. A pod is read from only when the client is ready for more, one chunk at a time
//! (backpressure); dropping the future or the body cancels what is in flight and releases what is held.

use std::fmt;
use std::sync::Arc;

use routing_core::DEFAULT_POD_WORDS;

use super::Executor;
use super::body::DispatchBody;
use super::deadlines::Deadlines;
use super::execution::Execution;
use super::future::DispatchFuture;
use super::host::DispatchHost;
use super::transport::{Timer, Transport};
use crate::breaker::{Breakers, BreakersId};
use crate::dispatch::Dispatch;

/// The stock [`Executor`]: a transport, a timer and optional circuit breakers. Cheap to clone.
///
/// # Examples
///
/// Pods that respond from memory, and a host that receives the report.
///
/// ```
/// use std::convert::Infallible;
/// use std::future::{Future, pending};
/// use std::pin::{Pin, pin};
/// use std::sync::{Arc, Mutex};
/// use std::task::{Context, Poll, Waker};
/// use std::time::Instant;
///
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body::{Body, Frame};
/// use routing_core::{Pod, PodId, PlanStep, Role, RoutingPlan};
/// use routing_exec::handoff::Plain;
/// use routing_exec::{
///     ClientRequest, Dispatch, DispatchConfig, DispatchOutcome, DispatchReport, Executor, Timer, TransportError,
///     TransportExecutor,
/// };
///
/// /// A body of one chunk. An HTTP client brings its own.
/// struct Piece(Option<Bytes>);
///
/// impl Body for Piece {
///     type Data = Bytes;
///     type Error = Infallible;
///
///     fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
///         Poll::Ready(self.0.take().map(|piece| Ok(Frame::data(piece))))
///     }
/// }
///
/// /// Timers never fire: enough where nothing waits.
/// struct Clock;
///
/// impl Timer for Clock {
///     fn now(&self) -> Instant {
///         Instant::now()
///     }
///
///     fn sleep_until(&self, _: Instant) -> impl Future<Output = ()> + Send + 'static {
///         pending()
///     }
/// }
///
/// // A transport may be a closure: a pod and a request in, a response out.
/// let transport = |_: Pod, request: Request<Bytes>| async move {
///     let body = Bytes::from(format!("you asked {}", request.uri()));
///     Ok::<_, TransportError>(Response::new(Piece(Some(body))))
/// };
/// let executor: TransportExecutor<_, _> = TransportExecutor::new(transport, Clock);
///
/// let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
/// let pod = index.join("pod-0").unwrap();
/// let plan = RoutingPlan::new(1, [PlanStep::new("serve", Role::Both, &[pod])]);
/// let (parts, body) = Request::post("/v1/chat/completions").body(Bytes::from("{}")).unwrap().into_parts();
/// let dispatch = Dispatch::new(
///     DispatchConfig::new(Arc::new(Plain::default()), Arc::new(())),
///     ClientRequest::new(&parts, body, 7),
///     plan,
///     Vec::new(),
/// );
///
/// // A host may be a closure too: it receives the report.
/// let reports = Arc::new(Mutex::new(Vec::new()));
/// let sink = Arc::clone(&reports);
/// let response = executor.execute(dispatch, move |report: DispatchReport| sink.lock().unwrap().push(report));
///
/// // Nothing here waits, so one poll each is enough.
/// let mut cx = Context::from_waker(Waker::noop());
/// let Poll::Ready(response) = pin!(response).poll(&mut cx) else { panic!("nothing waits") };
/// assert_eq!(response.status(), 200);
/// let mut body = response.into_body();
/// let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) else { panic!("nothing waits") };
/// assert_eq!(frame.into_data().unwrap(), "you asked /v1/chat/completions");
/// assert!(matches!(Pin::new(&mut body).poll_frame(&mut cx), Poll::Ready(None)));
/// assert_eq!(reports.lock().unwrap()[0].outcome, DispatchOutcome::Completed(200));
/// ```
pub struct TransportExecutor<T, C, const W: usize = DEFAULT_POD_WORDS> {
    pub(super) parts: Arc<Parts<T, C, W>>,
    pub(super) deadlines: Option<Arc<Deadlines>>,
}

pub(super) struct Parts<T, C, const W: usize> {
    pub(super) transport: T,
    pub(super) timer: C,
    pub(super) breakers: Option<Arc<Breakers<W>>>,
}

impl<T: Transport, C: Timer, const W: usize> TransportExecutor<T, C, W> {
    /// An executor without circuit breakers.
    pub fn new(transport: T, timer: C) -> Self {
        Self { parts: Arc::new(Parts { transport, timer, breakers: None }), deadlines: None }
    }

    /// An executor with circuit breakers: each attempt is admitted by its pod's breaker, and sampled by it when it is over.
    pub fn with_breakers(transport: T, timer: C, breakers: Arc<Breakers<W>>) -> Self {
        Self { parts: Arc::new(Parts { transport, timer, breakers: Some(breakers) }), deadlines: None }
    }

    /// The same with deadlines that hold for responses which nobody reads, too, as long as somebody ticks them.
    #[must_use]
    pub fn deadlines(self, deadlines: Arc<Deadlines>) -> Self {
        Self { deadlines: Some(deadlines), ..self }
    }
}

impl<T: Transport, C: Timer, const W: usize> Executor for TransportExecutor<T, C, W> {
    type Body<H: DispatchHost> = DispatchBody<T, C, H, W>;

    #[expect(refining_impl_trait, reason = "callers of this executor may name its future, which is `Unpin`")]
    fn execute<H: DispatchHost>(&self, dispatch: Dispatch, host: H) -> DispatchFuture<T, C, H, W> {
        DispatchFuture::new(Execution::new(self.clone(), dispatch, host))
    }

    fn breakers_id(&self) -> Option<BreakersId> {
        self.parts.breakers.as_ref().map(|breakers| breakers.id())
    }
}

impl<T, C, const W: usize> Clone for TransportExecutor<T, C, W> {
    fn clone(&self) -> Self {
        Self { parts: Arc::clone(&self.parts), deadlines: self.deadlines.clone() }
    }
}

impl<T, C, const W: usize> fmt::Debug for TransportExecutor<T, C, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportExecutor").field("breakers", &self.parts.breakers.is_some()).finish_non_exhaustive()
    }
}
