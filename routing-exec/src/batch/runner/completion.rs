//! Completion of attempts: a result, a retry, or a pod that goes down.

use std::time::Duration;

use http::StatusCode;

use super::{BatchRunner, State};
use crate::batch::error::BatchError;
use crate::batch::in_flight::{AttemptEnd, Attempts, RequestInfo, Stage};
use crate::batch::pod_state::PodHealth;
use crate::batch::result::{BatchFailure, BatchResponse, BatchResult, BatchUsage};
use crate::batch::source::BatchSource;
use crate::error::DispatchError;
use crate::executor::{Executor, Timer};
use crate::failure::Failure;
use crate::report::DispatchOutcome;

/// Attempts that no pod processed, for each that counts.
const UNPROCESSED_PER_ATTEMPT: u32 = 4;

impl<E: Executor, C: Timer, S: BatchSource> BatchRunner<E, C, S> {
    /// The head of a pod's response: the pod is up, and after a success its cohort may start.
    pub(super) fn on_head(&mut self, info: RequestInfo, status: StatusCode) {
        let pod = &mut self.states.pods[info.queue];
        pod.consecutive_failures = 0;
        let (pod, is_probe) = (pod.pod, pod.health == PodHealth::Probing);
        if status.is_success() && info.leader_of.is_some() {
            self.states.lists.answering(info.queue, info.next());
            self.may_send = true;
        }
        if is_probe {
            self.mark_up(pod);
        }
    }

    /// The end of an attempt.
    pub(super) fn on_end(&mut self, slot: usize, end: AttemptEnd) {
        let Some(Some(request)) = self.slots.get_mut(slot) else { return };
        let (outcome, failure) = classify(&end);
        let is_unprocessed = |failure: &Failure| failure.is_unsent() || matches!(failure, Failure::Connect(_));
        let is_processed = failure.as_ref().is_some_and(|failure| !is_unprocessed(failure));
        request.info.attempts.failed += u32::from(is_processed);
        let info = request.info;
        if let Some(Failure::Status(429 | 503)) = failure {
            self.states.lists.push_back(info.queue);
        }
        let is_retried = failure.as_ref().is_some_and(|failure| self.may_retry(info, failure));
        let is_down = failure.as_ref().is_some_and(|failure| self.takes_pod_down(info.queue, failure));
        if !is_retried {
            self.complete(slot, outcome);
        }
        // A probe that got no response.
        let is_failed_probe = self.states.pods[info.queue].health == PodHealth::Probing;
        if is_down || is_failed_probe {
            return self.mark_down(info.queue);
        }
        if is_retried {
            self.back_off(slot, end.retry_after);
        }
    }

    /// Whether a failed request is retried, on this pod or another.
    fn may_retry(&self, info: RequestInfo, failure: &Failure) -> bool {
        let max = self.config.max_attempts.max(1);
        // A probe is expected to fail.
        let is_probe = self.states.pods[info.queue].health == PodHealth::Probing;
        let Attempts { sent, failed, .. } = info.attempts;
        let is_left = failed < max && (is_probe || sent < max.saturating_mul(UNPROCESSED_PER_ATTEMPT));
        let budget = self.dispatch_config.retry_budget.as_ref().filter(|_| !failure.is_unsent() && !is_probe);
        is_left && self.config.retry_on.matches(failure) && budget.is_none_or(|budget| budget.withdraw(self.now()))
    }

    /// Counts a failure; whether the pod is down after it.
    fn takes_pod_down(&mut self, queue: usize, failure: &Failure) -> bool {
        let pod = &mut self.states.pods[queue];
        let counts = matches!(
            failure,
            Failure::Connect(_) | Failure::Truncated(_) | Failure::FirstByteTimeout | Failure::IdleTimeout
        );
        if counts {
            pod.consecutive_failures = pod.consecutive_failures.saturating_add(1);
        }
        let is_at_threshold = pod.consecutive_failures >= self.config.failure_threshold.max(1);
        *failure == Failure::BreakerOpen || (counts && (is_at_threshold || pod.health == PodHealth::Probing))
    }

