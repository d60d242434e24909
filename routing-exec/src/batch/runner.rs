//! Batch runner: executes a batch plan, as a stream of results.
//!
//! It holds a future for each request in flight, and polls those that were woken. The rule that must never break: a result is in
//! the journal before the consumer has it.

mod completion;
mod pod_health;
mod poll;
mod send;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use routing_core::Pod;
use routing_core::batch::{BatchPlan, ConcurrencyLimit};

use super::config::BatchRunnerConfig;
use super::error::BatchError;
use super::in_flight::{Attempts, InFlight};
use super::journal::ResultSink;
use super::progress::BatchProgress;
use super::request_states::RequestStates;
use super::result::BatchResult;
use super::result_queue::ResultQueue;
use super::source::BatchSource;
use super::wakers::SlotWakers;
use crate::dispatch::DispatchConfig;
use crate::executor::{Executor, Timer};

/// Executes a batch plan through an [`Executor`]. It is driven by polling only, and dropping it cancels what is in flight.
///
/// Requests that were in flight when a pod went down, or when the runner was dropped, may have been processed without a response:
/// they are sent again (at least once), and have one result.
///
/// # Examples
///
/// Three requests for one pod that responds from memory.
///
/// ```
/// use std::convert::Infallible;
/// use std::future::{Future, pending};
/// use std::pin::{Pin, pin};
/// use std::sync::Arc;
/// use std::task::{Context, Poll, Waker};
/// use std::time::{Duration, Instant};
///
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body::{Body, Frame};
/// use routing_core::Pod;
/// use routing_core::batch::{BatchPlan, Cohort, PodPlan};
/// use routing_exec::batch::{BatchRunner, BatchSource, RequestSize};
/// use routing_exec::handoff::Plain;
/// use routing_exec::{ClientRequest, DispatchConfig, Timer, TransportError, TransportExecutor};
///
/// /// The batch.
/// struct Questions(Vec<&'static str>);
///
/// /// All in one cohort for the first pod. A real source calls a planner.
/// fn plan(requests: &[u32], pods: &[Pod]) -> Option<BatchPlan> {
///     let mut plan = BatchPlan::default();
///     plan.pods.push(PodPlan::new(*pods.first()?, vec![Cohort::new(0, requests.to_vec(), 0)]));
///     Some(plan)
/// }
///
/// impl BatchSource for Questions {
///     fn size(&self, index: u32) -> RequestSize {
///         RequestSize { prompt: self.0[index as usize].len() as u32, output: 16 }
///     }
///
///     fn request(&mut self, index: u32) -> ClientRequest {
///         let body = Bytes::from(format!(r#"{{"prompt":"{}"}}"#, self.0[index as usize]));
///         let (parts, body) = Request::post("/v1/completions").body(body).unwrap().into_parts();
///         ClientRequest::new(&parts, body, u64::from(index))
///     }
///
///     fn replan(&mut self, requests: &[u32], pods: &[Pod]) -> Option<BatchPlan> {
///         plan(requests, pods)
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
/// # #[derive(Clone)]
/// # struct Clock;
/// # impl Timer for Clock {
/// #     fn now(&self) -> Instant {
/// #         Instant::now()
/// #     }
/// #     fn sleep_until(&self, _: Instant) -> impl Future<Output = ()> + Send + 'static {
/// #         pending()
/// #     }
/// # }
/// // `Piece` is a body of one chunk and `Clock` a timer, as in the example of `TransportExecutor`.
/// let transport = |_: Pod, request: Request<Bytes>| async move {
///     Ok::<_, TransportError>(Response::new(Piece(Some(request.into_body()))))
/// };
/// let executor: TransportExecutor<_, _> = TransportExecutor::new(transport, Clock);
/// let config = DispatchConfig::new(Arc::new(Plain::default()), Arc::new(()));
///
/// let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
/// let pod = index.join("pod-0").unwrap();
/// let batch = Questions(vec!["why", "where", "when"]);
/// let plan = plan(&[0, 1, 2], &[pod]).unwrap();
/// let mut runner = BatchRunner::new(executor, Clock, config, batch, 3, plan);
///
/// // Nothing here waits, so polling is enough.
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
pub struct BatchRunner<E: Executor, C: Timer, S> {
    executor: E,
    timer: C,
    dispatch_config: DispatchConfig,
    config: BatchRunnerConfig,
    source: S,
    states: RequestStates,
    slots: Vec<Option<InFlight<E>>>,
    free_slots: Vec<usize>,
    in_flight: usize,
    wakers: SlotWakers,
    results: ResultQueue,
    /// Attempts of requests that lost their pod and are to be sent again.
    attempts: HashMap<u32, Attempts>,
    journal: Option<Box<dyn ResultSink + Send>>,
    on_progress: Option<OnProgress>,
    wakeup: Option<(Instant, Sleep)>,
    /// When to consult the source's admission again.
    admit_at: Option<Instant>,
    /// When to look again whether to move work.
    move_at: Option<Instant>,
    /// Since when no pod is up.
    no_pods_since: Option<Instant>,
    /// Since when requests are parked that no pod that is up can hold.
    oversized_since: Option<Instant>,
    /// What is counted as it happens; the rest is filled in when progress is asked for.
    counts: BatchProgress,
    /// The first plan, until the first poll.
    plan: Option<BatchPlan>,
    started: Option<Instant>,
    /// The first queue to send from, so that backpressure does not starve the same pods.
    first_queue: usize,
    /// Whether something may have become sendable.
    may_send: bool,
    state: State,
    /// Whether it is over because of an error.
    is_failed: bool,
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
type OnProgress = Box<dyn FnMut(&BatchProgress) + Send>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Buffered results are returned, then this.
    Failing(BatchError),
    Over,
}

