//! Request states: unassigned, queued, in flight or done, for every request of a batch.
//!
//! The rule that must never break: a request has one state, and one that is done stays done.

use std::collections::VecDeque;

use routing_core::Pod;
use routing_core::batch::{BatchPlan, InfeasibleReason};

use super::config::{CohortStart, ConcurrencyLimit};
use super::pod_queue::{NextRequest, PodHealth, PodQueue};

/// The state of every request of a batch, and the queues of its pods.
#[derive(Debug)]
pub(super) struct RequestStates {
    states: Vec<RequestState>,
    pub(super) queues: Vec<PodQueue>,
    /// Unassigned requests that wait for a pod: none was up when they were planned, or none that was up could hold them.
    pub(super) parked: Vec<u32>,
    /// Requests without a result.
    remaining: usize,
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestState {
    Unassigned,
    /// The index of its queue, and the tokens that it counts for there.
    Queued(u16, u64),
    InFlight,
    Done,
    /// Its result is from an earlier run.
    Resumed,
}

impl RequestStates {
    pub(super) fn new(requests: u32) -> Self {
        let states = vec![RequestState::Unassigned; requests as usize];
        Self { remaining: states.len(), states, queues: Vec::new(), parked: Vec::new() }
    }

    /// Marks a request whose result is from an earlier run; ignores one that is not of this batch.
    pub(super) fn mark_resumed(&mut self, index: u32) {
        if let Some(state @ RequestState::Unassigned) = self.states.get_mut(index as usize) {
            *state = RequestState::Resumed;
            self.remaining -= 1;
        }
    }

    /// Adds a pod, unless it is known; the index of its queue, or `None` if there are too many.
    pub(super) fn add_pod(&mut self, pod: Pod, limit: ConcurrencyLimit) -> Option<usize> {
        if let Some(known) = self.queues.iter().position(|queue| queue.pod == pod) {
            return Some(known);
        }
        let number = self.queues.len();
        if number > usize::from(u16::MAX) {
            return None;
        }
        self.queues.push(PodQueue::new(pod, limit));
        Some(number)
    }

    /// Queues requests on the pods of a plan that are up; returns those of `requests` that are in none of its cohorts, and why.
    ///
    /// Whatever the plan, no request is queued twice, and only unassigned ones are.
    pub(super) fn assign(
        &mut self,
        plan: &BatchPlan,
        requests: &[u32],
        cohort_start: CohortStart,
        tokens: impl Fn(u32) -> u64,
    ) -> Vec<(u32, Unplanned)> {
        for part in &plan.pods {
            let queue = self.queues.iter().position(|queue| queue.pod == part.pod && queue.health == PodHealth::Up);
            let Some(number) = queue else { continue };
            for cohort in &part.cohorts {
                let mut queued = VecDeque::with_capacity(cohort.requests.len());
                for &index in &cohort.requests {
                    if let Some(state @ RequestState::Unassigned) = self.states.get_mut(index as usize) {
                        let tokens = tokens(index);
                        *state = RequestState::Queued(number as u16, tokens);
                        self.queues[number].remaining += tokens;
                        queued.push_back(index);
                    }
                }
                if !queued.is_empty() {
                    self.queues[number].push(queued, cohort_start);
                }
            }
        }
        let mut too_long: Vec<u32> = plan
            .infeasible
            .iter()
            .filter(|infeasible| infeasible.why == InfeasibleReason::TooLong)
            .map(|infeasible| infeasible.request)
            .collect();
        too_long.sort_unstable();
        let unplanned =
            requests.iter().filter(|index| self.states.get(**index as usize) == Some(&RequestState::Unassigned));
        unplanned
            .map(|&index| {
                (index, if too_long.binary_search(&index).is_ok() { Unplanned::TooLong } else { Unplanned::Missing })
            })
            .collect()
    }

    /// The next request of a queue, if its pod has capacity.
    pub(super) fn next_request(&mut self, queue: usize, tokens: impl Fn(u32) -> u64) -> Option<NextRequest> {
        let (states, queue) = (&self.states, &mut self.queues[queue]);
        if queue.health != PodHealth::Up {
            return None;
        }
        let next = queue.next_request(|index| matches!(states[index as usize], RequestState::Queued(..)))?;
        queue.has_capacity(tokens(next.index)).then_some(next)
    }

    /// The queue of a request, if its pod is up and has capacity: for a request that is sent out of order.
    pub(super) fn queue_with_capacity(&self, index: u32, tokens: u64) -> Option<usize> {
        let Some(RequestState::Queued(queue, _)) = self.states.get(index as usize) else { return None };
        let number = usize::from(*queue);
        let queue = &self.queues[number];
        (queue.health == PodHealth::Up && queue.has_capacity(tokens)).then_some(number)
    }

