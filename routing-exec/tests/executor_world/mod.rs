//! A world in memory: time that is moved by hand, pods that play what was written for them, and tasks that run in turn.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a world that is wrong stops the test")]
#![allow(clippy::disallowed_methods, reason = "some instant to count from")]

mod dialects;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use routing_core::{InFlightGuard, PlanStep, Pod, Role, RoutingPlan};
use routing_exec::handoff::Plain;
use routing_exec::{
    ClientRequest, Dispatch, DispatchConfig, DispatchHost, DispatchPolicy, DispatchReport, Timer, Transport,
    TransportError,
};

#[allow(unused_imports, reason = "each test uses a part of it")]
pub(crate) use self::dialects::*;

/// Time, and everyone who waits for some of it.
#[derive(Clone, Default)]
pub(crate) struct Clock(Arc<Mutex<Time>>);

struct Time {
    now: Instant,
    sleepers: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    /// Sleeps that are neither over nor dropped.
    asleep: usize,
}

impl Default for Time {
    fn default() -> Self {
        Self { now: Instant::now(), sleepers: BTreeMap::new(), next: 0, asleep: 0 }
    }
}

impl Clock {
    pub(crate) fn advance(&self, by: Duration) {
        let woken: Vec<Waker> = {
            let mut time = self.0.lock().unwrap();
            time.now += by;
            let now = time.now;
            let later = time.sleepers.split_off(&(now + Duration::from_nanos(1), 0));
            std::mem::replace(&mut time.sleepers, later).into_values().collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Moves on to where the next sleeper wakes; false if there is none.
    pub(crate) fn advance_to_next(&self) -> bool {
        let by = {
            let time = self.0.lock().unwrap();
            time.sleepers.keys().next().map(|(at, _)| at.saturating_duration_since(time.now))
        };
        by.inspect(|by| self.advance(*by)).is_some()
    }

    pub(crate) fn asleep(&self) -> usize {
        self.0.lock().unwrap().asleep
    }
}

impl Timer for Clock {
    fn now(&self) -> Instant {
        self.0.lock().unwrap().now
    }

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static {
        sleep(self, at)
    }
}

pub(crate) fn sleep(clock: &Clock, at: Instant) -> Sleep {
    let mut time = clock.0.lock().unwrap();
    time.asleep += 1;
    time.next += 1;
    Sleep { clock: clock.clone(), key: (at, time.next), over: false }
}

pub(crate) struct Sleep {
    clock: Clock,
    key: (Instant, u64),
    over: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        assert!(!self.over, "polled after its end");
        let mut time = self.clock.0.lock().unwrap();
        if time.now < self.key.0 {
            time.sleepers.insert(self.key, cx.waker().clone());
            return Poll::Pending;
        }
        drop(time);
        self.over = true;
        Poll::Ready(())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let mut time = self.clock.0.lock().unwrap();
        time.sleepers.remove(&self.key);
        time.asleep -= 1;
    }
}

/// What a pod does, one after the other. After the last, its answer is complete.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Refuse,
    Wait(Duration),
    /// Says nothing any more.
    Hang,
    /// Not ready this once, and woken at once.
    Yield,
    Head(Response<()>),
    Chunk(Bytes),
    Trailers(HeaderMap),
    Cut,
}

pub(crate) fn head(status: u16, kind: &str) -> Act {
    Act::Head(Response::builder().status(status).header("content-type", kind).body(()).unwrap())
}

pub(crate) fn events() -> Act {
    head(200, "text/event-stream")
}

pub(crate) fn chunk(bytes: &str) -> Act {
    Act::Chunk(Bytes::copy_from_slice(bytes.as_bytes()))
}

/// What happens on the pods' side.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) sent: AtomicUsize,
    /// Attempts that are neither over nor dropped.
    pub(crate) live: AtomicUsize,
    /// Acts that were played.
    pub(crate) acts: AtomicUsize,
    pub(crate) polls: AtomicUsize,
}

type Script = dyn Fn(Pod, &Request<Bytes>) -> Vec<Act> + Send + Sync;

/// Pods that play scripts.
#[derive(Clone)]
pub(crate) struct Pods {
    pub(crate) clock: Clock,
    pub(crate) seen: Arc<Seen>,
    script: Arc<Script>,
}

impl Pods {
    pub(crate) fn new(
        clock: &Clock,
        script: impl Fn(Pod, &Request<Bytes>) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        Self { clock: clock.clone(), seen: Arc::default(), script: Arc::new(script) }
    }

    pub(crate) fn play(&self, acts: Vec<Act>) -> Play {
        self.seen.live.fetch_add(1, SeqCst);
        Play { clock: self.clock.clone(), seen: Arc::clone(&self.seen), acts: acts.into(), sleep: None }
    }
}

impl Transport for Pods {
    type Body = Play;

