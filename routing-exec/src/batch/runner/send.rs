//! Sending: which request goes to which pod next, within limits, admission and backpressure.

use std::time::{Duration, Instant};

use routing_core::batch::NextRequest;
use routing_core::{PlanStep, Role, RoutingPlan};

use super::BatchRunner;
use crate::batch::in_flight::{Attempts, InFlight, ReportCell, RequestInfo, RunnerHost, Stage};
use crate::batch::pod_state::PodHealth;
use crate::batch::source::{BatchGuard, BatchSource};
use crate::dispatch::Dispatch;
use crate::executor::{Executor, Timer};

/// After how long it is looked again whether to move work.
const MOVE_INTERVAL: Duration = Duration::from_secs(1);

impl<E: Executor, C: Timer, S: BatchSource> BatchRunner<E, C, S> {
    /// Sends all that may be sent now.
    pub(super) fn send_ready(&mut self) {
        if !std::mem::take(&mut self.may_send) {
            return;
        }
        self.probe_down_pods();
        self.admit_at = None;
        self.forget_refusals();
        let queues = self.states.pods.len();
        for nth in 0..queues {
            let queue = (self.first_queue + nth) % queues;
            while self.has_capacity() {
                let Some(next) = self.next_request(queue) else { break };
                let Some(guard) = self.admit(queue, next.request) else { break };
                self.send(queue, next, Some(guard));
            }
        }
        self.first_queue = self.first_queue.wrapping_add(1);
        self.look_again_later();
        self.send_next_in_order();
    }

    /// Time alone may make a move worth it: a pod that has stopped brings no event.
    fn look_again_later(&mut self) {
        let now = self.now();
        let is_due = |at: &Instant| *at <= now;
        self.move_at = match self.move_at.filter(|at| !is_due(at)) {
            _ if !self.states.lists.may_move_later() => None,
            None => now.checked_add(MOVE_INTERVAL),
            set => set,
        };
    }

    /// A pod that has nothing left is never asked about, so that its last refusal would count for ever.
    fn forget_refusals(&mut self) {
        let now = self.now();
        if self.move_at.is_some_and(|at| at <= now) {
            for queue in 0..self.states.pods.len() {
                if self.states.lists.waiting_for(queue) == 0 {
                    self.states.lists.hold_up(queue, false);
                }
            }
        }
    }

    /// Whether another request may be outstanding. The last one is reserved for the request whose result all others wait for.
    pub(super) fn has_capacity(&mut self) -> bool {
        let states = &self.states;
        let reserved = usize::from(self.results.next_index(|index| states.is_resumed(index)).is_some());
        self.in_flight + self.results.len() + reserved < self.config.max_outstanding.max(1)
    }

    /// Whether the request whose result all others wait for may be outstanding. It may if nothing is in flight, however many
    /// results there are: they may all wait for that one, and requests that fail unsent have results too.
    fn has_capacity_for_next(&self) -> bool {
        self.in_flight == 0 || self.in_flight + self.results.len() < self.config.max_outstanding.max(1)
    }

    /// Sends the request whose result all others wait for, if no other may be sent.
    fn send_next_in_order(&mut self) {
        let states = &self.states;
        let Some(index) = self.results.next_index(|index| states.is_resumed(index)) else { return };
        if self.has_capacity() || !self.has_capacity_for_next() {
            return;
        }
        if let Some(queue) = self.states.pod_with_capacity(index) {
            if let Some(guard) = self.admit(queue, index) {
                self.send(queue, NextRequest::alone(index), Some(guard));
            }
        }
    }

    /// The next request of a pod that is up and has capacity.
    fn next_request(&mut self, queue: usize) -> Option<NextRequest> {
        let now = self.since_start();
        (self.states.pods[queue].health == PodHealth::Up).then(|| self.states.lists.next(queue, now))?
    }

