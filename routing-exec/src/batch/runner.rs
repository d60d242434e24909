//! The runner: carries a batch out, as a stream that the host polls.
//!
//! It holds as many futures as there are requests under way, and polls the ones that were woken. The rule that must never break:
//! a result is in the journal before anybody has it.

mod ending;
mod pods;
mod polling;
mod sending;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use routing_core::batch::BatchPlan;
use routing_core::{DEFAULT_POD_WORDS, Pod};

use super::bells::Bells;
use super::board::Board;
use super::config::{BatchRunConfig, Bound};
use super::error::BatchError;
use super::flight::Flight;
use super::journal::Keep;
use super::progress::{BatchProgress, Counts};
use super::ready::Ready;
use super::result::BatchResult;
use super::work::BatchWork;
use crate::driver::{Driver, Timer, Transport};
use crate::run::Settings;

/// Carries a batch out. Nothing is sent before it is first polled, nothing goes on unless it is polled, and dropping it
/// cancels what is under way.
///
/// Requests that were under way when a pod died, or when the runner was dropped, may have been carried out without anybody
/// having the answer: they are sent again, and have one result.
///
/// # Examples
///
/// Three requests for one pod that answers from memory.
///
/// ```
/// use std::convert::Infallible;
/// use std::future::{Future, pending};
/// use std::pin::{Pin, pin};
/// use std::sync::Arc;
/// use std::task::{Context, Poll, Waker};
/// use std::time::Instant;
///
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body::{Body, Frame};
/// use routing_core::Pod;
/// use routing_core::batch::{BatchPlan, Cohort, PodPlan};
/// use routing_exec::batch::{BatchRunner, BatchWork, Size};
/// use routing_exec::handoff::Plain;
/// use routing_exec::{ClientRequest, Driver, Settings, Timer, TransportError};
///
/// /// The batch: questions, and who plans anew if a pod dies.
/// struct Questions(Vec<&'static str>);
///
/// /// All in one cohort for the first pod. A real host asks a planner.
/// fn plan(rest: &[u32], pods: &[Pod]) -> Option<BatchPlan> {
///     let mut plan = BatchPlan::default();
///     plan.pods.push(PodPlan::new(*pods.first()?, vec![Cohort::new(0, rest.to_vec(), 0)]));
///     Some(plan)
/// }
///
/// impl BatchWork for Questions {
///     fn size(&self, place: u32) -> Size {
///         Size { prompt: self.0[place as usize].len() as u32, output: 16 }
///     }
///
///     fn request(&mut self, place: u32) -> ClientRequest {
///         let body = Bytes::from(format!(r#"{{"prompt":"{}"}}"#, self.0[place as usize]));
///         let (parts, body) = Request::post("/v1/completions").body(body).unwrap().into_parts();
///         ClientRequest::new(&parts, body, u64::from(place))
///     }
///
///     fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan> {
///         plan(rest, living)
///     }
/// }
///
/// # struct Piece(Option<Bytes>);
/// # impl Body for Piece {
/// #     type Data = Bytes;
/// #     type Error = Infallible;
/// #     fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
/// #         Poll::Ready(self.0.take().map(|piece| Ok(Frame::data(piece))))
/// #     }
/// # }
/// # struct Clock;
/// # impl Timer for Clock {
/// #     fn now(&self) -> Instant {
/// #         Instant::now()
/// #     }
/// #     fn sleep_until(&self, _: Instant) -> impl Future<Output = ()> + Send + 'static {
/// #         pending()
/// #     }
/// # }
/// // `Piece` is a body in one piece and `Clock` a timer, as in the example of `Driver`.
/// let transport = |_: Pod, request: Request<Bytes>| async move {
///     Ok::<_, TransportError>(Response::new(Piece(Some(request.into_body()))))
/// };
/// let driver: Driver<_, _> = Driver::new(transport, Clock);
/// let settings = Settings::new(Arc::new(Plain::default()), Arc::new(()));
///
/// let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
/// let pod = index.join("pod-0").unwrap();
/// let batch = Questions(vec!["why", "where", "when"]);
/// let plan = plan(&[0, 1, 2], &[pod]).unwrap();
/// let mut runner = BatchRunner::new(driver, settings, batch, 3, plan);
///
/// // Nothing here waits for long; a host awaits.
/// let mut cx = Context::from_waker(Waker::noop());
/// let mut answers = Vec::new();
/// loop {
///     match pin!(runner.next()).poll(&mut cx) {
///         Poll::Ready(Some(result)) => answers.push(result?.outcome.unwrap().body),
///         Poll::Ready(None) => break,
///         Poll::Pending => {}
///     }
/// }
/// assert_eq!(answers, [r#"{"prompt":"why"}"#, r#"{"prompt":"where"}"#, r#"{"prompt":"when"}"#]);
/// assert_eq!(runner.progress().succeeded, 3);
/// # Ok::<(), routing_exec::batch::BatchError>(())
/// ```
pub struct BatchRunner<T: Transport, C: Timer, S, const W: usize = DEFAULT_POD_WORDS> {
    driver: Driver<T, C, W>,
    settings: Settings,
    config: BatchRunConfig,
    work: S,
    board: Board,
    flights: Vec<Option<Flight<T, C, W>>>,
    free: Vec<usize>,
    flying: usize,
    bells: Bells,
    ready: Ready,
    /// Requests that a dead pod had or that a pod failed, and that are to be sent again: what counts of it.
    tried: HashMap<u32, Tried>,
    journal: Option<Box<dyn Keep + Send>>,
    watcher: Option<Watcher>,
    alarm: Option<(Instant, Sleep)>,
    /// When to ask again whether a pod may begin something.
    refused: Option<Instant>,
    /// Since when no pod lives.
    forsaken: Option<Instant>,
    /// Since when requests are kept that no living pod has room for.
    outsized: Option<Instant>,
    counts: Counts,
    /// The first plan, until the first poll.
    plan: Option<BatchPlan>,
    started: Option<Instant>,
    /// Who is given something first, so that a full window does not always starve the same pods.
    turn: usize,
    /// Whether anything may have changed what can be sent.
    is_stirred: bool,
    state: State,
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
type Watcher = Box<dyn FnMut(&BatchProgress) + Send>;

#[derive(Clone, Copy, Debug)]
struct Tried {
    sent: u32,
    failures: u32,
    since: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Results that are there are handed out, then this.
    Failing(BatchError),
    Over,
}

impl<T: Transport, C: Timer, S: BatchWork, const W: usize> BatchRunner<T, C, S, W> {
    /// A runner of a batch of so many requests by a plan, whose pods take part.
    ///
    /// A request that the plan has in no cohort has a failure as its result, unless it is [done](Self::done) already.
    pub fn new(driver: Driver<T, C, W>, settings: Settings, work: S, requests: u32, plan: BatchPlan) -> Self {
        let config = BatchRunConfig::default();
        let mut board = Board::new(requests);
        for part in &plan.pods {
            board.join(part.pod, config.bound);
        }
        Self {
            driver,
            settings,
            ready: Ready::new(config.order),
            config,
            work,
            board,
            flights: Vec::new(),
            free: Vec::new(),
            flying: 0,
            bells: Bells::default(),
            tried: HashMap::new(),
            journal: None,
            watcher: None,
            alarm: None,
            refused: None,
            forsaken: None,
            outsized: None,
            counts: Counts::default(),
            plan: Some(plan),
            started: None,
            turn: 0,
            is_stirred: true,
            state: State::Running,
        }
    }

