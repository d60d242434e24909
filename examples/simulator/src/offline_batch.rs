//! Offline batch simulation: all requests are there at the start, pods pull from queues; makespan and computed tokens.

pub(crate) mod bound;
pub(crate) mod cohort_share;
pub(crate) mod planned;

use std::time::Duration;

use pointsman_engine_sim::scheduler::{EngineRequest, Sampled};
use pointsman_engine_sim::virtual_time::{Occurrence, VirtualFleet};

use crate::chains::Chains;
use crate::config::SimConfig;
use crate::prepared_trace::PreparedTrace;
use crate::results::PolicyResult;

/// Where pods pull batch requests from.
pub(crate) trait WorkSource {
    /// The next request for a pod; none if there is none for now. Asked again when something was done.
    fn next(&mut self, pod: usize, now: Duration) -> Option<u32>;

    /// A request is done.
    fn done(&mut self, pod: usize, request: u32, now: Duration);
}

/// Prompts and answers by their place in a batch: how many tokens each has.
pub(crate) type TokenLengths = [(u32, u32)];

/// The metrics of a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfflineBatchResult {
    /// Requests, blocks and computed tokens.
    pub(crate) totals: PolicyResult,
    /// When each pod was done, in virtual µs.
    pub(crate) ends_us: Vec<u64>,
    /// By request: the pod that it was on, and when its first and its last token were there, in virtual µs.
    pub(crate) spans_us: Vec<(usize, u64, u64)>,
}

impl OfflineBatchResult {
    /// When the last pod was done, in virtual µs.
    pub(crate) fn makespan_us(&self) -> u64 {
        self.ends_us.iter().copied().max().unwrap_or(0)
    }

    /// How much later the last pod was done than pods were in the mean: 0 if all ended together.
    pub(crate) fn imbalance(&self) -> f64 {
        let mean = self.ends_us.iter().sum::<u64>() as f64 / self.ends_us.len().max(1) as f64;
        if mean > 0.0 { self.makespan_us() as f64 / mean - 1.0 } else { 0.0 }
    }
}

/// Simulates a batch with a concurrency limit for each pod.
pub(crate) fn simulate_batch(
    lists: &mut dyn WorkSource,
    load: &PreparedTrace<'_>,
    lengths: &TokenLengths,
    config: &SimConfig,
    in_flight: usize,
) -> OfflineBatchResult {
    let engines: Vec<_> = config.pods.iter().map(|(engine, _)| *engine).collect();
    let mut fleet: VirtualFleet<'_, Chains, ()> =
        VirtualFleet::new(engines.iter().copied(), &config.costs, &load.with_answers);
    let (blocks, blocks_known) = load.known;
    let mut totals = PolicyResult { blocks, blocks_known, ..PolicyResult::default() };
    let mut ends_us = vec![0; engines.len()];
    let mut spans_us = vec![(0, 0, 0); lengths.len()];
    let mut outstanding = vec![0; engines.len()];
    let (mut sampled, mut idle) = (Vec::new(), (0..engines.len()).collect::<Vec<_>>());
    loop {
        let now = Duration::from_micros(fleet.now());
        for pod in idle.drain(..) {
            while outstanding[pod] < in_flight {
                let Some(request) = lists.next(pod, now) else { break };
                let (prompt, output) = lengths[request as usize];
                if fleet.submit(pod, EngineRequest { id: request, prompt, output, ..EngineRequest::default() }) {
                    outstanding[pod] += 1;
                } else {
                    totals.refused += 1;
                    lists.done(pod, request, now);
                }
            }
            if let Some(engine) = fleet.start(pod) {
                totals.blocks_hit += engine.admitted().map(|one| u64::from(one.cached_blocks)).sum::<u64>();
                drop(engine.events());
            }
        }
        match fleet.next(&mut sampled) {
            None => break,
            Some(Occurrence::Timer(())) => {}
            Some(Occurrence::Step(step)) => {
                let pod = step.engine;
                for one in step.sampled {
                    match one {
                        Sampled::First(request) => spans_us[request.id as usize] = (pod, fleet.now(), fleet.now()),
                        Sampled::Done(request) => {
                            outstanding[pod] -= 1;
                            totals.requests += 1;
                            ends_us[pod] = fleet.now();
                            spans_us[request.id as usize].2 = fleet.now();
                            lists.done(pod, request.id, Duration::from_micros(fleet.now()));
                        }
                    }
                }
                // Who had nothing to do may have now: lists may move.
                idle.extend((0..outstanding.len()).filter(|&other| other == pod || outstanding[other] == 0));
            }
        }
    }
    totals.prefill_tokens = fleet.totals().iter().map(|pod| pod.prefill_tokens).sum();
    OfflineBatchResult { totals, ends_us, spans_us }
}

/// One FIFO queue for all pods.
#[derive(Debug)]
pub(crate) struct SharedQueue {
    order: std::iter::Peekable<std::vec::IntoIter<u32>>,
    room: KvBudget,
}

impl SharedQueue {
    /// A queue in this order; memory is budgeted by the true lengths of answers.
    pub(crate) fn new(order: Vec<u32>, lengths: &TokenLengths, config: &SimConfig) -> Self {
        Self { order: order.into_iter().peekable(), room: KvBudget::new(lengths, config) }
    }
}

impl WorkSource for SharedQueue {
    fn next(&mut self, pod: usize, _: Duration) -> Option<u32> {
        let next = *self.order.peek()?;
        if !self.room.has(pod, next) {
            return None;
        }
        self.room.take(pod, next);
        self.order.next()
    }

    fn done(&mut self, pod: usize, request: u32, _: Duration) {
        self.room.give(pod, request);
    }
}

/// KV memory of pods against their requests in flight; shared prefixes count for each.
#[derive(Debug)]
struct KvBudget {
    sizes: Vec<u64>,
    /// By pod: tokens of its memory, and of what it has under way.
    pods: Vec<(u64, u64)>,
}

impl KvBudget {
    fn new(lengths: &TokenLengths, config: &SimConfig) -> Self {
        let sizes = lengths.iter().map(|&(prompt, output)| u64::from(prompt) + u64::from(output)).collect();
        Self {
            sizes,
            pods: config.pods.iter().map(|(engine, _)| ((engine.blocks * engine.block_tokens) as u64, 0)).collect(),
        }
    }

    /// Whether a pod has room for a request. One that has nothing under way has room for any.
    fn has(&self, pod: usize, request: u32) -> bool {
        let (room, used) = self.pods[pod];
        used == 0 || used + self.sizes[request as usize] <= room
    }

    fn take(&mut self, pod: usize, request: u32) {
        self.pods[pod].1 += self.sizes[request as usize];
    }

    fn give(&mut self, pod: usize, request: u32) {
        self.pods[pod].1 -= self.sizes[request as usize];
    }
}
