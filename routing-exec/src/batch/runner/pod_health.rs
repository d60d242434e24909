//! Pod health: pods that go down and come up, and the replanning that follows.

use std::time::Instant;

use routing_core::Pod;
use routing_core::batch::BatchPlan;

use super::{BatchRunner, State};
use crate::batch::error::BatchError;
use crate::batch::pod_state::PodHealth;
use crate::batch::request_states::Unplanned;
use crate::batch::result::BatchFailure;
use crate::batch::source::BatchSource;
use crate::executor::{Executor, Timer};

impl<E: Executor, C: Timer, S: BatchSource> BatchRunner<E, C, S> {
    /// Marks a pod as down, and replans its requests.
    pub(super) fn mark_down(&mut self, queue: usize) {
        let probe_at = self.config.probe_interval.and_then(|interval| self.now().checked_add(interval));
        self.states.pods[queue].health = PodHealth::Down(probe_at);
        let mut requests = Vec::new();
        for slot in 0..self.slots.len() {
            let is_here = self.slots[slot].as_ref().is_some_and(|request| request.info.queue == queue);
            if is_here {
                requests.extend(self.remove(slot).map(|info| info.index));
            }
        }
        requests.extend(self.states.lists.lose(queue));
        self.replan_requests(requests);
    }

    /// Marks a pod as up, a new one or one that was down, and replans all that is not in flight.
    pub(super) fn mark_up(&mut self, pod: Pod) {
        let Some(queue) = self.states.add_pod(pod, self.config.limit) else { return };
        (self.states.pods[queue].health, self.states.pods[queue].consecutive_failures) = (PodHealth::Up, 0);
        self.no_pods_since = None;
        // The first poll checks whether the plan has it.
        if self.plan.is_some() {
            return;
        }
        let mut requests = std::mem::take(&mut self.states.parked);
        for queue in 0..self.states.pods.len() {
            requests.extend(self.states.lists.clear(queue));
        }
        self.replan_requests(requests);
    }

    /// Replans unassigned requests; if no pod is up, they are parked until one is.
    pub(super) fn replan_requests(&mut self, mut requests: Vec<u32>) {
        self.may_send = true;
        let source = &self.source;
        if self.state != State::Running {
            return self.states.park(requests, |index| source.size(index));
        }
        let pods = self.states.pods_up();
        if pods.is_empty() {
            let now = self.now();
            self.no_pods_since.get_or_insert(now);
            let source = &self.source;
            return self.states.park(requests, |index| source.size(index));
        }
        if requests.is_empty() {
            return;
        }
        requests.sort_unstable();
        self.counts.replans += 1;
        match self.source.replan(&requests, &pods) {
            Some(plan) => self.assign_plan(&plan, &requests),
            None => {
                self.states.parked.extend(requests);
                self.fail(BatchError::NoPlan { remaining: self.states.remaining() });
            }
        }
    }

    /// Assigns a plan's requests. Those that it leaves out fail, unless a pod that can hold them may recover.
    pub(super) fn assign_plan(&mut self, plan: &BatchPlan, requests: &[u32]) {
        let source = &self.source;
        let unplanned = self.states.assign(plan, requests, |index| source.size(index));
        let may_recover = self.states.may_recover();
        for (index, why) in unplanned {
            match why {
                _ if self.state != State::Running => self.states.parked.push(index),
                Unplanned::TooLong if may_recover => self.states.parked.push(index),
                Unplanned::TooLong => self.fail_request(index, too_long()),
                Unplanned::Missing => {
                    self.fail_request(index, BatchFailure::new("unplanned", "the plan leaves it out"))
                }
            }
        }
        let since = self.oversized_since.unwrap_or_else(|| self.now());
        self.oversized_since = (!self.states.parked.is_empty()).then_some(since);
        self.may_send = true;
    }

    /// Fails requests that no pod that is up can hold, after the timeout for one that can.
    pub(super) fn fail_oversized(&mut self, now: Instant) {
        if self.oversized_deadline().is_none_or(|end| now < end) {
            return;
        }
        self.oversized_since = None;
        let mut parked = std::mem::take(&mut self.states.parked);
        parked.sort_unstable();
        parked.into_iter().for_each(|index| self.fail_request(index, too_long()));
    }

    /// When requests that no pod that is up can hold fail; `None` while a probe is in flight or no pod is up.
    fn oversized_deadline(&self) -> Option<Instant> {
        let end = self.oversized_since?.checked_add(self.config.no_pods_timeout);
        end.filter(|_| !self.is_probing() && !self.states.pods_up().is_empty())
    }

    /// The next timer: a probe, an admission, or a timeout. Ends the batch if no pod was up for too long.
    pub(super) fn next_wakeup(&mut self) -> Option<Instant> {
        if self.states.remaining() == 0 {
            return None;
        }
        let no_pods_deadline = self.no_pods_since.and_then(|since| since.checked_add(self.config.no_pods_timeout));
        if no_pods_deadline.is_some_and(|end| end <= self.now()) && !self.is_probing() {
            self.fail(BatchError::NoPods { remaining: self.states.remaining() });
            return None;
        }
        let can_probe = self.can_probe();
        let probes = self.states.pods.iter().filter(|_| can_probe).filter_map(|pod| match pod.health {
            PodHealth::Down(at) => at,
            _ => None,
        });
        let timeouts = no_pods_deadline.filter(|_| !self.is_probing()).into_iter().chain(self.oversized_deadline());
        probes.chain(timeouts).chain(self.admit_at).chain(self.move_at).min()
    }

    fn is_probing(&self) -> bool {
        self.states.pods.iter().any(|pod| pod.health == PodHealth::Probing)
    }
}

fn too_long() -> BatchFailure {
    BatchFailure::new("too_long", "no pod can hold its prompt and output")
}