    /// Consults the source's admission, and sets a timer to do so again after a rejection.
    fn admit(&mut self, queue: usize, index: u32) -> Option<BatchGuard> {
        let guard = self.source.admit(self.states.pods[queue].pod, index);
        self.states.lists.hold_up(queue, guard.is_none());
        if guard.is_none() && self.admit_at.is_none() {
            self.admit_at = self.now().checked_add(self.config.admission_interval);
        }
        guard
    }

    /// Sends a request to a pod.
    pub(super) fn send(&mut self, queue: usize, next: NextRequest, guard: Option<BatchGuard>) {
        let NextRequest { request: index, leader_of } = next;
        if self.states.lists.is_unassigned(index) {
            self.states.parked.retain(|parked| *parked != index);
        }
        self.states.lists.begin(queue, next, self.since_start());
        let now = self.now();
        let mut attempts = self.attempts.remove(&index).unwrap_or(Attempts { sent: 0, failed: 0, since: now });
        self.counts.retries += usize::from(attempts.sent > 0);
        attempts.sent += 1;
        let info = RequestInfo { index, queue, leader_of, attempts };
        let stage = self.execute(info, guard);
        let slot = self.free_slots.pop().unwrap_or(self.slots.len());
        let request = Some(InFlight { info, stage });
        match self.slots.get_mut(slot) {
            Some(free) => *free = request,
            None => self.slots.push(request),
        }
        self.in_flight += 1;
        self.wakers.schedule(slot);
    }

    /// Sends a request again to its pod, after its backoff.
    pub(super) fn resend(&mut self, slot: usize) {
        let Some(Some(request)) = self.slots.get_mut(slot) else { return };
        request.info.attempts.sent += 1;
        let info = request.info;
        self.counts.retries += 1;
        let guard = self.source.admit(self.states.pods[info.queue].pod, info.index);
        let stage = self.execute(info, guard);
        if let Some(Some(request)) = self.slots.get_mut(slot) {
            request.stage = stage;
        }
        self.wakers.schedule(slot);
    }

    /// Executes one attempt, as a dispatch of one step with one candidate: retries are the runner's.
    fn execute(&mut self, info: RequestInfo, guard: Option<BatchGuard>) -> Stage<E> {
        let pod = self.states.pods[info.queue].pod;
        let plan = RoutingPlan::new(0, [PlanStep::new("batch", Role::Both, &[pod])]);
        let request = self.source.request(info.index);
        let dispatch = Dispatch::new(self.dispatch_config.clone(), request, plan, Vec::new());
        let report = ReportCell::default();
        let host = RunnerHost { report: report.clone(), guard };
        Stage::AwaitingHead(Box::pin(self.executor.execute(dispatch, host)), report)
    }

    /// Probes pods that are down, with one request each. A small one: a pod that cannot hold it would fail it for good.
    fn probe_down_pods(&mut self) {
        let now = self.now();
        self.fail_oversized(now);
        for queue in 0..self.states.pods.len() {
            let is_due = matches!(self.states.pods[queue].health, PodHealth::Down(Some(at)) if at <= now);
            if !is_due {
                continue;
            }
            let probe = if self.has_capacity() { self.states.smallest() } else { self.unassigned_next() };
            let Some(index) = probe else { continue };
            self.states.pods[queue].health = PodHealth::Probing;
            let guard = self.source.admit(self.states.pods[queue].pod, index);
            self.send(queue, NextRequest::alone(index), guard);
        }
    }

    /// Whether there is a request to probe a pod with.
    pub(super) fn can_probe(&mut self) -> bool {
        if self.has_capacity() { self.states.queued() > 0 } else { self.unassigned_next().is_some() }
    }

    /// The request whose result all others wait for, if it is unassigned and may be outstanding.
    fn unassigned_next(&mut self) -> Option<u32> {
        let states = &self.states;
        let index = self.results.next_index(|index| states.is_resumed(index))?;
        (self.has_capacity_for_next() && self.states.lists.is_unassigned(index)).then_some(index)
    }
}
