//! A pod's list: cohorts in order, and what it has under way.
//!
//! The rule that must never break: requests of a cohort are begun in their order, and cohorts of a tier in theirs.

use std::collections::VecDeque;

use super::bound::{Bound, ConcurrencyLimit};
use super::entry::{Entry, Place};
use super::moving::Known;
use super::pace::Pace;
use super::work::{TieredWork, Work};
use super::{CohortStart, NextRequest};
use crate::batch::work_stealing::{Side, Tail};
use crate::batch::{BatchConfig, BatchPod, PodPlan};

#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) pod: BatchPod,
    pub(super) is_lost: bool,
    pub(super) bound: Bound,
    pub(super) pace: Pace,
    pub(super) begun: Vec<u32>,
    /// Whether a plan named it, or it was told how large it is: work is moved to no other.
    pub(super) is_described: bool,
    /// Whether its next request is held up by the caller: what it has may go to others, however little that saves.
    pub(super) is_held_up: bool,
    /// Of requests that are not begun, and of those under way.
    pub(super) waiting: TieredWork,
    pub(super) running: Work,
    cohorts: VecDeque<QueuedCohort>,
    next_id: u32,
}

/// A cohort, as far as it is not begun. Some of its requests may have left the list for elsewhere.
#[derive(Clone, Debug)]
pub(super) struct QueuedCohort {
    id: u32,
    /// The least urgent are the last.
    pub(super) tier: u32,
    pub(super) requests: VecDeque<u32>,
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

impl QueuedCohort {
    /// Its requests that are still in this list.
    pub(super) fn live<'a>(&'a self, pod: usize, entries: &'a [Entry]) -> impl DoubleEndedIterator<Item = &'a u32> {
        self.requests.iter().filter(move |request| self.has(**request, pod, entries))
    }

    /// Whether a request is still in this list, and in this cohort: it may have left and come back.
    fn has(&self, request: u32, pod: usize, entries: &[Entry]) -> bool {
        let entry = &entries[request as usize];
        entry.place == Place::Listed(pod as u16) && entry.cohort == self.id
    }
}

impl List {
    pub(super) fn new(pod: BatchPod, limit: ConcurrencyLimit, config: &BatchConfig) -> Self {
        let costs = &config.costs;
        let token = costs.step_alone(f64::from(config.most_running) / 2.0) / pod.speed;
        Self {
            pod,
            is_lost: false,
            bound: Bound::new(limit),
            pace: Pace::new(token),
            begun: Vec::new(),
            is_described: pod.kv_tokens < u64::MAX,
            is_held_up: false,
            waiting: TieredWork::default(),
            running: Work::NONE,
            cohorts: VecDeque::new(),
            next_id: 0,
        }
    }

    /// Takes over what a plan knows of the pod.
    pub(super) fn planned_for(&mut self, part: &PodPlan) {
        (self.pod.kv_tokens, self.pod.speed) = (self.pod.kv_tokens.min(part.kv_tokens), part.speed);
        self.is_described = true;
        self.bound.fit(self.pod.kv_tokens);
    }

    /// Adds a cohort behind those that are as urgent; its requests are of this list already.
    pub(super) fn push(&mut self, tier: u32, requests: VecDeque<u32>, start: CohortStart, entries: &mut [Entry]) {
        if requests.is_empty() {
            return;
        }
        for &request in &requests {
            let entry = &mut entries[request as usize];
            (entry.cohort, entry.tier) = (self.next_id, tier);
            self.waiting.add(entry);
        }
        let leads = start == CohortStart::LeaderFirst && requests.len() > 1;
        let state = if leads { CohortState::LeaderNext } else { CohortState::Open };
        let at = self.cohorts.partition_point(|cohort| cohort.tier <= tier);
        self.cohorts.insert(at, QueuedCohort { id: self.next_id, tier, requests, state });
        self.next_id = self.next_id.wrapping_add(1);
    }

    /// All that it has not begun, in order.
    pub(super) fn requests<'a>(&'a self, pod: usize, entries: &'a [Entry]) -> impl Iterator<Item = u32> + 'a {
        self.cohorts.iter().flat_map(move |cohort| cohort.live(pod, entries).copied())
    }

    /// Forgets its cohorts, of which nothing is left.
    pub(super) fn forget(&mut self) {
        self.cohorts.clear();
    }

    /// The first request of the first cohort that does not wait for its leader. What left the list is dropped from it.
    ///
    /// A cohort that waits has a request under way, so few are passed over.
    pub(super) fn next(&mut self, pod: usize, entries: &[Entry]) -> Option<NextRequest> {
        let mut at = 0;
        while let Some(cohort) = self.cohorts.get_mut(at) {
            while cohort.requests.front().is_some_and(|request| !cohort.has(*request, pod, entries)) {
                cohort.requests.pop_front();
            }
            match cohort.requests.front() {
                None => _ = self.cohorts.remove(at),
                Some(_) if cohort.state == CohortState::LeaderInFlight => at += 1,
                Some(&request) => {
                    // The last one has none to lead.
                    let leads = cohort.state == CohortState::LeaderNext && cohort.requests.len() > 1;
                    return Some(NextRequest { request, leader_of: leads.then_some(cohort.id) });
                }
            }
        }
        None
    }

