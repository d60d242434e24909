//! One pod's part of a batch: the cohorts it has before it, and what it has under way.
//!
//! The rule that must never break: requests of a cohort are begun in their order, and cohorts are begun in theirs.

use std::collections::VecDeque;
use std::time::Instant;

use routing_core::Pod;

use super::config::{Bound, Lead};
use super::result::BatchUsage;

/// One pod's part of a batch.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) pod: Pod,
    pub(super) life: Life,
    pub(super) bound: Bound,
    /// Requests under way or waiting to be tried again, and their tokens.
    pub(super) in_flight: u32,
    pub(super) tokens: u64,
    /// Requests that are not begun.
    pub(super) waiting: usize,
    /// Expected tokens of all that it has not done.
    pub(super) left: u64,
    /// Failures in a row with no answer between.
    pub(super) misses: u32,
    pub(super) tally: LaneTally,
    cohorts: VecDeque<Begun>,
    /// The number of the next cohort: they are told apart by it for as long as the batch lasts.
    next: u64,
}

/// What a pod has done of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaneTally {
    pub(super) succeeded: usize,
    pub(super) failed: usize,
    pub(super) prompt: u64,
    pub(super) cached: u64,
    pub(super) output: u64,
    /// Expected tokens of what it has done.
    pub(super) done: u64,
    /// When it was last done with something.
    pub(super) last: Option<Instant>,
}

/// Whether a pod lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Living,
    /// It has nothing to do. When to look whether it lives again, if ever.
    Dead(Option<Instant>),
    /// It is sent one request, to see.
    Probing,
}

/// A cohort, as far as it is not begun.
#[derive(Debug)]
struct Begun {
    number: u64,
    rest: VecDeque<u32>,
    lead: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its next request goes ahead of the others.
    Closed,
    /// One went ahead.
    Awaited,
    Open,
}

/// A request whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) place: u32,
    /// The cohort that waits for its answer.
    pub(super) leads: Option<u64>,
}

impl Lane {
    pub(super) fn new(pod: Pod, bound: Bound) -> Self {
        Self {
            pod,
            life: Life::Living,
            bound,
            in_flight: 0,
            tokens: 0,
            waiting: 0,
            left: 0,
            misses: 0,
            tally: LaneTally::default(),
            cohorts: VecDeque::new(),
            next: 0,
        }
    }

    /// Adds a cohort behind the others.
    pub(super) fn push(&mut self, requests: VecDeque<u32>, lead: Lead) {
        let lead = if lead == Lead::Ahead && requests.len() > 1 { State::Closed } else { State::Open };
        self.waiting += requests.len();
        self.cohorts.push_back(Begun { number: self.next, rest: requests, lead });
        self.next += 1;
    }

    /// The request whose turn it is: the first of the first cohort that does not wait for an answer. Those that went ahead of
    /// their turn are passed over.
    ///
    /// Cohorts that wait have a request under way each, so there are never many to look at.
    pub(super) fn turn(&mut self, is_waiting: impl Fn(u32) -> bool) -> Option<Turn> {
        let mut at = 0;
        while let Some(cohort) = self.cohorts.get_mut(at) {
            while cohort.rest.front().is_some_and(|place| !is_waiting(*place)) {
                cohort.rest.pop_front();
            }
            match cohort.rest.front() {
                None => _ = self.cohorts.remove(at),
                Some(_) if cohort.lead == State::Awaited => at += 1,
                Some(&place) => {
                    // The last one has nobody to lead.
                    let leads = cohort.lead == State::Closed && cohort.rest.len() > 1;
                    return Some(Turn { place, leads: leads.then_some(cohort.number) });
                }
            }
        }
        None
    }

    /// A request went ahead of its cohort.
    pub(super) fn led(&mut self, cohort: u64) {
        self.set(cohort, State::Awaited);
    }

    /// A request that went ahead has its answer, or failed for good; then another goes ahead.
    pub(super) fn answered(&mut self, cohort: u64, well: bool) {
        self.set(cohort, if well { State::Open } else { State::Closed });
    }

    /// Takes a request out of its cohort: it may come back to another.
    pub(super) fn take(&mut self, place: u32) {
        for cohort in &mut self.cohorts {
            if let Some(at) = cohort.rest.iter().position(|known| *known == place) {
                cohort.rest.remove(at);
                return;
            }
        }
    }

    /// Takes all that is not begun.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = u32> + use<> {
        std::mem::take(&mut self.cohorts).into_iter().flat_map(|cohort| cohort.rest)
    }

    /// Whether it has room for a request of so many tokens.
    pub(super) fn has_room(&self, tokens: u64) -> bool {
        let fits = self.bound.tokens.is_none_or(|most| self.tokens.saturating_add(tokens) <= most);
        self.in_flight == 0 || (self.in_flight < self.bound.requests && fits)
    }

    pub(super) fn done(&mut self, tokens: u64, usage: BatchUsage, well: bool, now: Instant) {
        let tally = &mut self.tally;
        *(if well { &mut tally.succeeded } else { &mut tally.failed }) += 1;
        tally.prompt += u64::from(usage.prompt);
        tally.cached += u64::from(usage.cached);
        tally.output += u64::from(usage.output);
        tally.done += tokens;
        tally.last = Some(now);
    }

    fn set(&mut self, cohort: u64, state: State) {
        // In ascending order, since they are only added at the end.
        if let Ok(at) = self.cohorts.binary_search_by_key(&cohort, |begun| begun.number) {
            self.cohorts[at].lead = state;
        }
    }
}
