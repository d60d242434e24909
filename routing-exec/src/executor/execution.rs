//! Execution: one dispatch with its attempts, timers, guards and breaker permits.
//!
//! Actions are performed at once, except those for the client: they wait until the body is polled, and no pod is read before
//! that (backpressure).

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, response};
use parking_lot::Mutex;
use routing_core::{InFlightGuard, Pod};

use super::deadlines::{Expire, Watch};
use super::host::DispatchHost;
use super::timers::Timers;
use super::transport::{Timer, Transport};
use super::transport_executor::TransportExecutor;
use super::upstream::Upstream;
use super::wakeups::Wakeups;
use crate::action::{Action, AttemptId, Input, TimerId};
use crate::breaker::{Admission, Permit};
use crate::dispatch::Dispatch;
use crate::failure::Failure;

/// A part of the client's response. Parts that come once are boxed, so that chunks, which are many, move cheaply.
pub(super) enum Event {
    Head(Box<response::Parts>),
    Respond(Box<Response<Bytes>>),
    Chunk(Bytes),
    Trailers(Box<HeaderMap>),
    /// The response is truncated.
    Abort,
    Over,
}

/// An attempt to be sent.
struct Unsent {
    attempt: AttemptId,
    pod: Pod,
    request: Request<Bytes>,
    forced: bool,
}

pub(super) struct Execution<T: Transport, C: Timer, H: DispatchHost, const W: usize> {
    executor: TransportExecutor<T, C, W>,
    dispatch: Dispatch,
    host: H,
    upstream: Upstream<T::Body>,
    timers: Timers,
    guards: Vec<(AttemptId, H::Guard)>,
    /// The breakers' admission of each attempt, and their permits until it is over.
    permits: Vec<(AttemptId, Admission, Option<Permit<W>>)>,
    /// Attempts to send once no action is left: one of those may cancel them.
    unsent: VecDeque<Unsent>,
    /// Parts of the client's response that were not polled yet.
    ready: VecDeque<Event>,
    started: bool,
    /// Whether the client was handed something since pods were last polled.
    paused: bool,
    wakeups: Wakeups,
    /// Whether pods and timers were polled in vain: they are polled again once one of them woke.
    waits: bool,
}

// Pinned futures and bodies are boxed.
impl<T: Transport, C: Timer, H: DispatchHost, const W: usize> Unpin for Execution<T, C, H, W> {}

/// Inputs handled within one poll before it yields to other tasks. Only pods with a steady stream of chunks that are not
/// forwarded come near it.
const MAX_INPUTS_PER_POLL: usize = 64;

impl<T: Transport, C: Timer, H: DispatchHost, const W: usize> Execution<T, C, H, W> {
    pub(super) fn new(executor: TransportExecutor<T, C, W>, dispatch: Dispatch, host: H) -> Self {
        Self {
            executor,
            dispatch,
            host,
            upstream: Upstream::default(),
            timers: Timers::default(),
            guards: Vec::new(),
            permits: Vec::new(),
            unsent: VecDeque::new(),
            ready: VecDeque::new(),
            started: false,
            paused: false,
            wakeups: Wakeups::default(),
            waits: false,
        }
    }

