//! A run and everything that is under way for it.
//!
//! What the run says is done at once, except what is for the client: that waits until the client asks, and nothing
//! more is read from any pod before it did.

use std::collections::VecDeque;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, response};
use routing_core::{InFlightGuard, Pod};

use super::Driver;
use super::alarms::Alarms;
use super::host::{Host, Timer, Transport};
use super::upstream::Upstream;
use crate::action::{Action, AttemptId, Input, TimerId};
use crate::breaker::{Admitted, Permit};
use crate::failure::Failure;
use crate::run::Run;

/// What the client's side gets of a run. What comes once is boxed, so that chunks, which are many, move lightly.
pub(super) enum Event {
    Head(Box<response::Parts>),
    Answer(Box<Response<Bytes>>),
    Chunk(Bytes),
    Trailers(Box<HeaderMap>),
    /// The answer breaks off.
    Broken,
    Over,
}

pub(super) struct Execution<T: Transport, C: Timer, H: Host, const W: usize> {
    driver: Driver<T, C, W>,
    run: Run,
    host: H,
    upstream: Upstream<T::Body>,
    alarms: Alarms,
    held: Vec<(AttemptId, H::Hold)>,
    /// When breakers let each attempt through, and their permits until it is over.
    permits: Vec<(AttemptId, Admitted, Option<Permit<W>>)>,
    /// What is to be sent once the run has nothing more to say: it may yet think better of it.
    unsent: VecDeque<(AttemptId, Pod, Request<Bytes>)>,
    /// What the client gets of the last thing that happened.
    ready: VecDeque<Event>,
    started: bool,
    /// Whether the client had its time since pods were last listened to.
    paused: bool,
}

// What is pinned is boxed.
impl<T: Transport, C: Timer, H: Host, const W: usize> Unpin for Execution<T, C, H, W> {}

/// Things that happen within one poll before other tasks get their turn. Only pods that always have something to say
/// that is not for the client come near it.
const MOST_PER_POLL: usize = 64;

impl<T: Transport, C: Timer, H: Host, const W: usize> Execution<T, C, H, W> {
    pub(super) fn new(driver: Driver<T, C, W>, run: Run, host: H) -> Self {
        Self {
            driver,
            run,
            host,
            upstream: Upstream::default(),
            alarms: Alarms::default(),
            held: Vec::new(),
            permits: Vec::new(),
            unsent: VecDeque::new(),
            ready: VecDeque::new(),
            started: false,
            paused: false,
        }
    }

