//! A batch in the gaps of online traffic: what fills them, and by which rule.
//!
//! Each pod has its list of the plan, and begins over when that is done: the batch never ends. A request that needs what the
//! one before it is still computing waits for it, as [`BatchRunner`](routing_exec::batch::BatchRunner) has it by default.
//!
//! The rule that must never break: what is of the batch is counted apart, and nothing of it is an online figure.

use std::collections::HashMap;
use std::sync::Arc;

use routing_core::Pod;
use routing_plugins::load::{BatchAdmission, BatchCrowd, InFlight, LoadGuard, LoadTracker, PodLoad, Work};

use crate::chains::Chains;
use crate::engine::{Job, Sampled};

/// By which rule a batch is begun beside online traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FillRule {
    /// So many at once on each pod, whatever else it does.
    Fixed(u32),
    /// As pods have room, by what the router knows of them; longer prompts in pieces.
    Gaps(BatchAdmission),
    /// The same, but decisions about online requests do not know of the batch.
    Unseen(BatchAdmission),
}

/// A batch, its plan and its prompts behind those of the online traffic.
#[derive(Debug)]
pub struct FillBatch {
    /// Prompts of the online requests, and behind them those of the batch.
    pub chains: Chains,
    /// Where the batch begins among them.
    pub first: u32,
    /// Tokens of prompts and answers, by the place in the batch.
    pub lengths: Vec<(u32, u32)>,
    /// By pod, places in the batch in the order of the plan.
    pub lists: Vec<Vec<u32>>,
}

/// What was done of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FillOutcome {
    /// Requests that were answered.
    pub requests: u64,
    /// Tokens of their prompts.
    pub prompt_tokens: u64,
    /// Tokens of their answers.
    pub output_tokens: u64,
    /// Virtual µs in which that was.
    pub span_us: u64,
}

impl FillOutcome {
    /// Tokens of prompts and answers in a virtual second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        (self.prompt_tokens + self.output_tokens) as f64 * 1e6 / self.span_us.max(1) as f64
    }
}

/// A batch under way.
#[derive(Debug)]
pub(super) struct Fill<'t> {
    batch: &'t FillBatch,
    rule: FillRule,
    block: usize,
    /// Nothing is begun from then on; none for as long as online requests are not all answered.
    pub(super) until: Option<u64>,
    /// What of each pod's load is the batch's.
    own: Arc<LoadTracker>,
    lanes: Vec<Lane>,
    flights: HashMap<u32, Flight>,
    pub(super) outcome: FillOutcome,
}

/// Where a pod is in its list.
#[derive(Clone, Debug, Default)]
struct Lane {
    next: usize,
    /// Tokens of the next request's prompt that went ahead as pieces.
    sent: u32,
    /// The request before, the blocks it found, and whether it still prefills.
    before: Option<(u32, usize)>,
    prefilling: Option<u32>,
}

#[derive(Debug)]
struct Flight {
    pod: usize,
    guards: [Option<LoadGuard>; 2],
    /// Whether more of the same request follows.
    is_piece: bool,
}

impl<'t> Fill<'t> {
    pub(super) fn new((batch, rule): (&'t FillBatch, FillRule), block: usize, until: Option<u64>) -> Self {
        let lanes = vec![Lane::default(); batch.lists.len()];
        let (own, flights, outcome) = (Arc::default(), HashMap::new(), FillOutcome::default());
        Self { batch, rule, block, until, own, lanes, flights, outcome }
    }

    pub(super) fn chains(&self) -> &'t Chains {
        &self.batch.chains
    }

