//! Run-time queues of a batch plan: a list for each pod, with work stealing by pods that run dry.
//!
//! A plan is made of estimates, so pods end apart however even it was. Whoever runs dry takes the tail of the list of the pod
//! with the most expected work left ([`tail`]): it is what that pod would begin last, so nobody waits for it, and cohorts
//! stay whole as far as that goes.
//!
//! The rule that must never break: every request of the plan is given out once, and again only if the pod that had it was
//! lost (`tests/batch/work_stealing.rs`).

use std::collections::VecDeque;

use super::work_stealing::{Part, Side, Tail, tail};
use super::{BatchConfig, BatchPlan, BatchPod, BatchRequest, Cohort};

/// A plan's lists, as pods work them off. No clock, no chance: equal calls give equal answers.
///
/// # Example
///
/// ```
/// use kv_index::{BlockHash, Config, Index};
/// # use routing_core::batch::BatchCosts;
/// use routing_core::batch::{BatchConfig, BatchPlanner, BatchPod, BatchQueues, BatchRequest, ColdCaches};
///
/// let index: Index = Index::new(Config::default());
/// let pods = ["a", "b"].map(|name| index.join(name).map(|pod| BatchPod { pod, kv_tokens: 100_000, speed: 1.0 }));
/// let pods: Vec<_> = pods.into_iter().collect::<Result<_, _>>()?;
/// let chains: Vec<[BlockHash; 1]> = (0..8).map(|at| [BlockHash::new(at)]).collect();
/// let request = |chain| BatchRequest { chain, prompt_tokens: 20, output_tokens: 100, deadline: None };
/// let requests: Vec<_> = chains.iter().map(|chain| request(chain)).collect();
///
/// # let costs = BatchCosts::ZERO.prompt_token(28.8e-6).attended_pair(8.51e-10).step(17.1e-3);
/// # let costs = costs.output_token(60.7e-6).context_token(3.34e-7);
/// let config = BatchConfig::new(costs);
/// let plan = BatchPlanner::new(config).plan(&requests, &pods, &mut ColdCaches)?;
/// let mut queues = BatchQueues::new(&plan, &requests, &pods, &config);
/// // The second pod is slow to begin: the first one is done with its own four, and takes over three more. The last one would
/// // not be done earlier by going too.
/// let mut done = 0;
/// while let Some(request) = queues.next(0) {
///     queues.done(0, request);
///     done += 1;
/// }
/// assert_eq!((done, queues.moved(), queues.waiting()), (7, 3, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchQueues {
    lists: Vec<List>,
    moved: usize,
    /// Seconds to compute so many leading blocks: by the costs and tokens of a block.
    config: BatchConfig,
}

/// What a pod has before it, and under way.
#[derive(Clone, Debug)]
struct List {
    cohorts: VecDeque<Rest>,
    begun: Vec<Entry>,
    /// Seconds of all that is not begun and of all that is under way, at speed 1.
    left: f64,
    running: f64,
    speed: f64,
    kv_tokens: u64,
    is_lost: bool,
}

/// A cohort, as far as it is not begun.
#[derive(Clone, Debug)]
struct Rest {
    requests: VecDeque<Entry>,
    /// Leading blocks that all share, and that its first one shares with what came before it.
    shared: u32,
    near: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    request: u32,
    /// Seconds that it adds to what its pod has to do, behind the others of its cohort.
    work: f64,
    /// Tokens that it needs room for.
    room: u64,
}

impl BatchQueues {
    /// The lists of a plan for `requests` over `pods`, both as the planner was given them. Pods are told by their place
    /// among `pods`; what the plan has for others is nobody's until somebody runs dry.
    #[must_use]
    pub fn new(plan: &BatchPlan, requests: &[BatchRequest<'_>], pods: &[BatchPod], config: &BatchConfig) -> Self {
        let mut lists: Vec<List> = pods.iter().map(List::of).collect();
        for part in &plan.pods {
            let at = pods.iter().position(|pod| pod.pod == part.pod);
            let list = match at {
                Some(at) => &mut lists[at],
                None => {
                    lists.push(List { is_lost: true, ..List::EMPTY });
                    let last = lists.len() - 1;
                    &mut lists[last]
                }
            };
            let mut near = 0;
            for cohort in &part.cohorts {
                list.push(Rest::of(cohort, near.min(cohort.shared_blocks), requests, list.kv_tokens, config));
                near = cohort.keep_blocks;
            }
            list.scale(part.takes.as_secs_f64());
        }
        Self { lists, moved: 0, config: *config }
    }

    /// The next request for a pod; from another's list if its own is empty. None if there is nothing that is worth moving, or
    /// for which it has room at all.
    pub fn next(&mut self, pod: usize) -> Option<u32> {
        if self.lists.get(pod)?.is_lost {
            return None;
        }
        if self.lists[pod].cohorts.is_empty() {
            self.move_to(pod)?;
        }
        let list = &mut self.lists[pod];
        let cohort = list.cohorts.front_mut()?;
        let entry = cohort.requests.pop_front()?;
        if cohort.requests.is_empty() {
            list.cohorts.pop_front();
        }
        list.left = if list.cohorts.is_empty() { 0.0 } else { (list.left - entry.work).max(0.0) };
        list.running += entry.work;
        list.begun.push(entry);
        Some(entry.request)
    }

    /// The request that [`next`](Self::next) would give a pod from its own list.
    #[must_use]
    pub fn peek(&self, pod: usize) -> Option<u32> {
        Some(self.lists.get(pod)?.cohorts.front()?.requests.front()?.request)
    }

    /// A request is done, well or not. One that the pod does not have is passed over.
    pub fn done(&mut self, pod: usize, request: u32) {
        let Some(list) = self.lists.get_mut(pod) else { return };
        if let Some(at) = list.begun.iter().position(|entry| entry.request == request) {
            let entry = list.begun.swap_remove(at);
            list.running = if list.begun.is_empty() { 0.0 } else { (list.running - entry.work).max(0.0) };
        }
    }

    /// A pod is lost: it gets nothing more, and all that it had is for the others, what was under way too.
    pub fn lost(&mut self, pod: usize) {
        let Some(list) = self.lists.get_mut(pod) else { return };
        (list.is_lost, list.running) = (true, 0.0);
        let mut begun = std::mem::take(&mut list.begun);
        begun.sort_unstable_by_key(|entry| entry.request);
        for entry in begun {
            list.push(Rest { requests: [entry].into(), shared: 0, near: 0 });
        }
    }

    /// Requests that are not begun.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lists.iter().flat_map(|list| &list.cohorts).map(|cohort| cohort.requests.len()).sum()
    }

