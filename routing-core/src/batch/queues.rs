//! Run-time queues of a batch plan: a list for each pod, with work stealing by pods that run dry.
//!
//! A plan is made of estimates, so pods end apart however even it was. Whoever runs dry takes the tail of the list of the pod
//! that would end last ([`tail`]): it is what that pod would begin last, so nobody waits for it, and cohorts stay whole as far as
//! that goes. When a pod would end is worked out anew each time, from what is left of what runs, from how long answers turned out to
//! be, and from how fast the pod turned out to be.
//!
//! The rule that must never break: a request is unassigned, in one list, begun, or done; and it is begun again only after it
//! was given back (`tests/batch/work_stealing.rs`).

mod bound;
mod entry;
mod lengths;
mod list;
mod moving;
mod next_request;
mod pace;
mod work;

use std::collections::VecDeque;
use std::time::Duration;

use kv_index::Pod;

use self::entry::{Entry, Place};
use self::lengths::AnswerLengths;
use self::list::List;
use super::{BatchConfig, BatchCosts, BatchPlan, BatchPod, Cohort};

pub use self::bound::ConcurrencyLimit;
pub use self::entry::RequestSize;
pub use self::next_request::{CohortStart, NextRequest};

/// A plan's lists, as pods work them off. It has no clock and leaves nothing to chance: equal calls give equal answers.
///
/// Times are since the start of the batch, by the caller's clock.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use kv_index::{BlockHash, Config, Index};
/// use routing_core::batch::{BatchConfig, BatchPlanner, BatchPod, BatchQueues, BatchRequest, ColdCaches};
/// use routing_core::batch::{BatchCosts, CohortStart, ConcurrencyLimit, RequestSize};
///
/// let index: Index = Index::new(Config::default());
/// let pods = ["a", "b"].map(|name| index.join(name).map(|pod| BatchPod { pod, kv_tokens: 100_000, speed: 1.0 }));
/// let pods: Vec<_> = pods.into_iter().collect::<Result<_, _>>()?;
/// let chains: Vec<[BlockHash; 1]> = (0..8).map(|at| [BlockHash::new(at)]).collect();
/// let request = |chain| BatchRequest { chain, prompt_tokens: 20, output_tokens: 100, deadline: None };
/// let requests: Vec<_> = chains.iter().map(|chain| request(chain)).collect();
///
/// let config = BatchConfig::new(BatchCosts::TYPICAL);
/// let plan = BatchPlanner::new(config).plan(&requests, &pods, &mut ColdCaches)?;
/// let mut queues = BatchQueues::new(8, config, CohortStart::Together);
/// for pod in pods {
///     queues.join(pod, ConcurrencyLimit::default().requests(1));
/// }
/// queues.assign(&plan, |_| RequestSize { prompt: 20, output: 100 });
///
/// // The second pod does not begin: the first one is done with its own four, and takes over three more. The last one would not be
/// // done earlier by going too.
/// let mut now = Duration::ZERO;
/// let mut done = 0;
/// while let Some(next) = queues.next(0, now) {
///     queues.begin(0, next, now);
///     now += Duration::from_secs(1);
///     queues.done(0, next, Some(100), now);
///     done += 1;
/// }
/// assert_eq!((done, queues.moved(), queues.waiting()), (7, 3, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchQueues {
    entries: Vec<Entry>,
    lists: Vec<List>,
    lengths: AnswerLengths,
    config: BatchConfig,
    start: CohortStart,
    moving: bool,
    moved: usize,
}

impl BatchQueues {
    /// So many requests, all unassigned, and no pods. Costs that are below zero or no numbers are taken as
    /// [`BatchCosts::TYPICAL`].
    #[must_use]
    pub fn new(requests: u32, config: BatchConfig, start: CohortStart) -> Self {
        let mut queues = Self {
            entries: Vec::new(),
            lists: Vec::new(),
            lengths: AnswerLengths::default(),
            config: if config.costs.are_sound() { config } else { config.costs(BatchCosts::TYPICAL) },
            start,
            moving: true,
            moved: 0,
        };
        queues.extend(requests);
        queues
    }