    /// A request is sent to a pod, which may be another than it from for.
    pub(super) fn start(&mut self, index: u32, queue: usize, tokens: u64) {
        match std::mem::replace(&mut self.states[index as usize], RequestState::InFlight) {
            RequestState::Queued(from, counted) => {
                let from = &mut self.queues[usize::from(from)];
                from.queued -= 1;
                from.remaining -= counted;
            }
            RequestState::Unassigned => self.parked.retain(|parked| *parked != index),
            RequestState::InFlight | RequestState::Done | RequestState::Resumed => {
                debug_assert!(false, "sent twice: {index}")
            }
        }
        let queue = &mut self.queues[queue];
        queue.in_flight += 1;
        queue.tokens += tokens;
        queue.remaining += tokens;
    }

    /// A request is no longer in flight: it is done or unassigned. The tokens are those that it started with.
    pub(super) fn stop(&mut self, index: u32, queue: usize, tokens: u64, is_done: bool) {
        let queue = &mut self.queues[queue];
        queue.in_flight -= 1;
        queue.tokens -= tokens;
        queue.remaining -= tokens;
        self.states[index as usize] = RequestState::Unassigned;
        if is_done {
            self.mark_done(index);
        }
    }

    /// Marks an unassigned request as done.
    pub(super) fn mark_done(&mut self, index: u32) {
        if std::mem::replace(&mut self.states[index as usize], RequestState::Done) == RequestState::Unassigned {
            self.remaining -= 1;
        }
    }

    /// Unassigns the requests of a queue, into `out`.
    pub(super) fn unassign(&mut self, queue: usize, out: &mut Vec<u32>) {
        let (states, queue) = (&mut self.states, &mut self.queues[queue]);
        for index in queue.take_all() {
            let state = &mut states[index as usize];
            if let RequestState::Queued(_, counted) = *state {
                *state = RequestState::Unassigned;
                queue.queued -= 1;
                queue.remaining -= counted;
                out.push(index);
            }
        }
    }

    /// Takes a request to probe a pod with: the smallest one that is not started. Of equals the first unassigned one, or the last
    /// queued one.
    pub(super) fn take_smallest(&mut self, tokens: impl Fn(u32) -> u64) -> Option<u32> {
        let queued = self.states.iter().zip(0_u32..).filter_map(|(state, index)| match state {
            RequestState::Unassigned => Some((tokens(index), false, index, index)),
            RequestState::Queued(_, counted) => Some((*counted, true, u32::MAX - index, index)),
            RequestState::InFlight | RequestState::Done | RequestState::Resumed => None,
        });
        let (.., index) = queued.min()?;
        if let RequestState::Queued(queue, _) = self.states[index as usize] {
            self.queues[usize::from(queue)].take(index);
        }
        Some(index)
    }

    /// Whether a pod that is down may recover by itself: it is probed, or will be.
    pub(super) fn may_recover(&self) -> bool {
        self.queues.iter().any(|queue| matches!(queue.health, PodHealth::Down(Some(_)) | PodHealth::Probing))
    }

    /// Whether a request's result is from an earlier run.
    pub(super) fn is_resumed(&self, index: u32) -> bool {
        self.states.get(index as usize) == Some(&RequestState::Resumed)
    }

    /// Whether a request is unassigned.
    pub(super) fn is_unassigned(&self, index: u32) -> bool {
        self.states.get(index as usize) == Some(&RequestState::Unassigned)
    }

    /// Requests without a result.
    pub(super) fn remaining(&self) -> usize {
        self.remaining
    }

    /// Requests of the batch.
    pub(super) fn requests(&self) -> usize {
        self.states.len()
    }

    /// Requests that are neither in flight nor done.
    pub(super) fn queued(&self) -> usize {
        self.parked.len() + self.queues.iter().map(|queue| queue.queued).sum::<usize>()
    }

    /// The pods that are up.
    pub(super) fn pods_up(&self) -> Vec<Pod> {
        self.queues.iter().filter(|queue| queue.health == PodHealth::Up).map(|queue| queue.pod).collect()
    }

    /// All unassigned requests, in order.
    pub(super) fn unassigned(&self) -> Vec<u32> {
        let unassigned = self.states.iter().enumerate().filter(|(_, state)| **state == RequestState::Unassigned);
        unassigned.map(|(index, _)| index as u32).collect()
    }
}

/// Why a plan has no pod for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unplanned {
    /// No pod can hold it.
    TooLong,
    /// The plan leaves it out.
    Missing,
}