    /// The next thing for the client.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if !self.started {
            self.start();
        }
        for _ in 0..MOST_PER_POLL {
            self.settle();
            if let Some(event) = self.ready.pop_front() {
                self.paused = true;
                return Poll::Ready(event);
            }
            if self.run.is_over() {
                return Poll::Ready(Event::Over);
            }
            match self.upstream.poll(cx) {
                Poll::Ready((id, input)) => self.take_in(id, input),
                Poll::Pending => {
                    self.resume(None);
                    let Poll::Ready(timer) = self.alarms.poll(cx) else { return Poll::Pending };
                    self.run.handle(self.now(), Input::Expired(timer));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether the client has had everything.
    pub(super) fn is_over(&self) -> bool {
        self.run.is_over() && self.ready.is_empty()
    }

    fn now(&self) -> Instant {
        self.driver.parts.timer.now()
    }

    fn start(&mut self) {
        self.started = true;
        let now = self.now();
        if let Some(breakers) = &self.driver.parts.breakers {
            breakers.tick(now);
        }
        self.run.start(now);
    }

    /// A pod said something. Timers whose time has come by then go off too, lest a pod that talks on outlive them.
    fn take_in(&mut self, id: AttemptId, input: Input) {
        self.resume(Some(id));
        let now = self.now();
        self.run.handle(now, input);
        self.settle();
        while let Some(timer) = self.alarms.take_due(now) {
            self.run.handle(now, Input::Expired(timer));
        }
    }

    /// Pods were not listened to while the client had its time, so they have not been idle for so long: to the run, each
    /// that waits gives a sign of life now.
    fn resume(&mut self, speaks: Option<AttemptId>) {
        if !std::mem::take(&mut self.paused) {
            return;
        }
        for id in self.upstream.begun().filter(|id| Some(*id) != speaks) {
            self.run.handle(self.driver.parts.timer.now(), Input::Chunk(id, Bytes::new()));
        }
    }

    /// Does all that the run says, and lays ready what is for the client.
    fn settle(&mut self) {
        loop {
            while let Some(action) = self.run.next_action() {
                self.perform(action);
            }
            let Some((attempt, pod, request)) = self.unsent.pop_front() else { return };
            self.send(attempt, pod, request);
        }
    }

    fn send(&mut self, attempt: AttemptId, pod: Pod, request: Request<Bytes>) {
        let parts = &self.driver.parts;
        if let Some(breakers) = &parts.breakers {
            let now = parts.timer.now();
            let Some(permit) = breakers.admit(pod, now) else {
                return self.run.handle(now, Input::Failed(attempt, Failure::Refused));
            };
            self.permits.push((attempt, permit.admitted(), Some(permit)));
        }
        self.upstream.send(attempt, Box::pin(parts.transport.send(pod, request)));
    }

    fn perform(&mut self, action: Action) {
        let parts = &self.driver.parts;
        match action {
            Action::Send { attempt, pod, request, .. } => self.unsent.push_back((attempt, pod, request)),
            Action::Cancel(id) => {
                self.unsent.retain(|(unsent, ..)| *unsent != id);
                self.upstream.cancel(id);
            }
            Action::Hold(id, pod, step) => {
                if let Some(step) = self.run.plan().steps().get(step) {
                    self.held.push((id, self.host.hold(pod, step)));
                }
            }
            Action::FirstByte(id) => {
                if let Some((_, hold)) = self.held.iter_mut().find(|(held, _)| *held == id) {
                    hold.first_byte();
                }
            }
            Action::Release(id) => {
                self.held.retain(|(held, _)| *held != id);
                self.permits.iter_mut().filter(|(held, ..)| *held == id).for_each(|(.., permit)| drop(permit.take()));
                self.alarms.disarm(TimerId::Attempt(id));
            }
            Action::Judge(id, _, verdict) => {
                let admitted = self.permits.iter().find(|(held, ..)| *held == id).map(|(_, admitted, _)| *admitted);
                if let Some((breakers, admitted)) = parts.breakers.as_ref().zip(admitted) {
                    breakers.judge(admitted, &verdict, parts.timer.now());
                }
            }
            Action::Arm(timer, at) => self.alarms.arm(timer, at, Box::pin(parts.timer.sleep_until(at))),
            Action::Replan(without) => {
                let plan = self.host.replan(&without);
                self.run.handle(parts.timer.now(), Input::Replanned(plan));
            }
            Action::Head(head) => self.ready.push_back(Event::Head(Box::new(head))),
            Action::Forward(chunk) => self.ready.push_back(Event::Chunk(chunk)),
            Action::Trailers(trailers) => self.ready.push_back(Event::Trailers(Box::new(trailers))),
            Action::Answer(answer) => self.ready.push_back(Event::Answer(Box::new(answer))),
            Action::Abort => self.ready.push_back(Event::Broken),
            Action::Finish(report) => {
                self.upstream.clear();
                self.alarms.clear();
                self.host.finished(report);
            }
        }
    }
}

impl<T: Transport, C: Timer, H: Host, const W: usize> Drop for Execution<T, C, H, W> {
    /// The client is gone, or the host is: whatever is under way is cancelled, and whoever keeps count is told.
    fn drop(&mut self) {
        self.run.handle(self.driver.parts.timer.now(), Input::ClientGone);
        while let Some(action) = self.run.next_action() {
            // Nothing new is begun: what was said before the end is not done any more.
            if !matches!(action, Action::Send { .. } | Action::Hold(..) | Action::Arm(..) | Action::Replan(_)) {
                self.perform(action);
            }
        }
    }
}
