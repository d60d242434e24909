//! How tries end: with a result, with another try, or with the pod.

use http::StatusCode;
use routing_core::Pod;

use super::{BatchRunner, State, Tried};
use crate::batch::error::BatchError;
use crate::batch::flight::{Ended, Stage, Ticket};
use crate::batch::lane::Life;
use crate::batch::progress::BatchProgress;
use crate::batch::result::{BatchAnswer, BatchFailure, BatchResult, BatchUsage};
use crate::batch::work::BatchWork;
use crate::driver::{Timer, Transport};
use crate::error::RunError;
use crate::failure::Failure;
use crate::record::Outcome;

/// Tries that never reached a pod, for each that would count.
const UNCOUNTED: u32 = 4;

impl<T: Transport, C: Timer, S: BatchWork, const W: usize> BatchRunner<T, C, S, W> {
    /// A pod's answer begins: it lives, and if all is well its cohort need not wait any longer.
    pub(super) fn begun(&mut self, ticket: Ticket, status: StatusCode) {
        let lane = &mut self.board.lanes[ticket.lane];
        lane.misses = 0;
        if let Some(cohort) = ticket.leads.filter(|_| status.is_success()) {
            lane.answered(cohort, true);
            self.is_stirred = true;
        }
        if lane.life == Life::Probing {
            let pod = lane.pod;
            self.revived(pod);
        }
    }

    /// A try ended.
    pub(super) fn ended(&mut self, slot: usize, ended: Ended) {
        let Some(Some(flight)) = self.flights.get_mut(slot) else { return };
        let (outcome, failure) = read(&ended);
        let is_uncounted = matches!(failure, Some(Failure::Connect(_) | Failure::Refused));
        flight.ticket.failures += u32::from(failure.is_some() && !is_uncounted);
        let ticket = flight.ticket;
        let is_worth_it = failure.as_ref().is_some_and(|failure| self.may_try_again(ticket, failure));
        let is_dead = failure.as_ref().is_some_and(|failure| self.is_fatal(ticket.lane, failure));
        if !is_worth_it {
            self.lift(slot, true);
            self.give(ticket, outcome);
        }
        // One that was to show that its pod lives, and never came to an answer.
        let is_in_vain = self.board.lanes[ticket.lane].life == Life::Probing;
        if is_dead || is_in_vain {
            return self.bury(ticket.lane);
        }
        if is_worth_it {
            self.rest(slot, ended.retry_after);
        }
    }

    /// Whether a request that failed is sent again, here or elsewhere.
    fn may_try_again(&self, ticket: Ticket, failure: &Failure) -> bool {
        let most = self.config.attempts.max(1);
        // A pod that is being looked after is known to fail.
        let is_probe = self.board.lanes[ticket.lane].life == Life::Probing;
        let is_left = ticket.failures < most && (is_probe || ticket.sent < most.saturating_mul(UNCOUNTED));
        let budget = self.settings.budget.as_ref().filter(|_| *failure != Failure::Refused && !is_probe);
        is_left && self.config.retry_on.covers(failure) && budget.is_none_or(|budget| budget.withdraw(self.now()))
    }

    /// Whether a failure is the last that a pod has.
    fn is_fatal(&mut self, lane: usize, failure: &Failure) -> bool {
        let lane = &mut self.board.lanes[lane];
        let is_miss = matches!(failure, Failure::Connect(_) | Failure::Cut(_) | Failure::Silent | Failure::Idle);
        if is_miss {
            lane.misses = lane.misses.saturating_add(1);
        }
        let is_over = lane.misses >= self.config.dead_after.max(1) || lane.life == Life::Probing;
        *failure == Failure::Refused || (is_miss && is_over)
    }