    /// Backs off before a retry.
    fn back_off(&mut self, slot: usize, retry_after: Option<Duration>) {
        let now = self.now();
        let Some(Some(request)) = self.slots.get_mut(slot) else { return };
        let RequestInfo { index, attempts, .. } = request.info;
        let wait = self.config.backoff.wait(index, attempts.sent, retry_after);
        let until = now.checked_add(wait).unwrap_or(now);
        request.stage = Stage::BackingOff(Box::pin(self.timer.sleep_until(until)));
        self.wakers.schedule(slot);
    }

    /// Removes a request in flight, which is unassigned then.
    pub(super) fn remove(&mut self, slot: usize) -> Option<RequestInfo> {
        let info = self.vacate(slot)?;
        self.states.lists.give_back(info.next(), self.since_start());
        self.attempts.insert(info.index, info.attempts);
        Some(info)
    }

    fn vacate(&mut self, slot: usize) -> Option<RequestInfo> {
        let info = self.slots.get_mut(slot)?.take()?.info;
        self.free_slots.push(slot);
        self.in_flight -= 1;
        self.may_send = true;
        Some(info)
    }

    /// Completes a request in flight.
    fn complete(&mut self, slot: usize, outcome: Result<BatchResponse, BatchFailure>) {
        let Some(info) = self.vacate(slot) else { return };
        let now = self.now();
        let usage = outcome.as_ref().map(|response| BatchUsage::of(&response.body)).unwrap_or_default();
        let pod = &mut self.states.pods[info.queue];
        let duration = now.saturating_duration_since(info.attempts.since);
        let (index, attempts) = (info.index, info.attempts.sent);
        let result = BatchResult { index, outcome, attempts, usage, duration, pod: Some(pod.pod) };
        let is_success = result.is_success();
        pod.done(usage, is_success, now);
        let since_start = self.since_start();
        if is_success {
            let output = Some(usage.output).filter(|output| *output > 0);
            self.states.lists.done(info.queue, info.next(), output, since_start);
        } else {
            self.states.lists.failed(info.queue, info.next(), since_start);
        }
        self.states.completed();
        self.publish(result);
    }

    /// Fails a request that is not in flight.
    pub(super) fn fail_request(&mut self, index: u32, failure: BatchFailure) {
        self.states.mark_done(index);
        let attempts = self.attempts.remove(&index);
        let duration =
            attempts.map(|attempts| self.now().saturating_duration_since(attempts.since)).unwrap_or_default();
        let (attempts, usage) = (attempts.map_or(0, |attempts| attempts.sent), BatchUsage::default());
        self.publish(BatchResult { index, outcome: Err(failure), attempts, usage, duration, pod: None });
    }

    /// Writes a result to the journal, then queues it for the consumer.
    fn publish(&mut self, result: BatchResult) {
        if self.state != State::Running {
            return;
        }
        if let Some(journal) = &mut self.journal {
            if let Err(error) = journal.write(&result) {
                return self.fail(BatchError::Journal(error.kind()));
            }
        }
        *(if result.is_success() { &mut self.counts.succeeded } else { &mut self.counts.failed }) += 1;
        self.results.push(result);
        if let Some(mut on_progress) = self.on_progress.take() {
            on_progress(&self.progress());
            self.on_progress = Some(on_progress);
        }
    }
}

/// The outcome of an attempt as a result and, unless it succeeded, as a failure.
fn classify(end: &AttemptEnd) -> (Result<BatchResponse, BatchFailure>, Option<Failure>) {
    match &end.outcome {
        None => {
            let failure = BatchFailure::new("response_too_large", "the response is larger than the limit");
            (Err(failure), Some(Failure::ResponseTooLarge))
        }
        Some(DispatchOutcome::Completed(status)) => {
            let failure = (*status >= 400).then_some(Failure::Status(*status));
            (Ok(BatchResponse { status: *status, body: end.body.clone() }), failure)
        }
        Some(DispatchOutcome::Failed(error)) => {
            let failure = match error {
                DispatchError::StepFailed { failure, .. }
                | DispatchError::RetryBudgetExhausted { failure, .. }
                | DispatchError::Truncated(failure) => Some(failure.clone()),
                // Other errors are the request's own, and would repeat.
                _ => None,
            };
            (Err(error.into()), failure)
        }
        Some(DispatchOutcome::ClientDisconnected | DispatchOutcome::Cancelled) => {
            (Err((&DispatchError::Cancelled).into()), None)
        }
    }
}