    pub(super) fn begin(&mut self, next: NextRequest, entry: &Entry) {
        self.begun.push(next.request);
        self.running.add(entry);
        self.bound.begin(entry.held);
        self.pace.works(true, entry.began);
        if let Some(cohort) = next.leader_of {
            self.set(cohort, CohortState::LeaderInFlight);
        }
    }

    pub(super) fn leader_answered(&mut self, cohort: u32, is_success: bool) {
        self.set(cohort, if is_success { CohortState::Open } else { CohortState::LeaderNext });
    }

    /// A request is no longer under way: it has an answer, of so many tokens if that is known, or none.
    pub(super) fn end(&mut self, request: u32, entry: &Entry, answer: Option<Option<u32>>, now: f64) {
        let Some(at) = self.begun.iter().position(|known| *known == request) else { return };
        self.begun.swap_remove(at);
        self.running.remove(entry);
        self.bound.end(entry.held);
        self.pace.works(!self.begun.is_empty(), now);
        let Some(output) = answer else { return };
        let ratio = output.map_or(1.0, |output| f64::from(output) / f64::from(entry.output.max(1)));
        self.pace.done += entry.work(ratio);
        if let Some(output) = output {
            self.pace.answer(now - entry.began, output);
        }
        if self.bound.answer(self.pace.share_before_first_token()) {
            self.pace.forget();
        }
    }

    /// How long it has to do, of what is more urgent than `tier`, and of all that is under way.
    pub(super) fn side(&self, tier: Option<u32>, known: &Known<'_>) -> Side {
        let &Known { now, entries, lengths, .. } = known;
        let waiting = self.waiting.expected(tier, lengths);
        let (before, token) = self.pace.line();
        let to_come = |&request: &u32| {
            let entry = &entries[request as usize];
            let generated = (now - entry.began - before).max(0.0) / token;
            (entry.expected_output(lengths) - generated).max(generated * LIVES_ON)
        };
        // At the pace of a pod that has little else to do, as it will be by then.
        let longest = self.begun.iter().map(to_come).fold(0.0, f64::max) * token.min(self.pace.planned);
        let running = self.running.expected(lengths);
        let busy = self.pace.busy(now);
        let usual = known.pace * self.pod.speed;
        // As fast as pods are, but not slower than what it has done, nor faster than what it can have done.
        let shown = (busy > 0.0).then(|| usual.max(self.pace.done / busy).min((self.pace.done + running) / busy));
        let pace = shown.filter(|pace| *pace > 0.0).unwrap_or(usual);
        let under_way = (self.pace.done + running - busy * pace).min(running).max(0.0);
        Side { seconds: (waiting + under_way) / pace, rate: 1.0 / pace, least: longest }
    }

    /// Its cohorts from the end, as far as they are more urgent than `tier` and not gone.
    pub(super) fn tail<'a>(
        &'a self,
        tier: Option<u32>,
        pod: usize,
        entries: &'a [Entry],
    ) -> impl Iterator<Item = &'a QueuedCohort> {
        let end = self.cohorts.partition_point(|cohort| tier.is_none_or(|tier| cohort.tier < tier));
        self.cohorts.range(..end).rev().filter(move |cohort| cohort.live(pod, entries).next().is_some())
    }

    /// Takes whole cohorts from the end, and so many requests of the one before them.
    pub(super) fn split_off(
        &mut self,
        tier: Option<u32>,
        pod: usize,
        tail: Tail,
        entries: &[Entry],
    ) -> Vec<QueuedCohort> {
        let is_urgent = |cohort: &QueuedCohort| tier.is_none_or(|tier| cohort.tier < tier);
        self.cohorts.retain(|cohort| cohort.live(pod, entries).next().is_some());
        let end = self.cohorts.partition_point(is_urgent);
        let from = end - tail.cohorts;
        let mut taken: Vec<QueuedCohort> = self.cohorts.drain(from..end).collect();
        if let Some(cut) = from.checked_sub(1).and_then(|at| self.cohorts.get_mut(at)).filter(|_| tail.requests > 0) {
            let live: Vec<u32> = cut.live(pod, entries).copied().collect();
            let (stays, goes) = live.split_at(live.len() - tail.requests);
            let (stays, goes) = (stays.iter().copied().collect(), goes.iter().copied().collect());
            cut.requests = stays;
            taken.insert(0, QueuedCohort { requests: goes, ..cut.clone() });
        }
        for cohort in &mut taken {
            cohort.requests = cohort.live(pod, entries).copied().collect();
        }
        taken
    }

    fn set(&mut self, cohort: u32, state: CohortState) {
        if let Some(cohort) = self.cohorts.iter_mut().find(|queued| queued.id == cohort) {
            cohort.state = state;
        }
    }
}

/// An answer that is longer than expected is expected to go on for this share of what it has.
const LIVES_ON: f64 = 0.1;
