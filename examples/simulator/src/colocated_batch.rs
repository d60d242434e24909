//! Colocated batch: offline requests admitted beside online traffic.
//!
//! Each pod has its queue of the plan and starts over when it is empty: the batch never ends. A request whose prefix the one
//! before it still computes waits for it, as `routing_exec::batch::BatchRunner` does by default.
//!
//! Invariant: batch requests are counted apart from online metrics.

use std::collections::HashMap;
use std::sync::Arc;

use pointsman_engine_sim::scheduler::{EngineRequest, Sampled};
use routing_core::Pod;
use routing_plugins::load::{BatchAdmission, BatchCrowd, InFlight, LoadGuard, LoadTracker, PodLoad, Work};

use crate::chains::Chains;

/// How batch requests are admitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AdmissionMode {
    /// A fixed concurrency on each pod.
    FixedConcurrency(u32),
    /// By the stock admission rule, from the load that the router knows; long prompts in chunks.
    Admission(BatchAdmission),
    /// The same, with the batch hidden from decisions about online requests.
    HiddenAdmission(BatchAdmission),
}

/// A planned batch; its prompts follow those of the online traffic.
#[derive(Debug)]
pub(crate) struct ColocatedBatch {
    /// Prompts of the online requests, and behind them those of the batch.
    pub(crate) chains: Chains,
    /// Where the batch begins among them.
    pub(crate) first: u32,
    /// Tokens of prompts and answers, by the place in the batch.
    pub(crate) lengths: Vec<(u32, u32)>,
    /// By pod, places in the batch in the order of the plan.
    pub(crate) queues: Vec<Vec<u32>>,
}

/// What was completed of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColocatedBatchResult {
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Tokens of their prompts.
    pub(crate) prompt_tokens: u64,
    /// Tokens of their answers.
    pub(crate) output_tokens: u64,
    /// Virtual µs in which that was.
    pub(crate) span_us: u64,
}

impl ColocatedBatchResult {
    /// Tokens of prompts and answers in a virtual second.
    pub(crate) fn rate(&self) -> f64 {
        (self.prompt_tokens + self.output_tokens) as f64 * 1e6 / self.span_us.max(1) as f64
    }
}

/// Feeds a batch to pods.
#[derive(Debug)]
pub(crate) struct BatchFeeder<'t> {
    batch: &'t ColocatedBatch,
    rule: AdmissionMode,
    block: usize,
    /// Nothing is begun from then on; none for as long as online requests are not all answered.
    pub(crate) until: Option<u64>,
    /// What of each pod's load is the batch's.
    own: Arc<LoadTracker>,
    cursors: Vec<QueueCursor>,
    in_flight: HashMap<u32, InFlightRequest>,
    pub(crate) result: ColocatedBatchResult,
}

/// The position in a pod's queue.
#[derive(Clone, Debug, Default)]
struct QueueCursor {
    next: usize,
    /// Tokens of the next request's prompt that went ahead as chunks.
    sent: u32,
    /// The request before, the blocks it found, and whether it still prefills.
    before: Option<(u32, usize)>,
    prefilling: Option<u32>,
}

#[derive(Debug)]
struct InFlightRequest {
    pod: usize,
    guards: [Option<LoadGuard>; 2],
    /// Whether more of the same request follows.
    is_chunk: bool,
}

impl<'t> BatchFeeder<'t> {
    pub(crate) fn new((batch, rule): (&'t ColocatedBatch, AdmissionMode), block: usize, until: Option<u64>) -> Self {
        let cursors = vec![QueueCursor::default(); batch.queues.len()];
        let (own, in_flight, result) = (Arc::default(), HashMap::new(), ColocatedBatchResult::default());
        Self { batch, rule, block, until, own, cursors, in_flight, result }
    }

    pub(crate) fn chains(&self) -> &'t Chains {
        &self.batch.chains
    }