impl<E: Executor, C: Timer, S: BatchSource> BatchRunner<E, C, S> {
    /// A runner of a batch of so many requests, on the pods of a plan.
    ///
    /// A request that the plan leaves out fails, unless it is [completed](Self::completed) already.
    pub fn new(
        executor: E,
        timer: C,
        mut dispatch_config: DispatchConfig,
        source: S,
        requests: u32,
        plan: BatchPlan,
    ) -> Self {
        // A batch can wait for its pods, and moves its requests where it cannot.
        let policy = (*dispatch_config.policy).clone().fail_open(false);
        dispatch_config.policy = policy.into();
        let config = BatchRunnerConfig::default();
        let mut states = RequestStates::new(requests, &config);
        for part in &plan.pods {
            states.add_pod(part.pod, config.limit);
        }
        Self {
            executor,
            timer,
            dispatch_config,
            results: ResultQueue::new(config.order),
            config,
            source,
            states,
            slots: Vec::new(),
            free_slots: Vec::new(),
            in_flight: 0,
            wakers: SlotWakers::default(),
            attempts: HashMap::new(),
            journal: None,
            on_progress: None,
            wakeup: None,
            admit_at: None,
            move_at: None,
            no_pods_since: None,
            oversized_since: None,
            counts: BatchProgress::default(),
            plan: Some(plan),
            started: None,
            first_queue: 0,
            may_send: true,
            state: State::Running,
            is_failed: false,
        }
    }

    /// Sets the configuration. To be called before [`limit`](Self::limit), which it resets.
    #[must_use]
    pub fn config(mut self, config: BatchRunnerConfig) -> Self {
        self.results = ResultQueue::new(config.order);
        let mut states = RequestStates::new(self.states.requests() as u32, &config);
        for pod in &self.states.pods {
            states.add_pod(pod.pod, config.limit);
        }
        (0..self.states.requests() as u32)
            .filter(|index| self.states.is_resumed(*index))
            .for_each(|index| states.mark_resumed(index));
        (self.states, self.config) = (states, config);
        self
    }