    /// The next request, or piece of one, that a pod may begin now; `begin` counts it where the router sees it.
    pub(super) fn next(
        &mut self,
        (pod, handles): (usize, &[Pod]),
        load: &PodLoad,
        begin: impl FnOnce(Work) -> LoadGuard,
    ) -> Option<Job> {
        let list = self.batch.lists.get(pod)?;
        let place = *list.get(self.lanes[pod].next % list.len().max(1))?;
        let request = self.batch.first + place;
        if self.flights.contains_key(&request) {
            // A short list begins over no sooner than this one is answered.
            return None;
        }
        let held = self.held(pod, request)?;
        let (prompt, output) = self.batch.lengths[place as usize];
        let there = ((held * self.block) as u32).max(self.lanes[pod].sent).min(prompt - 1);
        let whole = Work::of(prompt.into()).held(there.into()).output(output.into());
        let (work, job) = match self.rule {
            FillRule::Gaps(rule) | FillRule::Unseen(rule) if whole.uncached_tokens > rule.most_prefill => {
                let piece = (rule.most_prefill as usize / self.block).max(1) * self.block;
                let prompt = there / self.block as u32 * self.block as u32 + piece as u32;
                let work = Work::of(prompt.into()).held(there.into()).output(1);
                (work, Job { request, prompt, output: 1, received: false, filler: true })
            }
            _ => (whole, Job { request, prompt, output, received: false, filler: true }),
        };
        let own = self.own.in_flight(handles[pod].id());
        let seen = matches!(self.rule, FillRule::Gaps(_) | FillRule::Fixed(_));
        let load = if seen { *load } else { with(*load, &own) };
        if !self.admits(handles, &load, &own, work) {
            return None;
        }
        let is_piece = job.prompt < prompt;
        let lane = &mut self.lanes[pod];
        (lane.sent, lane.prefilling, lane.before) = (0, Some(request), Some((request, held)));
        if is_piece {
            lane.sent = job.prompt
        } else {
            lane.next += 1
        }
        let guards = [seen.then(|| begin(work)), Some(self.own.begin(handles[pod], work))];
        self.flights.insert(request, Flight { pod, guards, is_piece });
        Some(job)
    }

    /// Takes note of what became of a request.
    pub(super) fn sampled(&mut self, sampled: Sampled) {
        let (Sampled::First(job) | Sampled::Done(job)) = sampled;
        let Some(flight) = self.flights.get_mut(&job.request) else { return };
        let lane = &mut self.lanes[flight.pod];
        if lane.prefilling == Some(job.request) {
            lane.prefilling = None;
        }
        if matches!(sampled, Sampled::First(_)) {
            return flight.guards.iter_mut().flatten().for_each(LoadGuard::first_token);
        }
        if !flight.is_piece {
            self.outcome.requests += 1;
            self.outcome.prompt_tokens += u64::from(job.prompt);
            self.outcome.output_tokens += u64::from(job.output);
        }
        self.flights.remove(&job.request);
    }

    /// A request that its pod has no room for: the one after it is the next.
    pub(super) fn refused(&mut self, job: Job) {
        let Some(flight) = self.flights.remove(&job.request) else { return };
        let lane = &mut self.lanes[flight.pod];
        let next = lane.next + usize::from(flight.is_piece);
        *lane = Lane { next, ..Lane::default() };
    }

    /// How many requests a pod's list has.
    pub(super) fn len(&self, pod: usize) -> usize {
        self.batch.lists.get(pod).map_or(0, Vec::len)
    }

    fn admits(&self, handles: &[Pod], load: &PodLoad, own: &InFlight, work: Work) -> bool {
        match self.rule {
            FillRule::Fixed(most) => own.requests < most,
            FillRule::Gaps(rule) | FillRule::Unseen(rule) => {
                let busy = handles.iter().filter(|pod| self.own.in_flight(pod.id()).requests > 0).count();
                rule.admits(load, own, work, BatchCrowd { pods: handles.len(), busy })
            }
        }
    }

    /// Blocks that a pod should hold of its next request, from the one before; none if that still computes some of them.
    fn held(&self, pod: usize, request: u32) -> Option<usize> {
        let lane = &self.lanes[pod];
        let Some((before, found)) = lane.before else { return Some(0) };
        if before == request {
            // Pieces of one request.
            return lane.prefilling.is_none().then_some(found);
        }
        let (one, other) = (self.batch.chains.get(before), self.batch.chains.get(request));
        let shared = one.iter().zip(other).take_while(|(one, other)| one == other).count();
        (shared <= found || lane.prefilling.is_none()).then_some(shared)
    }
}

