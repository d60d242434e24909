//! The driver: carries a run out over the host's own client, timers and load counters.
//!
//! It is a future that owns everything it started. It reads from a pod only when the client is ready for more, and
//! holds one piece at a time; dropping it, at any moment, cancels what is under way and lets go of what is held.

mod alarms;
mod body;
mod execute;
mod execution;
mod host;
mod upstream;

use routing_core::DEFAULT_POD_WORDS;
use std::fmt;
use std::sync::Arc;

pub use self::body::{BrokenOff, RunBody};
pub use self::execute::Execute;
use self::execution::Execution;
pub use self::host::{Host, Timer, Transport, TransportError};
use crate::breaker::Breakers;
use crate::run::Run;

/// What carries runs out: a transport, a timer and, if there are any, breakers. Cheap to clone.
///
/// # Examples
///
/// Pods that answer from memory, and a host that wants to read what became of its request.
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
/// use routing_exec::{ClientRequest, Driver, Outcome, Report, Run, Settings, Timer, TransportError};
///
/// /// An answer in one piece. A host's client brings a body of its own.
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
/// /// Time passes, and no timer ever goes off: good enough where nothing waits.
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
/// // A transport may be a closure: a pod and a request in, an answer out.
/// let transport = |_: Pod, request: Request<Bytes>| async move {
///     let answer = Bytes::from(format!("you asked {}", request.uri()));
///     Ok::<_, TransportError>(Response::new(Piece(Some(answer))))
/// };
/// let driver: Driver<_, _> = Driver::new(transport, Clock);
///
/// let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
/// let pod = index.join("pod-0").unwrap();
/// let plan = RoutingPlan::new(1, [PlanStep::new("serve", Role::Both, &[pod])]);
/// let (parts, body) = Request::post("/v1/chat/completions").body(Bytes::from("{}")).unwrap().into_parts();
/// let run = Run::new(
///     Settings::new(Arc::new(Plain::default()), Arc::new(())),
///     ClientRequest::new(&parts, body, 7),
///     plan,
///     Vec::new(),
/// );
///
/// // A host may be a closure too: it is told what became of the request.
/// let reports = Arc::new(Mutex::new(Vec::new()));
/// let told = Arc::clone(&reports);
/// let answer = driver.execute(run, move |report: Report| told.lock().unwrap().push(report));
///
/// // Nothing here waits, so one poll each is enough; a host awaits.
/// let mut cx = Context::from_waker(Waker::noop());
/// let Poll::Ready(answer) = pin!(answer).poll(&mut cx) else { panic!("nothing waits") };
/// assert_eq!(answer.status(), 200);
/// let mut body = answer.into_body();
/// let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) else { panic!("nothing waits") };
/// assert_eq!(frame.into_data().unwrap(), "you asked /v1/chat/completions");
/// assert!(matches!(Pin::new(&mut body).poll_frame(&mut cx), Poll::Ready(None)));
/// assert_eq!(reports.lock().unwrap()[0].outcome, Outcome::Completed(200));
/// ```
pub struct Driver<T, C, const W: usize = DEFAULT_POD_WORDS> {
    parts: Arc<Parts<T, C, W>>,
}

struct Parts<T, C, const W: usize> {
    transport: T,
    timer: C,
    breakers: Option<Arc<Breakers<W>>>,
}

impl<T: Transport, C: Timer, const W: usize> Driver<T, C, W> {
    /// A driver without breakers.
    pub fn new(transport: T, timer: C) -> Self {
        Self { parts: Arc::new(Parts { transport, timer, breakers: None }) }
    }

    /// A driver with breakers, which are asked before each request and told what came of it.
    pub fn with_breakers(transport: T, timer: C, breakers: Arc<Breakers<W>>) -> Self {
        Self { parts: Arc::new(Parts { transport, timer, breakers: Some(breakers) }) }
    }

    /// Carries a run out, up to where the client's answer begins; the rest is carried out as the answer's body is read.
    ///
    /// The host is this run's own, so it may know the request: how much load it is, and how to decide on it anew.
    pub fn execute<H: Host>(&self, run: Run, host: H) -> Execute<T, C, H, W> {
        Execute::new(Execution::new(self.clone(), run, host))
    }

    /// How time passes.
    pub(crate) fn timer(&self) -> &C {
        &self.parts.timer
    }
}

impl<T, C, const W: usize> Clone for Driver<T, C, W> {
    fn clone(&self) -> Self {
        Self { parts: Arc::clone(&self.parts) }
    }
}

impl<T, C, const W: usize> fmt::Debug for Driver<T, C, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("breakers", &self.parts.breakers.is_some()).finish_non_exhaustive()
    }
}
