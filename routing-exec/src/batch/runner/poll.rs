//! One poll of a batch runner: sends requests, polls those that were woken, and sets the next timer.
//!
//! The rule that must never break: after an error nothing is sent, and nothing is in flight.

use std::task::{Context, Poll};

use super::{BatchRunner, State};
use crate::batch::error::BatchError;
use crate::batch::in_flight::Event;
use crate::batch::source::BatchSource;
use crate::executor::{Executor, Timer};

/// Events handled within one poll before it yields to other tasks.
const MAX_EVENTS_PER_POLL: usize = 256;

impl<E: Executor, C: Timer, S: BatchSource> BatchRunner<E, C, S> {
    /// Assigns the first plan at the first poll; if it lacks a pod that is up by now, a new one is made.
    pub(super) fn start(&mut self) {
        let Some(plan) = self.plan.take() else { return };
        self.started = Some(self.now());
        let requests = self.states.unassigned();
        let pods = self.states.pods_up();
        let has_all = pods.iter().all(|pod| plan.pods.iter().any(|part| part.pod == *pod));
        if pods.is_empty() || !has_all {
            return self.replan_requests(requests);
        }
        self.assign_plan(&plan, &requests);
    }

    /// Does all that can be done now.
    pub(super) fn run_ready(&mut self, cx: &mut Context<'_>) {
        for _ in 0..MAX_EVENTS_PER_POLL {
            if self.state != State::Running {
                return;
            }
            self.send_ready();
            if let Some(slot) = self.wakers.pop() {
                self.poll_slot(slot);
            } else if !self.poll_timer(cx) {
                return;
            }
        }
        cx.waker().wake_by_ref();
    }

    /// Polls a request in flight.
    fn poll_slot(&mut self, slot: usize) {
        let waker = self.wakers.waker(slot);
        let Some(Some(request)) = self.slots.get_mut(slot) else { return };
        let mut cx = Context::from_waker(&waker);
        let Poll::Ready(event) = request.poll(&mut cx, self.config.max_response_bytes) else { return };
        match event {
            Event::Head(status) => {
                let info = request.info;
                // Its body may be ready too.
                self.wakers.schedule(slot);
                self.on_head(info, status);
            }
            Event::End(end) => self.on_end(slot, end),
            Event::BackoffElapsed => self.resend(slot),
        }
    }

    /// Waits for the next timer; whether it fired.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(at) = self.next_wakeup() else {
            self.wakeup = None;
            return false;
        };
        if self.wakeup.as_ref().is_none_or(|(set, _)| *set != at) {
            self.wakeup = Some((at, Box::pin(self.timer.sleep_until(at))));
        }
        let has_fired = self.wakeup.as_mut().is_some_and(|(_, sleep)| sleep.as_mut().poll(cx).is_ready());
        if has_fired {
            self.wakeup = None;
            self.may_send = true;
        }
        has_fired
    }

    /// Closes the journal, after all results.
    pub(super) fn close(&mut self) -> Result<(), BatchError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.close().map_err(|error| BatchError::Journal(error.kind()))
    }

    /// Ends the batch before its requests: cancels what is in flight.
    pub(super) fn fail(&mut self, error: BatchError) {
        for slot in 0..self.slots.len() {
            let cancelled = self.remove(slot).map(|info| info.index);
            self.states.parked.extend(cancelled);
        }
        self.wakeup = None;
        if self.state == State::Running {
            self.state = State::Failing(error);
        }
    }
}