/// A pod's load with what the router was not told of.
fn with(load: PodLoad, own: &InFlight) -> PodLoad {
    let mut all = load;
    all.in_flight.requests += own.requests;
    all.in_flight.prefilling += own.prefilling;
    all.in_flight.prompt_tokens += own.prompt_tokens;
    all.in_flight.uncached_tokens += own.uncached_tokens;
    all.in_flight.output_tokens += own.output_tokens;
    all
}

#[cfg(test)]
mod tests {
    use kv_index::BlockHash;
    use pointsman_lab::trace::made::Made;

    use super::*;
    use crate::config::SimConfig;
    use crate::online::{Load, simulate, simulate_together};
    use crate::policy::Policy;

    /// Prompts of 900 tokens behind online ones, answers of 100.
    fn batch(online: &Load<'_>, pods: usize) -> FillBatch {
        let mut chains = online.chains().clone();
        let first = chains.len() as u32;
        (0..2_000).for_each(|at| chains.push([BlockHash::new(0xF111 << 32 | at)].into_iter()));
        let lists = (0..pods as u32).map(|pod| (0..2_000).filter(|at| at % pods as u32 == pod).collect()).collect();
        FillBatch { chains, first, lengths: vec![(900, 100); 2_000], lists }
    }

    #[test]
    fn a_list_that_a_pod_refuses_or_that_is_short_ends_with_the_online_requests() {
        let trace = Made::Rag.trace(20, 3).at_rate(6.0, 3);
        let (load, config) = (Load::new(&trace), SimConfig::mixed(2, 60_000, trace.block));
        let policy = Policy::find("round_robin").unwrap();
        for rule in [FillRule::Fixed(64), FillRule::Gaps(BatchAdmission::default())] {
            let mut batch = batch(&load, 2);
            batch.lists = vec![vec![0, 2, 4], vec![1, 3]];
            let (online, short) = simulate_together(&policy, &load, &config, (&batch, rule), None).unwrap();
            assert_eq!(online.requests, 20);
            assert!(short.requests > 5, "{rule:?}: begun over and over, {short:?}");
            batch.lengths = vec![(60_000, 100); 2_000];
            // A pod without a list has nothing to begin.
            batch.lists.pop();
            let (online, refused) = simulate_together(&policy, &load, &config, (&batch, rule), None).unwrap();
            assert_eq!((online.requests, refused.requests), (20, 0), "{rule:?}");
        }
    }

    #[test]
    fn the_rule_costs_those_who_wait_little_and_no_rule_costs_them_much() {
        let trace = Made::Rag.trace(600, 3).at_rate(6.0, 3);
        let (load, config) = (Load::new(&trace), SimConfig::mixed(4, 200_000, trace.block));
        let policy = Policy::find("lmetric").unwrap();
        let (batch, p90) = (batch(&load, 4), |outcome: &crate::outcome::Outcome| outcome.ttft.quantile(0.9));
        let alone = simulate(&policy, &load, &config, &mut |_| {}).unwrap();
        let with = |rule| simulate_together(&policy, &load, &config, (&batch, rule), None).unwrap();
        let (ruled, done) = with(FillRule::Gaps(BatchAdmission::default()));
        let (naive, _) = with(FillRule::Fixed(64));
        assert_eq!([ruled.requests, naive.requests], [alone.requests; 2], "the batch is counted apart");
        assert_eq!(ruled.output_tokens, alone.output_tokens);
        assert!(done.requests > 50 && done.span_us > 0 && done.rate() > 0.0, "{done:?}");
        let (alone, ruled, naive) = (p90(&alone).unwrap(), p90(&ruled).unwrap(), p90(&naive).unwrap());
        assert!(ruled < 1.25 * alone && naive > 1.5 * alone, "{alone} {ruled} {naive}");
    }
}