    /// The next request, or chunk of one, that a pod may begin now; `begin` counts it where the router sees it.
    pub(crate) fn next(
        &mut self,
        (pod, handles): (usize, &[Pod]),
        load: &PodLoad,
        begin: impl FnOnce(Work) -> LoadGuard,
    ) -> Option<EngineRequest> {
        let list = self.batch.queues.get(pod)?;
        let place = *list.get(self.cursors[pod].next % list.len().max(1))?;
        let request = self.batch.first + place;
        if self.in_flight.contains_key(&request) {
            // A short list begins over no sooner than this one is answered.
            return None;
        }
        let held = self.held(pod, request)?;
        let (prompt, output) = self.batch.lengths[place as usize];
        let there = ((held * self.block) as u32).max(self.cursors[pod].sent).min(prompt - 1);
        let whole = Work::of(prompt.into()).held(there.into()).output(output.into());
        let (work, job) = match self.rule {
            AdmissionMode::Admission(rule) | AdmissionMode::HiddenAdmission(rule)
                if whole.uncached_tokens > rule.most_prefill =>
            {
                let chunk = (rule.most_prefill as usize / self.block).max(1) * self.block;
                let prompt = there / self.block as u32 * self.block as u32 + chunk as u32;
                let work = Work::of(prompt.into()).held(there.into()).output(1);
                (work, EngineRequest { id: request, prompt, output: 1, background: true, ..EngineRequest::default() })
            }
            _ => (whole, EngineRequest { id: request, prompt, output, background: true, ..EngineRequest::default() }),
        };
        let own = self.own.in_flight(handles[pod].id());
        let seen = matches!(self.rule, AdmissionMode::Admission(_) | AdmissionMode::FixedConcurrency(_));
        let load = if seen { *load } else { with(*load, &own) };
        if !self.admits(handles, &load, &own, work) {
            return None;
        }
        let is_chunk = job.prompt < prompt;
        let cursor = &mut self.cursors[pod];
        (cursor.sent, cursor.prefilling, cursor.before) = (0, Some(request), Some((request, held)));
        if is_chunk {
            cursor.sent = job.prompt
        } else {
            cursor.next += 1
        }
        let guards = [seen.then(|| begin(work)), Some(self.own.begin(handles[pod], work))];
        self.in_flight.insert(request, InFlightRequest { pod, guards, is_chunk });
        Some(job)
    }

    /// Takes note of what became of a request.
    pub(crate) fn sampled(&mut self, sampled: Sampled) {
        let (Sampled::First(job) | Sampled::Done(job)) = sampled;
        let Some(request) = self.in_flight.get_mut(&job.id) else { return };
        let cursor = &mut self.cursors[request.pod];
        if cursor.prefilling == Some(job.id) {
            cursor.prefilling = None;
        }
        if matches!(sampled, Sampled::First(_)) {
            return request.guards.iter_mut().flatten().for_each(LoadGuard::first_token);
        }
        if !request.is_chunk {
            self.result.requests += 1;
            self.result.prompt_tokens += u64::from(job.prompt);
            self.result.output_tokens += u64::from(job.output);
        }
        self.in_flight.remove(&job.id);
    }

    /// A request that its pod has no room for: the one after it is the next.
    pub(crate) fn refused(&mut self, job: EngineRequest) {
        let Some(request) = self.in_flight.remove(&job.id) else { return };
        let cursor = &mut self.cursors[request.pod];
        let next = cursor.next + usize::from(request.is_chunk);
        *cursor = QueueCursor { next, ..QueueCursor::default() };
    }

    /// How many requests a pod's list has.
    pub(crate) fn len(&self, pod: usize) -> usize {
        self.batch.queues.get(pod).map_or(0, Vec::len)
    }

    fn admits(&self, handles: &[Pod], load: &PodLoad, own: &InFlight, work: Work) -> bool {
        match self.rule {
            AdmissionMode::FixedConcurrency(most) => own.requests < most,
            AdmissionMode::Admission(rule) | AdmissionMode::HiddenAdmission(rule) => {
                let busy = handles.iter().filter(|pod| self.own.in_flight(pod.id()).requests > 0).count();
                rule.admits(load, own, work, BatchCrowd { pods: handles.len(), busy })
            }
        }
    }