    /// Adds so many requests, unassigned, behind those that there are.
    pub fn extend(&mut self, requests: u32) {
        self.entries.resize(self.entries.len() + requests as usize, Entry::default());
    }

    /// Sets whether work moves; it does unless told.
    #[must_use]
    pub fn moving(mut self, moving: bool) -> Self {
        self.moving = moving;
        self
    }

    /// Adds a pod with nothing to do, or marks one that was lost as there; the number that it has in all other calls, or nothing if
    /// there are 65,536 already. Where its cache is `u64::MAX` tokens, nothing is moved to it before a plan has named it.
    pub fn join(&mut self, pod: BatchPod, limit: ConcurrencyLimit) -> Option<usize> {
        if let Some(known) = self.number(pod.pod) {
            let list = &mut self.lists[known];
            if std::mem::take(&mut list.is_lost) {
                list.bound.renew();
            }
            return Some(known);
        }
        let number = self.lists.len();
        u16::try_from(number).ok()?;
        self.lists.push(List::new(pod, limit, &self.config));
        Some(number)
    }

    /// The number of a pod.
    #[must_use]
    pub fn number(&self, pod: Pod) -> Option<usize> {
        self.lists.iter().position(|list| list.pod.pod == pod)
    }

    /// Sets a pod's limit.
    pub fn limit(&mut self, pod: usize, limit: ConcurrencyLimit) {
        if let Some(list) = self.lists.get_mut(pod) {
            list.bound.limit(limit);
        }
    }

    /// Puts the requests of a plan into the lists of its pods, behind what is there, but before what is less urgent. Whatever the
    /// plan, only unassigned requests are, and those of pods that are not there stay so.
    pub fn assign(&mut self, plan: &BatchPlan, size: impl Fn(u32) -> RequestSize) {
        for part in &plan.pods {
            let Some(number) = self.number(part.pod).filter(|number| !self.lists[*number].is_lost) else { continue };
            self.lists[number].planned_for(part);
            let (mut near, mut listed, mut work) = (0, Vec::new(), 0.0);
            for cohort in &part.cohorts {
                listed.push((cohort.tier, self.list(number, cohort, near.min(cohort.shared_blocks), &size, &mut work)));
                near = cohort.keep_blocks;
            }
            // All of it together takes what the plan says, if it says so.
            let list = &mut self.lists[number];
            let by = part.takes.as_secs_f64() * list.pod.speed / work;
            let by = if by.is_finite() && by > 0.0 { by } else { 1.0 };
            for (tier, requests) in listed {
                requests.iter().for_each(|&request| self.entries[request as usize].scale(by));
                list.push(tier, requests, self.start, &mut self.entries);
            }
        }
    }

    /// Those of a cohort that are unassigned, which are now of this list; `near` blocks of the first one are there. Adds up what all of
    /// the cohort takes.
    fn list(
        &mut self,
        number: usize,
        cohort: &Cohort,
        near: u32,
        size: impl Fn(u32) -> RequestSize,
        work: &mut f64,
    ) -> VecDeque<u32> {
        let kv_tokens = self.lists[number].pod.kv_tokens;
        let mut requests = VecDeque::with_capacity(cohort.requests.len());
        for (at, &request) in cohort.requests.iter().enumerate() {
            let Some(entry) = self.entries.get_mut(request as usize) else { continue };
            let size = size(request);
            let shared =
                (if at == 0 { near } else { cohort.shared_blocks }).saturating_mul(self.config.block_tokens.get());
            let cached = cohort.new_tokens.get(at).map_or(shared, |new| size.prompt.saturating_sub(*new));
            let planned = Entry::new(number, size, cached, kv_tokens, &self.config);
            *work += planned.work(1.0);
            if entry.place == Place::Unassigned {
                *entry = planned;
                requests.push_back(request);
            }
        }
        requests
    }

