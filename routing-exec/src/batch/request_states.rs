//! Request states: the lists of a batch's requests, the pods that work them off, and who has a result.
//!
//! The rule that must never break: a request has one state, and one that is done stays done.

use routing_core::Pod;
use routing_core::batch::{BatchPlan, BatchPod, BatchQueues, ConcurrencyLimit, InfeasibleReason, RequestSize};

use super::config::BatchRunnerConfig;
use super::pod_state::{PodHealth, PodState};

/// The state of every request of a batch, and of its pods.
#[derive(Debug)]
pub(super) struct RequestStates {
    /// By pod, in the order of `pods`.
    pub(super) lists: BatchQueues,
    pub(super) pods: Vec<PodState>,
    /// Unassigned requests that wait for a pod: none was up when they were planned, or none that was up could hold them.
    pub(super) parked: Vec<u32>,
    /// By request, whether its result is from an earlier run.
    resumed: Vec<bool>,
    /// Requests without a result.
    remaining: usize,
}

impl RequestStates {
    pub(super) fn new(requests: u32, config: &BatchRunnerConfig) -> Self {
        let lists = BatchQueues::new(requests, config.planning, config.cohort_start).moving(config.work_stealing);
        let resumed = vec![false; requests as usize];
        Self { lists, pods: Vec::new(), parked: Vec::new(), remaining: resumed.len(), resumed }
    }

    /// Adds requests, unassigned; their indices.
    pub(super) fn extend(&mut self, requests: u32) -> std::ops::Range<u32> {
        let first = self.resumed.len() as u32;
        let requests = requests.min(u32::MAX - first);
        self.lists.extend(requests);
        self.resumed.resize((first + requests) as usize, false);
        self.remaining += requests as usize;
        first..first + requests
    }

    /// Marks a request whose result is from an earlier run; ignores one that is not of this batch.
    pub(super) fn mark_resumed(&mut self, index: u32) {
        if self.lists.is_unassigned(index) {
            self.resumed[index as usize] = true;
            self.mark_done(index);
        }
    }

    /// Adds a pod, unless it is known; its number, or `None` if there are too many.
    pub(super) fn add_pod(&mut self, pod: Pod, limit: ConcurrencyLimit) -> Option<usize> {
        let number =
            self.lists.join(BatchPod { pod, kv_tokens: limit.tokens.unwrap_or(u64::MAX), speed: 1.0 }, limit)?;
        if number == self.pods.len() {
            self.pods.push(PodState::new(pod));
        }
        Some(number)
    }

    /// Lists the requests of a plan for its pods that are up; returns those of `requests` that are in none of its cohorts, and why.
    ///
    /// Whatever the plan, no request is listed twice, and only unassigned ones are.
    pub(super) fn assign(
        &mut self,
        plan: &BatchPlan,
        requests: &[u32],
        size: impl Fn(u32) -> RequestSize,
    ) -> Vec<(u32, Unplanned)> {
        self.lists.assign(plan, &size);
        let mut too_long: Vec<u32> = plan
            .infeasible
            .iter()
            .filter(|infeasible| infeasible.why == InfeasibleReason::TooLong)
            .map(|infeasible| infeasible.request)
            .collect();
        too_long.sort_unstable();
        let mut unplanned = Vec::new();
        for &index in requests {
            if self.lists.is_unassigned(index) {
                self.lists.describe(index, size(index));
                let is_too_long = too_long.binary_search(&index).is_ok();
                unplanned.push((index, if is_too_long { Unplanned::TooLong } else { Unplanned::Missing }));
            }
        }
        unplanned
    }

    /// Parks unassigned requests until there is a pod for them.
    pub(super) fn park(&mut self, requests: Vec<u32>, size: impl Fn(u32) -> RequestSize) {
        requests.iter().for_each(|&index| self.lists.describe(index, size(index)));
        self.parked.extend(requests);
    }

    /// The pod in whose list a request is, if it is up and has capacity: for a request that is sent out of order.
    pub(super) fn pod_with_capacity(&self, index: u32) -> Option<usize> {
        let number = self.lists.listed_for(index)?;
        (self.pods[number].health == PodHealth::Up && self.lists.has_room(number, index)).then_some(number)
    }

    /// Marks an unassigned request as done.
    pub(super) fn mark_done(&mut self, index: u32) {
        self.lists.skip(index);
        self.remaining -= 1;
    }

    /// A request that was in flight is done.
    pub(super) fn completed(&mut self) {
        self.remaining -= 1;
    }

    /// Takes a request to probe a pod with: the smallest one that is not started. Of equals the first unassigned one, or the last
    /// listed one.
    pub(super) fn smallest(&self) -> Option<u32> {
        let waiting = (0..self.resumed.len() as u32).filter_map(|index| {
            let order = match self.lists.listed_for(index) {
                Some(_) => (true, u32::MAX - index),
                None if self.lists.is_unassigned(index) => (false, index),
                None => return None,
            };
            Some((self.lists.tokens(index), order, index))
        });
        waiting.min().map(|(.., index)| index)
    }

    /// Whether a pod that is down may recover by itself: it is probed, or will be.
    pub(super) fn may_recover(&self) -> bool {
        self.pods.iter().any(|pod| matches!(pod.health, PodHealth::Down(Some(_)) | PodHealth::Probing))
    }

    /// Whether a request's result is from an earlier run.
    pub(super) fn is_resumed(&self, index: u32) -> bool {
        self.resumed.get(index as usize) == Some(&true)
    }

    /// Requests without a result.
    pub(super) fn remaining(&self) -> usize {
        self.remaining
    }

    /// Requests of the batch.
    pub(super) fn requests(&self) -> usize {
        self.resumed.len()
    }

    /// Requests that are neither in flight nor done.
    pub(super) fn queued(&self) -> usize {
        self.parked.len() + self.lists.waiting()
    }

    /// The pods that are up.
    pub(super) fn pods_up(&self) -> Vec<Pod> {
        self.pods.iter().filter(|pod| pod.health == PodHealth::Up).map(|pod| pod.pod).collect()
    }

    /// All unassigned requests, in order.
    pub(super) fn unassigned(&self) -> Vec<u32> {
        (0..self.resumed.len() as u32).filter(|index| self.lists.is_unassigned(*index)).collect()
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