    /// A request waits before it is sent again.
    fn rest(&mut self, slot: usize, asked: Option<std::time::Duration>) {
        let now = self.now();
        let Some(Some(flight)) = self.flights.get_mut(slot) else { return };
        let ticket = flight.ticket;
        let wait = self.config.back_off.wait(ticket.place, ticket.sent, asked);
        let until = now.checked_add(wait).unwrap_or(now);
        flight.stage = Stage::Resting(Box::pin(self.driver.timer().sleep_until(until)));
        self.bells.ring(slot);
    }

    /// Takes a request out of the air.
    pub(super) fn lift(&mut self, slot: usize, is_done: bool) -> Option<Ticket> {
        let ticket = self.flights.get_mut(slot)?.take()?.ticket;
        self.free.push(slot);
        self.flying -= 1;
        self.is_stirred = true;
        self.board.land(ticket.place, ticket.lane, ticket.tokens, is_done);
        if !is_done {
            let Ticket { sent, failures, since, .. } = ticket;
            self.tried.insert(ticket.place, Tried { sent, failures, since });
        }
        Some(ticket)
    }

    /// A request that was under way has its result.
    fn give(&mut self, ticket: Ticket, outcome: Result<BatchAnswer, BatchFailure>) {
        let now = self.now();
        let usage = outcome.as_ref().map(|answer| BatchUsage::of(&answer.body)).unwrap_or_default();
        let lane = &mut self.board.lanes[ticket.lane];
        let took = now.saturating_duration_since(ticket.since);
        let (place, attempts, pod) = (ticket.place, ticket.sent, Some(lane.pod));
        let result = BatchResult { place, outcome, attempts, usage, took, pod };
        lane.done(ticket.tokens, usage, result.is_success(), now);
        if let Some(cohort) = ticket.leads {
            lane.answered(cohort, result.is_success());
        }
        self.publish(result);
    }

    /// A request that no pod will be asked for has its result.
    pub(super) fn give_up(&mut self, place: u32, failure: BatchFailure) {
        self.board.set_done(place);
        let tried = self.tried.remove(&place);
        let took = tried.map(|tried| self.now().saturating_duration_since(tried.since)).unwrap_or_default();
        let (attempts, pod) = (tried.map_or(0, |tried| tried.sent), None::<Pod>);
        self.publish(BatchResult { place, outcome: Err(failure), attempts, usage: BatchUsage::default(), took, pod });
    }

    /// Writes a result down, then lays it ready.
    fn publish(&mut self, result: BatchResult) {
        if self.state != State::Running {
            return;
        }
        if let Some(journal) = &mut self.journal {
            if let Err(error) = journal.keep(&result) {
                return self.fail(BatchError::Journal(error.kind()));
            }
        }
        *(if result.is_success() { &mut self.counts.succeeded } else { &mut self.counts.failed }) += 1;
        self.ready.push(result);
        if let Some(mut watcher) = self.watcher.take() {
            let (held, now) = (self.ready.len(), self.now());
            watcher(&BatchProgress::of(&self.board, self.counts, held, self.started, now));
            self.watcher = Some(watcher);
        }
    }
}

/// What a try came to, as a result and, unless all is well, as a failure.
fn read(ended: &Ended) -> (Result<BatchAnswer, BatchFailure>, Option<Failure>) {
    match &ended.outcome {
        None => {
            let failure = BatchFailure::new("answer_too_long", "the answer is longer than is kept");
            (Err(failure), Some(Failure::TooLong))
        }
        Some(Outcome::Completed(status)) => {
            let failure = (*status >= 400).then_some(Failure::Status(*status));
            (Ok(BatchAnswer { status: *status, body: ended.body.clone() }), failure)
        }
        Some(Outcome::Failed(error)) => {
            let failure = match error {
                RunError::StepFailed { failure, .. } | RunError::NoBudget { failure, .. } => Some(failure.clone()),
                RunError::BrokenOff(failure) => Some(failure.clone()),
                // Whatever else is wrong, is wrong with the request, and would be again.
                _ => None,
            };
            (Err(error.into()), failure)
        }
        Some(Outcome::ClientGone | Outcome::Cancelled) => (Err((&RunError::Cancelled).into()), None),
    }
}