    /// Requests that went from one pod's list to another's so far.
    #[must_use]
    pub fn moved(&self) -> usize {
        self.moved
    }

    /// Moves the tail of the longest list that has one worth moving.
    fn move_to(&mut self, to: usize) -> Option<()> {
        let seconds = |list: &List| (list.left + list.running) / list.speed;
        let mut others: Vec<usize> = (0..self.lists.len()).filter(|&at| !self.lists[at].cohorts.is_empty()).collect();
        // What nobody would do comes first; of equal ones the first.
        others.sort_by(|&a, &b| {
            let (a, b) = (&self.lists[a], &self.lists[b]);
            b.is_lost.cmp(&a.is_lost).then(seconds(b).total_cmp(&seconds(a)))
        });
        let taken = others.into_iter().find_map(|from| self.take_from(from, to))?;
        for rest in taken {
            self.moved += rest.requests.len();
            self.lists[to].push(rest);
        }
        Some(())
    }

    /// Takes what `to` should have of `from`'s list.
    fn take_from(&mut self, from: usize, to: usize) -> Option<Vec<Rest>> {
        let (side, room) = (self.lists[to].side(), self.lists[to].kv_tokens);
        let list = &mut self.lists[from];
        let again = |blocks: u32| self.config.costs.prefill(0, blocks.saturating_mul(self.config.block_tokens.get()));
        let fitting = list.cohorts.iter().rev().take_while(|rest| rest.requests.iter().all(|entry| entry.room <= room));
        let parts = fitting.map(|rest| Part {
            works: rest.requests.iter().map(|entry| entry.work),
            again: again(rest.near),
            split: again(rest.shared),
        });
        let found = tail(list.side(), side, parts);
        let found = found.or_else(|| list.is_lost.then(|| list.last_that_fits(room)).flatten())?;
        Some(list.split_off(found.cohorts, found.requests))
    }
}

impl List {
    const EMPTY: Self = Self {
        cohorts: VecDeque::new(),
        begun: Vec::new(),
        left: 0.0,
        running: 0.0,
        speed: 1.0,
        kv_tokens: u64::MAX,
        is_lost: false,
    };

    fn of(pod: &BatchPod) -> Self {
        Self { speed: pod.speed, kv_tokens: pod.kv_tokens, ..Self::EMPTY }
    }

    fn push(&mut self, rest: Rest) {
        if !rest.requests.is_empty() {
            self.left += rest.work();
            self.cohorts.push_back(rest);
        }
    }

    /// Makes all work together what the plan says that it takes, if it says so.
    fn scale(&mut self, takes: f64) {
        let by = takes * self.speed / self.left;
        if by.is_finite() && by > 0.0 {
            self.left *= by;
            self.cohorts.iter_mut().flat_map(|rest| &mut rest.requests).for_each(|entry| entry.work *= by);
        }
    }

    fn side(&self) -> Side {
        Side { load: self.left + self.running, speed: self.speed }
    }

    /// The last request, if there is room for it.
    fn last_that_fits(&self, room: u64) -> Option<Tail> {
        let last = self.cohorts.back()?;
        let fits = last.requests.back().is_some_and(|entry| entry.room <= room);
        let whole = last.requests.len() == 1;
        fits.then_some(Tail { cohorts: usize::from(whole), requests: usize::from(!whole) })
    }

    /// Takes whole cohorts from the end, and so many requests of the one before them.
    fn split_off(&mut self, cohorts: usize, requests: usize) -> Vec<Rest> {
        let mut taken: Vec<Rest> = self.cohorts.split_off(self.cohorts.len() - cohorts).into();
        if let Some(cut) = self.cohorts.back_mut().filter(|_| requests > 0) {
            let (shared, at) = (cut.shared, cut.requests.len() - requests);
            taken.insert(0, Rest { requests: cut.requests.split_off(at), shared, near: 0 });
        }
        if let Some(first) = taken.first_mut() {
            first.near = 0;
        }
        let work: f64 = taken.iter().map(Rest::work).sum();
        self.left = if self.cohorts.is_empty() { 0.0 } else { (self.left - work).max(0.0) };
        taken
    }
}

impl Rest {
    fn of(cohort: &Cohort, near: u32, requests: &[BatchRequest<'_>], kv_tokens: u64, config: &BatchConfig) -> Self {
        let entry = |(at, &request): (usize, &u32)| {
            let cached = if at == 0 { near } else { cohort.shared_blocks };
            let known = requests.get(request as usize);
            let (work, room) = known.map_or((0.0, 0), |known| (config.work(known, cached, kv_tokens), known.room()));
            Entry { request, work, room }
        };
        Self { requests: cohort.requests.iter().enumerate().map(entry).collect(), shared: cohort.shared_blocks, near }
    }

    fn work(&self) -> f64 {
        self.requests.iter().map(|entry| entry.work).sum()
    }
}