    /// Sets the limit of a pod of the plan.
    #[must_use]
    pub fn limit(mut self, pod: Pod, limit: ConcurrencyLimit) -> Self {
        if let Some(number) = self.states.lists.number(pod) {
            self.states.lists.limit(number, limit);
        }
        self
    }

    /// Sets requests that have results from an earlier run, by a journal: they are not sent, and their results are not returned
    /// again.
    #[must_use]
    pub fn completed(mut self, indices: impl IntoIterator<Item = u32>) -> Self {
        let before = self.states.remaining();
        indices.into_iter().for_each(|index| self.states.mark_resumed(index));
        self.counts.resumed += before - self.states.remaining();
        self
    }

    /// Sets a journal, to which every result is written before it is returned.
    ///
    /// It is written within [`poll_next`](Self::poll_next), which blocks for as long as its file does.
    #[must_use]
    pub fn journal(mut self, journal: impl ResultSink + Send + 'static) -> Self {
        self.journal = Some(Box::new(journal));
        self
    }

    /// Sets a callback for the progress at every result.
    #[must_use]
    pub fn on_progress(mut self, on_progress: impl FnMut(&BatchProgress) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(on_progress));
        self
    }

    /// The next result; `None` after the last one and after an error.
    ///
    /// # Errors
    ///
    /// When the batch ends before all its requests have results.
    pub async fn next(&mut self) -> Option<Result<BatchResult, BatchError>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the [`next`](Self::next) result.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BatchResult, BatchError>>> {
        if self.state == State::Running {
            self.wakers.register(cx.waker());
            self.start();
            self.run_ready(cx);
        }
        let states = &self.states;
        if let Some(result) = self.results.pop(|index| states.is_resumed(index)) {
            self.may_send = true;
            return Poll::Ready(Some(Ok(result)));
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => Poll::Ready(None),
            State::Failing(error) => {
                self.is_failed = true;
                Poll::Ready(Some(Err(error)))
            }
            State::Running if self.states.remaining() > 0 => {
                self.state = State::Running;
                Poll::Pending
            }
            State::Running => {
                let closed = self.close();
                self.is_failed = closed.is_err();
                Poll::Ready(closed.err().map(Err))
            }
        }
    }

    /// Adds a pod, or marks it as up: all that is not in flight is replanned.
    pub fn join(&mut self, pod: Pod) {
        if self.state == State::Running {
            self.mark_up(pod);
        }
    }

    /// Adds so many requests to the batch, with the indices that follow: the source is asked to plan them. They go behind what is as
    /// urgent, and before what is less so. A journal, if there is one, has to have been made for all of them.
    ///
    /// To be called after those that set something. Also after the last result, when [`next`](Self::next) has returned `None`; not after an error.
    pub fn extend(&mut self, requests: u32) {
        self.start();
        let added = self.states.extend(requests);
        if self.state == State::Over && !self.is_failed {
            self.state = State::Running;
        }
        self.replan_requests(added.collect());
    }

    /// The progress.
    #[must_use]
    pub fn progress(&self) -> BatchProgress {
        BatchProgress::of(&self.states, &self.counts, self.results.len(), self.started, self.now())
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> &S {
        &self.source
    }

    fn now(&self) -> Instant {
        self.timer.now()
    }

    /// Since the first poll.
    fn since_start(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| self.now().saturating_duration_since(started))
    }
}

// Pinned futures are boxed, and bodies are `Unpin`.
impl<E: Executor, C: Timer, S> Unpin for BatchRunner<E, C, S> {}

impl<E: Executor, C: Timer, S> fmt::Debug for BatchRunner<E, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("BatchRunner");
        shown
            .field("remaining", &self.states.remaining())
            .field("in_flight", &self.in_flight)
            .field("state", &self.state);
        shown.finish_non_exhaustive()
    }
}