    /// The next part of the client's response.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let mut wakeups = std::mem::take(&mut self.wakeups);
        let (is_woken, waker) = wakeups.take(cx);
        let event = match is_woken || !self.waits {
            true => self.poll_woken(&mut Context::from_waker(waker)),
            false => Poll::Pending,
        };
        (self.wakeups, self.waits) = (wakeups, event.is_pending());
        event
    }

    fn poll_woken(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if !self.started {
            self.start();
        }
        for _ in 0..MAX_INPUTS_PER_POLL {
            self.perform_all();
            if let Some(event) = self.ready.pop_front() {
                self.paused = true;
                return Poll::Ready(event);
            }
            if self.dispatch.is_over() {
                return Poll::Ready(Event::Over);
            }
            match self.upstream.poll(cx) {
                Poll::Ready((id, input)) => self.handle(id, input),
                Poll::Pending => {
                    self.resume(None);
                    let Poll::Ready(timer) = self.timers.poll(cx) else { return Poll::Pending };
                    self.dispatch.handle(self.now(), Input::Expired(timer));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ends it at its deadline, though its response may not be polled.
    pub(super) fn watch(shared: &Arc<Mutex<Self>>) -> Option<Watch> {
        let execution = shared.lock();
        let deadlines = execution.executor.deadlines.as_ref()?;
        let watched: Weak<Mutex<Self>> = Arc::downgrade(shared);
        execution.dispatch.deadline().map(|deadline| deadlines.watch(deadline, watched))
    }

    /// Whether the client has got everything.
    pub(super) fn is_over(&self) -> bool {
        self.dispatch.is_over() && self.ready.is_empty()
    }

    fn now(&self) -> Instant {
        self.executor.parts.timer.now()
    }

    fn start(&mut self) {
        self.started = true;
        let now = self.now();
        if let Some(breakers) = &self.executor.parts.breakers {
            breakers.tick(now);
        }
        self.dispatch.start(now);
    }

    /// Handles a pod's input, and then due timers, lest a pod that always has input outlive them.
    fn handle(&mut self, id: AttemptId, input: Input) {
        self.resume(Some(id));
        let now = self.now();
        self.dispatch.handle(now, input);
        self.perform_all();
        while let Some(timer) = self.timers.take_due(now) {
            self.dispatch.handle(now, Input::Expired(timer));
        }
    }

    /// Restarts the idle timeouts of pods that were not polled while the client was busy: an empty chunk does so.
    fn resume(&mut self, ready: Option<AttemptId>) {
        if !std::mem::take(&mut self.paused) {
            return;
        }
        for id in self.upstream.begun().filter(|id| Some(*id) != ready) {
            self.dispatch.handle(self.executor.parts.timer.now(), Input::Chunk(id, Bytes::new()));
        }
    }

    /// Performs all actions, and queues those for the client.
    fn perform_all(&mut self) {
        loop {
            while let Some(action) = self.dispatch.next_action() {
                self.perform(action);
            }
            let Some(unsent) = self.unsent.pop_front() else { return };
            self.send(unsent);
        }
    }

    fn send(&mut self, unsent: Unsent) {
        let Unsent { attempt, pod, mut request, forced } = unsent;
        let parts = &self.executor.parts;
        if let Some(breakers) = &parts.breakers {
            let now = parts.timer.now();
            let permit = if forced { breakers.admit_forced(pod, now) } else { breakers.admit(pod, now) };
            let Some(permit) = permit else {
                let input = match breakers.status(pod) {
                    Some(status) => Input::Refused(attempt, status.wait(now)),
                    // Another pod has its place.
                    None => Input::Failed(attempt, Failure::BreakerOpen),
                };
                return self.dispatch.handle(now, input);
            };
            self.permits.push((attempt, permit.admission(), Some(permit)));
        }
        self.host.before_send(pod, request.headers_mut());
        self.upstream.send(attempt, Box::pin(parts.transport.send(pod, request)));
    }

    /// The breakers' admission of an attempt.
    fn admission(&self, id: AttemptId) -> Option<Admission> {
        self.permits.iter().find(|(held, ..)| *held == id).map(|(_, admission, _)| *admission)
    }

    fn perform(&mut self, action: Action) {
        let parts = &self.executor.parts;
        match action {
            Action::Send { attempt, pod, request, forced, .. } => {
                self.unsent.push_back(Unsent { attempt, pod, request, forced });
            }
            Action::Cancel(id) => {
                self.unsent.retain(|unsent| unsent.attempt != id);
                self.upstream.cancel(id);
            }
            Action::Acquire(id, pod, step) => {
                if let Some(step) = self.dispatch.plan().steps().get(step) {
                    self.guards.push((id, self.host.begin_attempt(pod, step)));
                }
            }
            Action::FirstByte(id) => {
                if let Some((_, guard)) = self.guards.iter_mut().find(|(held, _)| *held == id) {
                    guard.first_byte();
                }
            }
            Action::Release(id) => {
                self.guards.retain(|(held, _)| *held != id);
                self.permits.iter_mut().filter(|(held, ..)| *held == id).for_each(|(.., permit)| drop(permit.take()));
                self.timers.clear(TimerId::Attempt(id));
            }
            Action::Sample(id, _, sample) => {
                if let Some((breakers, admission)) = parts.breakers.as_ref().zip(self.admission(id)) {
                    breakers.record(admission, &sample, parts.timer.now());
                }
            }
            Action::Exonerate(id, _) => {
                if let Some((breakers, admission)) = parts.breakers.as_ref().zip(self.admission(id)) {
                    breakers.exonerate(admission);
                }
            }
            Action::SetTimer(timer, at) => self.timers.set(timer, at, Box::pin(parts.timer.sleep_until(at))),
            Action::Replan(excluded) => {
                let plan = self.host.replan(&excluded);
                self.dispatch.handle(parts.timer.now(), Input::Replanned(plan));
            }
            Action::Head(head) => self.ready.push_back(Event::Head(Box::new(head))),
            Action::Forward(chunk) => self.ready.push_back(Event::Chunk(chunk)),
            Action::Trailers(trailers) => self.ready.push_back(Event::Trailers(Box::new(trailers))),
            Action::Respond(response) => self.ready.push_back(Event::Respond(Box::new(response))),
            Action::Abort => self.ready.push_back(Event::Abort),
            Action::Finish(report) => {
                (self.upstream, self.timers) = (Upstream::default(), Timers::default());
                self.host.finished(report);
            }
        }
    }
}

impl<T: Transport, C: Timer, H: DispatchHost, const W: usize> Expire for Mutex<Execution<T, C, H, W>> {
    fn expire(&self, now: Instant) {
        let mut execution = self.lock();
        execution.dispatch.handle(now, Input::Expired(TimerId::Deadline));
        execution.perform_all();
        // There is something for whoever polls next, whether or not anything woke.
        execution.waits = false;
    }
}

impl<T: Transport, C: Timer, H: DispatchHost, const W: usize> Drop for Execution<T, C, H, W> {
    /// The client disconnected: cancels what is in flight, and reports that to the host.
    fn drop(&mut self) {
        self.dispatch.handle(self.executor.parts.timer.now(), Input::ClientDisconnected);
        while let Some(action) = self.dispatch.next_action() {
            // Nothing is started any more.
            if !matches!(action, Action::Send { .. } | Action::Acquire(..) | Action::SetTimer(..) | Action::Replan(_)) {
                self.perform(action);
            }
        }
    }
}
