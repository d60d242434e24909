//! Queues of a batch plan, with or without work stealing.

use std::num::NonZeroU32;
use std::time::Duration;

use kv_index::{Config, Index};
use pointsman_engine_sim::scheduler::EngineConfig;
use pointsman_lab::SplitMix64;
use routing_core::Role;
use routing_core::batch::{
    BatchConfig, BatchCosts, BatchPlan, BatchPlanner, BatchPod, BatchQueues, BatchRequest, CohortStart, ColdCaches,
    ConcurrencyLimit, NextRequest, RequestSize,
};

use super::{TokenLengths, WorkSource};
use crate::SimulateError;
use crate::chains::Chains;
use crate::config::SimConfig;

/// Output lengths that the planner is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputEstimate {
    /// The truth.
    Exact,
    /// Twice as long for half of the requests, half as long for the others.
    OffByTwo,
    /// Nothing is known.
    None,
}

impl OutputEstimate {
    /// What it says of answers of these lengths.
    pub(crate) fn outputs(self, lengths: &TokenLengths, seed: u64) -> Vec<u32> {
        let mut rng = SplitMix64::new(seed ^ 0x6E55);
        let guess = |&(_, output): &(u32, u32)| match self {
            Self::Exact => output,
            Self::OffByTwo if rng.next_u64() & 1 == 0 => output.saturating_mul(2),
            Self::OffByTwo => (output / 2).max(1),
            Self::None => 0,
        };
        lengths.iter().map(guess).collect()
    }
}

/// Tokens of an answer of which nothing is known.
const UNKNOWN: u32 = 256;

/// Whether idle pods steal work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkStealing {
    /// Each pod does its own queue.
    Off,
    /// A pod with an empty queue steals from another.
    On,
}

/// WorkSource after a plan.
#[derive(Debug)]
pub(crate) struct PlannedQueues {
    plan: BatchPlan,
    queues: BatchQueues,
    lengths: Vec<u32>,
}

impl PlannedQueues {
    /// Plans a batch for a fleet.
    pub(crate) fn new(
        chains: &Chains,
        lengths: &TokenLengths,
        config: &SimConfig,
        guess: OutputEstimate,
        moving: WorkStealing,
    ) -> Result<Self, SimulateError> {
        let outputs = guess.outputs(lengths, config.seed);
        let expected: Vec<_> = lengths.iter().zip(outputs).map(|(&(prompt, _), output)| (prompt, output)).collect();
        // A planner has to be told something.
        let planned = expected.iter().map(|&(prompt, output)| (prompt, if output == 0 { UNKNOWN } else { output }));
        let requests = requests(chains, 0, planned);
        let pods = pods(config)?;
        let planning = planning(config).ok_or(SimulateError::NoPods)?;
        let plan = BatchPlanner::new(planning).plan(&requests, &pods, &mut ColdCaches)?;
        let mut queues =
            BatchQueues::new(requests.len() as u32, planning, CohortStart::Together).moving(moving == WorkStealing::On);
        for pod in pods {
            queues.join(pod, ConcurrencyLimit::default());
        }
        queues.assign(&plan, |request| {
            let (prompt, output) = expected[request as usize];
            RequestSize { prompt, output }
        });
        Ok(Self { plan, queues, lengths: lengths.iter().map(|&(_, output)| output).collect() })
    }

    /// The plan.
    pub(crate) fn plan(&self) -> &BatchPlan {
        &self.plan
    }

    /// Requests that were moved.
    pub(crate) fn moved(&self) -> usize {
        self.queues.moved()
    }

    /// How many a pod was given at a time in the end, in the mean.
    pub(crate) fn bound(&self) -> usize {
        let pods = self.plan.pods.len();
        (0..pods).map(|pod| self.queues.bound(pod) as usize).sum::<usize>() / pods.max(1)
    }
}

impl WorkSource for PlannedQueues {
    fn next(&mut self, pod: usize, now: Duration) -> Option<u32> {
        let next = self.queues.next(pod, now)?;
        self.queues.begin(pod, next, now);
        Some(next.request)
    }

    fn done(&mut self, pod: usize, request: u32, now: Duration) {
        let output = self.lengths[request as usize];
        self.queues.done(pod, NextRequest::alone(request), Some(output), now);
    }
}

/// Requests as planners see them: prompts from this place on, with the tokens of each and of its answer.
pub(crate) fn requests(
    chains: &Chains,
    first: u32,
    lengths: impl Iterator<Item = (u32, u32)>,
) -> Vec<BatchRequest<'_>> {
    let request = |(place, (prompt_tokens, output_tokens))| BatchRequest {
        chain: chains.get(place),
        prompt_tokens,
        output_tokens,
        deadline: None,
    };
    (first..).zip(lengths).map(request).collect()
}

/// Modelled pods as planners see them.
pub(crate) fn pods(config: &SimConfig) -> Result<Vec<BatchPod>, SimulateError> {
    let index: Index = Index::new(Config::default());
    let pod = |(at, (engine, _)): (usize, &(EngineConfig, Role))| {
        let kv_tokens = (engine.blocks * engine.block_tokens) as u64;
        Ok(BatchPod { pod: index.join(&at.to_string())?, kv_tokens, speed: engine.speed })
    };
    config.pods.iter().enumerate().map(pod).collect()
}

/// How a planner plans for modelled pods; none if there are none.
fn planning(config: &SimConfig) -> Option<BatchConfig> {
    let (engine, _) = config.pods.first()?;
    let number = |value: usize| u32::try_from(value).ok().and_then(NonZeroU32::new);
    Some(
        BatchConfig::new(BatchCosts::from(&config.costs))
            .block_tokens(number(engine.block_tokens)?)
            .step_tokens(number(engine.step_tokens)?)
            .most_running(u32::try_from(engine.max_running).ok()?),
    )
}
