//! One poll: what was woken is listened to, what may be sent is sent, and what is to come is slept on.
//!
//! The rule that must never break: after an error nothing is sent, and nothing is under way.

use std::task::{Context, Poll};

use super::{BatchRunner, State};
use crate::batch::error::BatchError;
use crate::batch::flight::Event;
use crate::batch::work::BatchWork;
use crate::driver::{Timer, Transport};

/// Things that happen within one poll before other tasks get their turn.
const MOST_PER_POLL: usize = 256;

impl<T: Transport, C: Timer, S: BatchWork, const W: usize> BatchRunner<T, C, S, W> {
    /// Follows the first plan, if that is not begun; one that does not know of all pods that live by now is made anew.
    pub(super) fn start(&mut self) {
        let Some(plan) = self.plan.take() else { return };
        self.started = Some(self.now());
        let rest = self.board.all_loose();
        let living = self.board.living();
        let knows_all = living.iter().all(|pod| plan.pods.iter().any(|part| part.pod == *pod));
        if living.is_empty() || !knows_all {
            return self.hand_out(rest);
        }
        self.follow(&plan, &rest);
    }

    /// Does whatever can be done now.
    pub(super) fn carry_on(&mut self, cx: &mut Context<'_>) {
        for _ in 0..MOST_PER_POLL {
            if self.state != State::Running {
                return;
            }
            self.send_more();
            if let Some(slot) = self.bells.answer() {
                self.listen(slot);
            } else if !self.sleep_on(cx) {
                return;
            }
        }
        cx.waker().wake_by_ref();
    }

    /// Listens to a request under way.
    fn listen(&mut self, slot: usize) {
        let waker = self.bells.waker(slot);
        let Some(Some(flight)) = self.flights.get_mut(slot) else { return };
        let Poll::Ready(event) = flight.poll(&mut Context::from_waker(&waker), self.config.most_answer) else { return };
        match event {
            Event::Begun(status) => {
                let ticket = flight.ticket;
                // There is more to hear.
                self.bells.ring(slot);
                self.begun(ticket, status);
            }
            Event::Ended(ended) => self.ended(slot, ended),
            Event::Rested => self.send_again(slot),
        }
    }

    /// Waits for the next moment at which something is to be done without anybody's word; whether it has come.
    fn sleep_on(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(at) = self.next_moment() else {
            self.alarm = None;
            return false;
        };
        if self.alarm.as_ref().is_none_or(|(set, _)| *set != at) {
            self.alarm = Some((at, Box::pin(self.driver.timer().sleep_until(at))));
        }
        let has_come = self.alarm.as_mut().is_some_and(|(_, sleep)| sleep.as_mut().poll(cx).is_ready());
        if has_come {
            self.alarm = None;
            self.is_stirred = true;
        }
        has_come
    }

    /// All results are out.
    pub(super) fn close(&mut self) -> Result<(), BatchError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.close().map_err(|error| BatchError::Journal(error.kind()))
    }

    /// Ends before the requests do: what is under way is cancelled.
    pub(super) fn fail(&mut self, error: BatchError) {
        let landed =
            (0..self.flights.len()).filter_map(|slot| self.lift(slot, false)).map(|ticket| ticket.place).collect();
        self.board.keep(landed);
        self.alarm = None;
        if self.state == State::Running {
            self.state = State::Failing(error);
        }
    }
}