    /// Says how large a request is that is in no plan.
    pub fn describe(&mut self, request: u32, size: RequestSize) {
        if let Some(entry) = self.entries.get_mut(request as usize).filter(|entry| entry.place == Place::Unassigned) {
            *entry = Entry::unassigned(size, &self.config);
        }
    }

    /// The next request for a pod that has room for it now; from another's list if its own is empty, or holds nothing as urgent.
    pub fn next(&mut self, pod: usize, now: Duration) -> Option<NextRequest> {
        if self.lists.get(pod)?.is_lost || !self.lists[pod].bound.has_room(0) {
            return None;
        }
        if self.moving && !self.lists[pod].is_held_up {
            self.move_to(pod, now.as_secs_f64());
        }
        let list = &mut self.lists[pod];
        let next = list.next(pod, &self.entries)?;
        let tokens = self.entries[next.request as usize].tokens(&self.lengths);
        list.bound.has_room(tokens).then_some(next)
    }

    /// Says whether a pod's next request is held up, by who sends it: then nothing is moved to it, and what it has may go to others.
    pub fn hold_up(&mut self, pod: usize, is_held_up: bool) {
        if let Some(list) = self.lists.get_mut(pod) {
            list.is_held_up = is_held_up;
        }
    }

    /// Whether a pod has room for a request now, in whose list ever it is.
    #[must_use]
    pub fn has_room(&self, pod: usize, request: u32) -> bool {
        let Some((list, entry)) = self.lists.get(pod).zip(self.entries.get(request as usize)) else { return false };
        !list.is_lost && list.bound.has_room(entry.tokens(&self.lengths))
    }

    /// A request is begun by a pod, which may be another than the one that had it, and whether or not it has room.
    pub fn begin(&mut self, pod: usize, next: NextRequest, now: Duration) {
        let tokens = self.entries[next.request as usize].tokens(&self.lengths);
        self.unlist(next.request);
        let entry = &mut self.entries[next.request as usize];
        debug_assert_eq!(entry.place, Place::Unassigned, "begun twice: {}", next.request);
        (entry.place, entry.began, entry.held) = (Place::Begun(pod as u16), now.as_secs_f64(), tokens);
        self.lengths.begin(entry);
        self.lists[pod].begin(next, entry);
    }

    /// The response to a request begins: if it is a cohort's first, the others may follow before it is [done](Self::done).
    pub fn answering(&mut self, pod: usize, next: NextRequest) {
        self.settle(pod, next, true);
    }

    /// A request has its answer, of so many tokens if that is known.
    pub fn done(&mut self, pod: usize, next: NextRequest, output: Option<u32>, now: Duration) {
        self.end(pod, next, Some(output), now.as_secs_f64());
        self.entries[next.request as usize].place = Place::Done;
    }

    /// A request has failed for good. If it was a cohort's first, another one leads.
    pub fn failed(&mut self, pod: usize, next: NextRequest, now: Duration) {
        self.end(pod, next, None, now.as_secs_f64());
        self.entries[next.request as usize].place = Place::Done;
    }

    /// A request that was begun is unassigned again. If it was a cohort's first, another one leads.
    pub fn give_back(&mut self, next: NextRequest, now: Duration) {
        if let Place::Begun(pod) = self.entries[next.request as usize].place {
            self.end(usize::from(pod), next, None, now.as_secs_f64());
            self.entries[next.request as usize].place = Place::Unassigned;
        }
    }

    /// An unassigned request has its result from elsewhere.
    pub fn skip(&mut self, request: u32) {
        if let Some(entry) = self.entries.get_mut(request as usize).filter(|entry| entry.place == Place::Unassigned) {
            entry.place = Place::Done;
        }
    }