    fn send(
        &self,
        pod: Pod,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Play>, TransportError>> + Send + 'static {
        self.seen.sent.fetch_add(1, SeqCst);
        assert!(request.uri().authority().is_none());
        let mut play = Some(self.play((self.script)(pod, &request)));
        std::future::poll_fn(move |cx| {
            let act = match play.as_mut().expect("not polled after its end").poll_act(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(act) => act,
            };
            let play = play.take().expect("it was there");
            Poll::Ready(match act {
                Some(Act::Head(head)) => Ok(head.map(|()| play)),
                Some(Act::Refuse) => Err(TransportError::Connect("refused".into())),
                _ => Err(TransportError::Reset("cut".into())),
            })
        })
    }
}

pub(crate) struct Play {
    clock: Clock,
    seen: Arc<Seen>,
    acts: VecDeque<Act>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Play {
    fn poll_act(&mut self, cx: &mut Context<'_>) -> Poll<Option<Act>> {
        self.seen.polls.fetch_add(1, SeqCst);
        loop {
            if let Some(sleep) = &mut self.sleep {
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.sleep = None;
            }
            match self.acts.front() {
                Some(Act::Hang) => return Poll::Pending,
                Some(Act::Yield) => {
                    self.acts.pop_front();
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Act::Wait(time)) => {
                    let at = self.clock.now() + *time;
                    self.sleep = Some(Box::pin(sleep(&self.clock, at)));
                    self.acts.pop_front();
                }
                _ => {
                    self.seen.acts.fetch_add(1, SeqCst);
                    return Poll::Ready(self.acts.pop_front());
                }
            }
        }
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        self.seen.live.fetch_sub(1, SeqCst);
    }
}

impl Body for Play {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        self.poll_act(cx).map(|act| match act {
            Some(Act::Chunk(chunk)) => Some(Ok(Frame::data(chunk))),
            Some(Act::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Some(Act::Cut) => Some(Err(TransportError::Reset("cut".into()))),
            Some(other) => panic!("no part of a body: {other:?}"),
            None => None,
        })
    }
}

/// What hosts are told, and what they hold, over all dispatches.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) holds: AtomicUsize,
    pub(crate) held_ever: AtomicUsize,
    pub(crate) first_bytes: AtomicUsize,
    pub(crate) reports: Mutex<Vec<DispatchReport>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Keeper(pub(crate) Arc<Ledger>, pub(crate) Option<RoutingPlan>);

#[derive(Debug)]
pub(crate) struct Guard(Arc<Ledger>);

impl InFlightGuard for Guard {
    fn first_byte(&mut self) {
        self.0.first_bytes.fetch_add(1, SeqCst);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, SeqCst);
    }
}

impl DispatchHost for Keeper {
    type Guard = Guard;

    fn begin_attempt(&mut self, _: Pod, _: &PlanStep) -> Guard {
        self.0.holds.fetch_add(1, SeqCst);
        self.0.held_ever.fetch_add(1, SeqCst);
        Guard(Arc::clone(&self.0))
    }

    fn replan(&mut self, _: &[Pod]) -> Option<RoutingPlan> {
        self.1.take()
    }

    fn finished(&mut self, report: DispatchReport) {
        self.0.reports.lock().unwrap().push(report);
    }
}

/// So many pods.
pub(crate) fn pods(count: usize) -> Vec<Pod> {
    let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
    (0..count).map(|at| index.join(&format!("pod-{at}")).unwrap()).collect()
}

pub(crate) fn request() -> ClientRequest {
    let (parts, body) = Request::post("/v1/chat/completions").body(Bytes::from("{}")).unwrap().into_parts();
    ClientRequest::new(&parts, body, 7)
}

pub(crate) fn dispatch_config() -> DispatchConfig {
    let mut config = DispatchConfig::new(Arc::new(Plain::default()), Arc::new(()));
    // Streams here are shorter than engines' are.
    config.policy = Arc::new(DispatchPolicy::default().require_done(false));
    config
}

pub(crate) fn serve(pods: &[Pod]) -> RoutingPlan {
    RoutingPlan::new(1, [PlanStep::new("serve", Role::Both, pods)])
}

pub(crate) fn dispatch(pods: &[Pod]) -> Dispatch {
    Dispatch::new(dispatch_config(), request(), serve(pods), Vec::new())
}

/// Counts how often it was woken.
#[derive(Debug, Default)]
pub(crate) struct Alarm(pub(crate) AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Polls once.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

type Polled<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

pub(crate) fn poll_frame<B: Body + Unpin>(body: &mut B) -> Polled<B> {
    Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future to its end: polls it only when it was woken, and lets time pass only when nobody is.
pub(crate) fn block_on<F: Future>(clock: &Clock, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    for _ in 0..1_000_000 {
        let before = alarm.0.load(SeqCst);
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while alarm.0.load(SeqCst) == before {
            assert!(clock.advance_to_next(), "nobody will ever wake it");
        }
    }
    panic!("it is polled without end");
}

/// What a body was: its bytes, its trailers and whether it broke off.
pub(crate) type Whole = (Vec<u8>, Option<HeaderMap>, bool);

/// Reads a body to its end.
pub(crate) async fn read<B: Body<Data = Bytes> + Unpin>(mut body: B) -> Whole {
    let (mut bytes, mut trailers) = (Vec::new(), None);
    loop {
        match std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            None => return (bytes, trailers, false),
            Some(Err(_)) => return (bytes, trailers, true),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => bytes.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
        }
    }
}