    /// Blocks that a pod should hold of its next request, from the one before; none if that still computes some of them.
    fn held(&self, pod: usize, request: u32) -> Option<usize> {
        let cursor = &self.cursors[pod];
        let Some((before, found)) = cursor.before else { return Some(0) };
        if before == request {
            // Pieces of one request.
            return cursor.prefilling.is_none().then_some(found);
        }
        let (one, other) = (self.batch.chains.get(before), self.batch.chains.get(request));
        let shared = one.iter().zip(other).take_while(|(one, other)| one == other).count();
        (shared <= found || cursor.prefilling.is_none()).then_some(shared)
    }
}

/// A pod's load, with the requests that are hidden from the router.
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
    use pointsman_lab::trace::synthetic::Synthetic;

    use super::*;
    use crate::config::SimConfig;
    use crate::online_serving::{simulate, simulate_colocated};
    use crate::policy::Policy;
    use crate::prepared_trace::PreparedTrace;

    /// Prompts of 900 tokens behind online ones, answers of 100.
    fn batch(online: &PreparedTrace<'_>, pods: usize) -> ColocatedBatch {
        let mut chains = online.with_answers.clone();
        let first = chains.len() as u32;
        (0..2_000).for_each(|at| chains.push([BlockHash::new(0xF111 << 32 | at)].into_iter()));
        let queues = (0..pods as u32).map(|pod| (0..2_000).filter(|at| at % pods as u32 == pod).collect()).collect();
        ColocatedBatch { chains, first, lengths: vec![(900, 100); 2_000], queues }
    }

    #[test]
    fn a_list_that_a_pod_refuses_or_that_is_short_ends_with_the_online_requests() {
        let trace = Synthetic::Rag.trace(20, 3).at_rate(6.0, 3);
        let (load, config) = (PreparedTrace::new(&trace), SimConfig::mixed(2, 60_000, trace.block));
        let policy = Policy::find("round_robin").unwrap();
        for rule in [AdmissionMode::FixedConcurrency(64), AdmissionMode::Admission(BatchAdmission::default())] {
            let mut batch = batch(&load, 2);
            batch.queues = vec![vec![0, 2, 4], vec![1, 3]];
            let (online, short) = simulate_colocated(&policy, &load, &config, (&batch, rule), None).unwrap();
            assert_eq!(online.requests, 20);
            assert!(short.requests > 5, "{rule:?}: begun over and over, {short:?}");
            batch.lengths = vec![(60_000, 100); 2_000];
            // A pod without a list has nothing to begin.
            batch.queues.pop();
            let (online, refused) = simulate_colocated(&policy, &load, &config, (&batch, rule), None).unwrap();
            assert_eq!((online.requests, refused.requests), (20, 0), "{rule:?}");
        }
    }

    #[test]
    fn the_rule_costs_those_who_wait_little_and_no_rule_costs_them_much() {
        let trace = Synthetic::Rag.trace(600, 3).at_rate(6.0, 3);
        let (load, config) = (PreparedTrace::new(&trace), SimConfig::mixed(4, 200_000, trace.block));
        let policy = Policy::find("lmetric").unwrap();
        let (batch, p90) = (batch(&load, 4), |result: &crate::results::PolicyResult| result.ttft.quantile(0.9));
        let alone = simulate(&policy, &load, &config, &mut |_| {}).unwrap();
        let with = |rule| simulate_colocated(&policy, &load, &config, (&batch, rule), None).unwrap();
        let (ruled, done) = with(AdmissionMode::Admission(BatchAdmission::default()));
        let (naive, _) = with(AdmissionMode::FixedConcurrency(64));
        assert_eq!([ruled.requests, naive.requests], [alone.requests; 2], "the batch is counted apart");
        assert_eq!(ruled.output_tokens, alone.output_tokens);
        assert!(done.requests > 50 && done.span_us > 0 && done.rate() > 0.0, "{done:?}");
        let (alone, ruled, naive) = (p90(&alone).unwrap(), p90(&ruled).unwrap(), p90(&naive).unwrap());
        assert!(ruled < 1.25 * alone && naive > 1.5 * alone, "{alone} {ruled} {naive}");
    }
}
