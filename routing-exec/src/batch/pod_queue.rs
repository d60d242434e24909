//! Pod queue: a pod's cohorts in order, its health, and its requests in flight.
//!
//! The rule that must never break: requests of a cohort start in their order, and cohorts in theirs.

use std::collections::VecDeque;
use std::time::Instant;

use routing_core::Pod;

use super::config::{CohortStart, ConcurrencyLimit};
use super::result::BatchUsage;

/// A pod's queue.
#[derive(Debug)]
pub(super) struct PodQueue {
    pub(super) pod: Pod,
    pub(super) health: PodHealth,
    pub(super) limit: ConcurrencyLimit,
    /// Requests in flight or backing off, and their tokens.
    pub(super) in_flight: u32,
    pub(super) tokens: u64,
    /// Requests that are not started.
    pub(super) queued: usize,
    /// Expected tokens of all that is not done.
    pub(super) remaining: u64,
    /// Failures without a response between them.
    pub(super) consecutive_failures: u32,
    pub(super) totals: PodTotals,
    cohorts: VecDeque<QueuedCohort>,
    /// The id of the next cohort.
    next_id: u64,
}

/// What a pod has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PodTotals {
    pub(super) succeeded: usize,
    pub(super) failed: usize,
    pub(super) prompt: u64,
    pub(super) cached: u64,
    pub(super) output: u64,
    /// Expected tokens of what is done.
    pub(super) done: u64,
    /// When it last completed a request.
    pub(super) last: Option<Instant>,
}

/// The health of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodHealth {
    Up,
    /// Down, with the time of its next probe, if any.
    Down(Option<Instant>),
    /// One request is in flight to see whether it is up.
    Probing,
}

/// The requests of a cohort that are not started.
#[derive(Debug)]
struct QueuedCohort {
    id: u64,
    requests: VecDeque<u32>,
    state: CohortState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CohortState {
    /// Its next request is the leader.
    LeaderNext,
    /// The others wait for the leader's response.
    LeaderInFlight,
    Open,
}

/// The next request of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NextRequest {
    pub(super) index: u32,
    /// The id of the cohort that waits for its response.
    pub(super) leader_of: Option<u64>,
}

impl PodQueue {
    pub(super) fn new(pod: Pod, limit: ConcurrencyLimit) -> Self {
        Self {
            pod,
            health: PodHealth::Up,
            limit,
            in_flight: 0,
            tokens: 0,
            queued: 0,
            remaining: 0,
            consecutive_failures: 0,
            totals: PodTotals::default(),
            cohorts: VecDeque::new(),
            next_id: 0,
        }
    }

    /// Adds a cohort.
    pub(super) fn push(&mut self, requests: VecDeque<u32>, start: CohortStart) {
        let leads = start == CohortStart::LeaderFirst && requests.len() > 1;
        let state = if leads { CohortState::LeaderNext } else { CohortState::Open };
        self.queued += requests.len();
        self.cohorts.push_back(QueuedCohort { id: self.next_id, requests, state });
        self.next_id += 1;
    }

    /// The first request of the first cohort that does not wait for its leader. Requests that were sent out of order are dropped
    /// from it.
    ///
    /// A cohort that waits has a request in flight, so few are passed over.
    pub(super) fn next_request(&mut self, is_queued: impl Fn(u32) -> bool) -> Option<NextRequest> {
        let mut at = 0;
        while let Some(cohort) = self.cohorts.get_mut(at) {
            while cohort.requests.front().is_some_and(|index| !is_queued(*index)) {
                cohort.requests.pop_front();
            }
            match cohort.requests.front() {
                None => _ = self.cohorts.remove(at),
                Some(_) if cohort.state == CohortState::LeaderInFlight => at += 1,
                Some(&index) => {
                    // The last one has none to lead.
                    let leads = cohort.state == CohortState::LeaderNext && cohort.requests.len() > 1;
                    return Some(NextRequest { index, leader_of: leads.then_some(cohort.id) });
                }
            }
        }
        None
    }

    /// A cohort's leader is in flight.
    pub(super) fn leader_started(&mut self, cohort: u64) {
        self.set(cohort, CohortState::LeaderInFlight);
    }

    /// A cohort's leader has its response; if it failed, another request leads.
    pub(super) fn leader_done(&mut self, cohort: u64, is_success: bool) {
        self.set(cohort, if is_success { CohortState::Open } else { CohortState::LeaderNext });
    }

    /// Removes a request from its cohort.
    pub(super) fn take(&mut self, index: u32) {
        for cohort in &mut self.cohorts {
            if let Some(at) = cohort.requests.iter().position(|known| *known == index) {
                cohort.requests.remove(at);
                return;
            }
        }
    }

    /// Takes all requests that are not started.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = u32> + use<> {
        std::mem::take(&mut self.cohorts).into_iter().flat_map(|cohort| cohort.requests)
    }

    /// Whether a request of so many tokens is within the pod's limit.
    pub(super) fn has_capacity(&self, tokens: u64) -> bool {
        let fits = self.limit.tokens.is_none_or(|most| self.tokens.saturating_add(tokens) <= most);
        self.in_flight == 0 || (self.in_flight < self.limit.requests && fits)
    }

    pub(super) fn done(&mut self, tokens: u64, usage: BatchUsage, is_success: bool, now: Instant) {
        let totals = &mut self.totals;
        *(if is_success { &mut totals.succeeded } else { &mut totals.failed }) += 1;
        totals.prompt += u64::from(usage.prompt);
        totals.cached += u64::from(usage.cached);
        totals.output += u64::from(usage.output);
        totals.done += tokens;
        totals.last = Some(now);
    }

    fn set(&mut self, cohort: u64, state: CohortState) {
        // Ids ascend.
        if let Ok(at) = self.cohorts.binary_search_by_key(&cohort, |queued| queued.id) {
            self.cohorts[at].state = state;
        }
    }
}