    /// The same, carried out like this. To be called before [`bound`](Self::bound), whose say it replaces.
    #[must_use]
    pub fn config(mut self, config: BatchRunConfig) -> Self {
        self.ready = Ready::new(config.order);
        self.board.lanes.iter_mut().for_each(|lane| lane.bound = config.bound);
        self.config = config;
        self
    }

    /// The same with another bound for a pod of the plan.
    #[must_use]
    pub fn bound(mut self, pod: Pod, bound: Bound) -> Self {
        self.board.lanes.iter_mut().filter(|lane| lane.pod == pod).for_each(|lane| lane.bound = bound);
        self
    }

    /// The same with requests that have results already, from a journal: they are not sent, and their results do not come
    /// again.
    #[must_use]
    pub fn done(mut self, places: impl IntoIterator<Item = u32>) -> Self {
        let before = self.board.left();
        places.into_iter().for_each(|place| self.board.set_past(place));
        self.counts.resumed += before - self.board.left();
        self
    }

    /// The same with a journal that every result is written to before it is handed out.
    ///
    /// It is written within [`poll_next`](Self::poll_next), and so blocks for as long as its file does.
    #[must_use]
    pub fn journal(mut self, journal: impl Keep + Send + 'static) -> Self {
        self.journal = Some(Box::new(journal));
        self
    }

    /// The same with somebody who is told of the progress at every result.
    #[must_use]
    pub fn on_progress(mut self, watcher: impl FnMut(&BatchProgress) + Send + 'static) -> Self {
        self.watcher = Some(Box::new(watcher));
        self
    }

    /// The next result; none when all are out. After an error there is nothing more.
    ///
    /// # Errors
    ///
    /// When the batch ends before its requests do.
    pub async fn next(&mut self) -> Option<Result<BatchResult, BatchError>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same for hosts that poll.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BatchResult, BatchError>>> {
        if self.state == State::Running {
            self.bells.attend(cx.waker());
            self.start();
            self.carry_on(cx);
        }
        let board = &self.board;
        if let Some(result) = self.ready.pop(|place| board.is_past(place)) {
            self.is_stirred = true;
            return Poll::Ready(Some(Ok(result)));
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => Poll::Ready(None),
            State::Failing(error) => Poll::Ready(Some(Err(error))),
            State::Running if self.board.left() > 0 => {
                self.state = State::Running;
                Poll::Pending
            }
            State::Running => Poll::Ready(self.close().err().map(Err)),
        }
    }

    /// A pod has come, or is known to live again: what is not under way is planned anew, with it.
    pub fn join(&mut self, pod: Pod) {
        if self.state == State::Running {
            self.revived(pod);
        }
    }

    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> BatchProgress {
        BatchProgress::of(&self.board, self.counts, self.ready.len(), self.started, self.now())
    }

    /// The host's batch.
    #[must_use]
    pub fn work(&self) -> &S {
        &self.work
    }

    fn now(&self) -> Instant {
        self.driver.timer().now()
    }
}

// What is pinned is boxed.
impl<T: Transport, C: Timer, S, const W: usize> Unpin for BatchRunner<T, C, S, W> {}

impl<T: Transport, C: Timer, S, const W: usize> fmt::Debug for BatchRunner<T, C, S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("BatchRunner");
        shown.field("left", &self.board.left()).field("in_flight", &self.flying).field("state", &self.state);
        shown.finish_non_exhaustive()
    }
}