    /// A pod is lost: it gets nothing more. What it had in its list is unassigned, and returned; what it had begun is the caller's
    /// to [give back](Self::give_back).
    pub fn lose(&mut self, pod: usize) -> Vec<u32> {
        let Some(list) = self.lists.get_mut(pod) else { return Vec::new() };
        list.is_lost = true;
        self.clear(pod)
    }

    /// Unassigns all that a pod has in its list, and returns it.
    pub fn clear(&mut self, pod: usize) -> Vec<u32> {
        let Some(list) = self.lists.get_mut(pod) else { return Vec::new() };
        let listed: Vec<u32> = list.requests(pod, &self.entries).collect();
        listed.iter().for_each(|&request| self.unlist(request));
        self.lists[pod].forget();
        listed
    }

    /// Tells a pod that it is overloaded, by a push-back of its own: it is given less at a time.
    pub fn push_back(&mut self, pod: usize) {
        if let Some(list) = self.lists.get_mut(pod) {
            list.bound.push_back();
        }
    }

    /// Requests in lists.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lists.iter().map(|list| list.waiting.requests()).sum()
    }

    /// Requests in a pod's list.
    #[must_use]
    pub fn waiting_for(&self, pod: usize) -> usize {
        self.lists.get(pod).map_or(0, |list| list.waiting.requests())
    }

    /// Requests that a pod has begun and not done.
    #[must_use]
    pub fn running(&self, pod: usize) -> usize {
        self.lists.get(pod).map_or(0, |list| list.begun.len())
    }

    /// How many a pod is given at a time, as found so far.
    #[must_use]
    pub fn bound(&self, pod: usize) -> u32 {
        self.lists.get(pod).map_or(0, |list| list.bound.requests())
    }

    /// How long it takes until the last pod is done with all that it has, by what is known so far.
    #[must_use]
    pub fn remaining(&self, now: Duration) -> Duration {
        let known = self.known(now.as_secs_f64());
        let there = self.lists.iter().filter(|list| !list.is_lost);
        let seconds = there.map(|list| list.side(None, &known).with(0.0)).fold(0.0, f64::max);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Requests that went from one pod's list to another's so far.
    #[must_use]
    pub fn moved(&self) -> usize {
        self.moved
    }

    /// Whether a request is in none of the lists, not begun and not done.
    #[must_use]
    pub fn is_unassigned(&self, request: u32) -> bool {
        self.entries.get(request as usize).is_some_and(|entry| entry.place == Place::Unassigned)
    }

    /// The pod in whose list a request is.
    #[must_use]
    pub fn listed_for(&self, request: u32) -> Option<usize> {
        match self.entries.get(request as usize)?.place {
            Place::Listed(pod) => Some(usize::from(pod)),
            _ => None,
        }
    }

    /// Tokens that a request needs room for, by what is known of answers so far.
    #[must_use]
    pub fn tokens(&self, request: u32) -> u64 {
        self.entries.get(request as usize).map_or(0, |entry| u64::from(entry.tokens(&self.lengths)))
    }

    /// Takes a request out of its list.
    fn unlist(&mut self, request: u32) {
        let entry = &mut self.entries[request as usize];
        if let Place::Listed(pod) = entry.place {
            entry.place = Place::Unassigned;
            self.lists[usize::from(pod)].waiting.remove(entry);
        }
    }

    /// A request is no longer under way: it has an answer, of so many tokens if that is known, or none.
    fn end(&mut self, pod: usize, next: NextRequest, answer: Option<Option<u32>>, now: f64) {
        let entry = &self.entries[next.request as usize];
        self.lengths.end(entry, answer.flatten());
        if let Some(list) = self.lists.get_mut(pod) {
            list.end(next.request, entry, answer, now);
        }
        self.settle(pod, next, answer.is_some());
    }

    /// A cohort's first request has its response, or none.
    fn settle(&mut self, pod: usize, next: NextRequest, is_answered: bool) {
        if let Some((list, cohort)) = self.lists.get_mut(pod).zip(next.leader_of) {
            list.leader_answered(cohort, is_answered);
        }
    }
}
